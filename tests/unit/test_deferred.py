"""What a deferred file raises reaches whoever uses it first, and everyone after."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from planner.deferred import deferred

RAISING = {
    "package": ("import no_such_package", ModuleNotFoundError, "No module named 'no_such"),
    "name": ("from json import nothing_here", ImportError, "name 'nothing_here' from 'json'"),
    "value": ("raise ValueError('17 is no degree')", ValueError, "17 is no degree"),
    "attribute": ("import json; json.nothing", ImportError, "no attribute 'nothing'"),
    "syntax": ("x = = 1", SyntaxError, "invalid syntax"),
}
"""The last line of a file, what it raises, and words of what is told."""


@pytest.mark.parametrize("fault", RAISING)
def test_the_error_of_a_deferred_file_is_told_by_each_way_to_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    line, error, words = RAISING[fault]
    name = f"raising_{fault}"
    (tmp_path / f"{name}.py").write_text(f"first = 1\n{line}\n")
    monkeypatch.setattr("planner.__path__", [str(tmp_path)])
    with deferred():
        exec(f"from planner import {name}")
    module = sys.modules[f"planner.{name}"]
    for use in (f"from planner.{name} import first", f"import planner.{name} as it; it.first", "it.first"):
        with pytest.raises(error, match=words) as raised:
            exec(use, {"it": module})
        assert type(raised.value) is error
    del sys.modules[f"planner.{name}"]
