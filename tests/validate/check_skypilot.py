"""Read tasks with SkyPilot's own command line and task loader; run by an interpreter that has skypilot.

Takes lines of JSON on stdin, each with the ``arguments`` that a script gives to ``sky`` and the
``environment`` in which it does, and answers each with a line of JSON: what SkyPilot refused, or the task
that it would launch. Nothing is launched, and no cloud is asked.
"""

import os

os.environ.setdefault("SKYPILOT_DISABLE_USAGE_COLLECTION", "1")

from answering import answer_lines
from sky.client.cli import command


def derive(case):
    """Return what SkyPilot makes of one start."""
    name, *arguments = case["arguments"]
    kept = dict(os.environ)
    os.environ.update(case["environment"])
    try:
        options = command.cli.commands[name].make_context(name, arguments).params
        entry = options["entrypoint"]
        task = command._make_task_or_dag_from_entrypoint_with_overrides(
            entry if isinstance(entry, tuple) else (entry,), image_id=options["image_id"], env=options["env"]
        )
    finally:
        os.environ.clear()
        os.environ.update(kept)
    (resources,) = task.resources
    return {
        "name": task.name,
        "nodes": task.num_nodes,
        "accelerators": dict(resources.accelerators),
        "image": list(resources.image_id.values()),
        "network": str(resources.network_tier),
        "envs": dict(task.envs),
        "mounts": task.to_yaml_config().get("file_mounts") or {},
        "run": task.run,
    }


if __name__ == "__main__":
    answer_lines(derive)
