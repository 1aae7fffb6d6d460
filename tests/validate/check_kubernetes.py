"""Read manifests with Kubeflow's own definitions; run by an interpreter that has jsonschema and PyYAML.

With kubernetes-validate too, pods are checked against the schemas of Kubernetes itself, of RELEASE, strictly.

Takes lines of JSON on stdin, each with the ``manifest`` as text and the folder of its ``definitions``, and
answers each with a line of JSON: what the definition refused, or the object's name. Unknown fields are
refused, as ``kubectl apply --validate=strict`` does. Rules on the whole object are evaluated here.
"""

import contextlib
import functools
import re
from pathlib import Path

import jsonschema
import yaml
from answering import answer_lines

with contextlib.suppress(ImportError):
    import kubernetes_validate

RELEASE = "1.33"
MATCHES = re.compile(r"self\.metadata\.name\.matches\('(.*)'\)")
LENGTH = re.compile(r"size\(self\.metadata\.name\) <= (\d+)")


def strict(schema):
    """Return a structural schema as a JSON schema that refuses what it does not know."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: strict(part) for name, part in schema.items()}
    if found.pop("x-kubernetes-int-or-string", False):
        found = {name: part for name, part in found.items() if name not in ("anyOf", "pattern")}
        found["type"] = ["integer", "string"]
    open_ended = "additionalProperties" in found or found.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(found.get("properties"), dict) and not open_ended:
        found["additionalProperties"] = False
    return found


@functools.cache
def definitions(folder):
    """Return the schema of every resource that a checkout defines, by version and kind."""
    found = {}
    for path in sorted(Path(folder).glob("manifests/base/crds/*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if (document or {}).get("kind") == "CustomResourceDefinition":
                spec = document["spec"]
                for version in spec["versions"]:
                    schema = version["schema"]["openAPIV3Schema"]
                    found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def check_rules(schema, name):
    """Evaluate the rules on the whole object, which speak of its name alone."""
    for rule in schema.get("x-kubernetes-validations", []):
        matches, length = MATCHES.fullmatch(rule["rule"]), LENGTH.fullmatch(rule["rule"])
        if not matches and not length:
            raise ValueError(f"a rule of another form: {rule['rule']}")
        if (matches and not re.search(matches[1], name)) or (length and len(name) > int(length[1])):
            raise ValueError(f"{name}: {rule['message']}")


def pods(value):
    """Yield the specifications of the pods that a resource holds."""
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        for part in value.values():
            yield from pods(part)
    elif isinstance(value, list):
        for part in value:
            yield from pods(part)


def check_pods(document):
    """Check every pod against the schema of Kubernetes; a patch of one needs an image to be whole."""
    if "kubernetes_validate" not in globals():
        return 0
    found = list(pods(document["spec"]))
    for spec in found:
        whole = spec | {"containers": [{"image": "i"} | container for container in spec["containers"]]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": whole}
        kubernetes_validate.validate(pod, RELEASE, strict=True)
    return len(found)


def derive(case):
    """Return what Kubeflow makes of one manifest."""
    document = yaml.safe_load(case["manifest"])
    schema = definitions(case["definitions"])[document["apiVersion"], document["kind"]]
    whole = strict(schema)
    whole["properties"]["metadata"] = {"type": "object"}
    errors = sorted(
        jsonschema.Draft7Validator(whole).iter_errors(document), key=lambda fault: len(fault.path)
    )
    if errors:
        raise ValueError(f"{'/'.join(map(str, errors[0].absolute_path))}: {errors[0].message}")
    check_rules(schema, document["metadata"]["name"])
    return {"name": document["metadata"]["name"], "pods": check_pods(document)}


if __name__ == "__main__":
    answer_lines(derive)
