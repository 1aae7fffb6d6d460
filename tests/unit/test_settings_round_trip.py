"""Every setting that files can make is read back from them, one after the other, for every runner."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.cli.estimate import read
from planner.cli.from_file import asked_of
from planner.cli.options import JobOptions, PlanOptions
from planner.cost.estimate import estimate
from planner.runtimes import runtimes
from planner.runtimes.settings import ANY, Value
from tests.unit.test_trait_settings import PLANS, job_for, with_partners, written

NAMED = {
    "megatron-lm": ("train.sh",),
    "megatron-bridge": ("train.py", "train.sh"),
    "deepspeed": ("ds_config.json", "train.sh"),
    "fsdp": ("accelerate.yaml", "train.sh"),
    "nanotron": ("nanotron.yaml", "train.sh"),
    "torchtitan": ("train.sh",),
}
"""Files of each runner that a reader is given."""

ELSEWHERE = ("float8_scales", "tp_exposed")
"""torchtitan's, of another precision and plan: tests/unit/test_torchtitan_choices.py."""

EACH = [
    (name, trait, 12345678.0 if value == ANY else value)
    for name in PLANS
    for trait, values in runtimes()[name].settings.items()
    for value in values
    if name != "torchtitan" or trait not in ELSEWHERE
]


@pytest.mark.parametrize(("name", "trait", "value"), EACH, ids=lambda part: str(part))
def test_a_setting_is_read_back(name: str, trait: str, value: Value, tmp_path: Path) -> None:
    job = job_for(trait, name, value)
    traits = with_partners(name, trait, value)
    for file, text in written(name, job=job, **traits).items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    plain = runtimes()[name]
    changed = plain.with_traits(**traits)
    cluster, shipped, set_now = job.hardware.name, plain.traits.flat(), changed.traits.flat()
    for file in NAMED[name]:
        request = asked_of(tmp_path / file, JobOptions("", hardware=[cluster]), PlanOptions())
        whole, plan, runtime, _, _ = request.read(read)
        assert request.origin is not None
        assert request.origin.found.unknown == ()
        wanted = {key: said for key, said in set_now.items() if said != shipped[key]}
        found = {key: said for key, said in runtime.traits.flat().items() if said != shipped[key]}
        if found != wanted:
            assert estimate(plan, whole, runtime).step == pytest.approx(
                estimate(plan, whole, changed).step, rel=1e-9
            ), (found, wanted)
            assert estimate(plan, whole, runtime).peak == estimate(plan, whole, changed).peak, (found, wanted)
