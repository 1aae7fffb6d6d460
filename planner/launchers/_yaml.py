"""YAML of the files that a scheduler reads: scripts as blocks, placeholders in double quotes."""

from __future__ import annotations

import yaml


class Quoted(str):
    """A text that is written in double quotes, so that what replaces a placeholder can be escaped."""

    __slots__ = ()


class YamlScript(str):
    """A text of several lines that is written as a block."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def _quoted(dumper: _Dumper, text: Quoted) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')


def _script(dumper: _Dumper, text: YamlScript) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|")


_Dumper.add_representer(Quoted, _quoted)
_Dumper.add_representer(YamlScript, _script)


def yaml_text(document: dict[str, object]) -> str:
    """Return one YAML document, keys in the order given."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10_000)


def placeholder(name: str) -> Quoted:
    """Return what stands for a user's variable until the file is submitted."""
    return Quoted(f"{{{{{name}}}}}")
