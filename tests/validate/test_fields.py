"""The fields that a DeepSpeed JSON is checked by are those of DeepSpeed's own classes."""

from __future__ import annotations

import subprocess

import pytest

from planner.runtimes.deepspeed.reading.deepspeed_fields import TABLE
from planner.runtimes.imports.field_kinds import field_kinds
from tests.helpers import ROOT
from tests.validate.ask import PYTHON

pytestmark = [
    pytest.mark.torch,
    pytest.mark.needs("deepspeed", "no interpreter with deepspeed: make validate"),
]


def test_the_table_is_that_of_the_classes() -> None:
    run = [PYTHON, ROOT / "tests/validate/check_fields.py"]
    printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in printed.splitlines() if not line.startswith("[")]
    found = {section: dict(name.partition(":")[::2] for name in names) for section, *names in lines}
    assert found == field_kinds(TABLE)
