"""Which allocator a file's runs have, and what AdamW of PyTorch takes for its step."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.memory.reserve import needed_share, shown_share
from planner.report.estimate_page import kept_free, short_trust
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.libraries.reading.segments import NOTE, allocated
from tests.cases import every
from tests.unit.cost_jobs import job, plan_of, runtime

FIXED = "allocator=fixed"
GROWS = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"


def found(tmp_path: Path, name: str, text: str, runtime: str = "fsdp", *changes: str) -> Imported:
    path = tmp_path / name
    path.write_text(text)
    return allocated(Imported(runtime, {}, {}, changes=changes), path)


@every("name", ["fsdp", "deepspeed"])
def test_segments_are_fixed_where_nothing_lets_them_grow(tmp_path: Path, name: str) -> None:
    own = found(tmp_path, "run.sh", "accelerate launch train.py", name)
    assert (own.changes, own.notes) == ((FIXED,), (NOTE,))
    assert found(tmp_path, "run.sh", GROWS, name) == Imported(name, {}, {})
    assert FIXED in found(tmp_path, "run.sh", GROWS.replace("True", "False"), name).changes


def test_a_script_beside_the_file_and_the_environment_say_so_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert FIXED in found(tmp_path, "axolotl.yaml", "adapter: lora").changes
    (tmp_path / "train.sh").write_text(GROWS)
    assert FIXED not in found(tmp_path, "axolotl.yaml", "adapter: lora").changes
    (tmp_path / "train.sh").unlink()
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    assert FIXED not in found(tmp_path, "axolotl.yaml", "adapter: lora").changes


def test_a_saved_plan_has_what_its_launch_files_set(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("format: planner")
    plan = Imported("fsdp", {}, {}, cluster={"hardware": "dgx-h100"})
    assert allocated(plan, path) == plan


def test_others_keep_the_reserve_that_their_runs_fit(tmp_path: Path) -> None:
    assert found(tmp_path, "run.sh", "torchrun pretrain_gpt.py", "megatron-lm").changes == ()


def test_an_engine_of_its_own_steps_in_the_place_of_adamw(tmp_path: Path) -> None:
    foreach = ("optimizer_traffic=2.86", "optimizer_step=foreach")
    assert found(tmp_path, "run.sh", GROWS, "fsdp", *foreach).changes == foreach
    assert found(tmp_path, "run.sh", GROWS, "deepspeed", *foreach).changes == ()


def test_fixed_segments_need_and_show_more() -> None:
    """7 and 30% of activations and workspace, unless a runtime's own shares are larger."""
    work = job()
    plain, fixed, wide = (
        case_of(plan_of(work), work, runtime(allocator=one, **more))
        for one, more in (
            ("growing", {}),
            ("fixed", {}),
            ("fixed", {"reserve_share": 0.2, "held_share": 0.4}),
        )
    )
    assert (needed_share(plain), shown_share(plain)) == (plain.traits.allocator.reserve_share, 0.0)
    assert [(needed_share(one), shown_share(one)) for one in (fixed, wide)] == [(0.07, 0.3), (0.2, 0.4)]
    stages = [estimate(plan_of(work), work, runtime(allocator=one)).stages[0] for one in ("growing", "fixed")]
    passing = stages[0].activations + stages[0].workspace
    assert stages[1].reserve - stages[0].reserve == pytest.approx((0.07 - needed_share(plain)) * passing)


def test_what_an_allocator_keeps_free_is_told_from_a_gib_on() -> None:
    """Fixed segments show 23% of what passes take beyond what they need."""
    work = job(gpus=1)
    answers = [
        estimate(plan_of(work, micro_batch=size), work, runtime(allocator=kind))
        for size, kind in ((8, "growing"), (1, "fixed"), (8, "fixed"))
    ]
    assert [bool(kept_free(one)) for one in answers] == [False, False, True]
    stage = answers[-1].stages[0]
    free = (0.3 - 0.07) * (stage.activations + stage.workspace)
    assert answers[-1].shown == pytest.approx(answers[-1].peak + free)
    assert f"{answers[-1].shown / 2**30:.1f} GiB in use" in short_trust(answers[-1])[0]
