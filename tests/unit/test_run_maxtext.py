"""MaxText's own words in a run table: sharding, batch and rematerialisation, or a refusal that names them."""

from __future__ import annotations

import pytest

from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, Skip, prepare
from planner.calibrate.runs.table import Run

ROW = Run(
    2, "m", gpu="tpu-v6e", gpus_per_node=8, num_gpus=64, model="Llama3.1-70B-MaxText", num_layers=80,
    seq_len=8192, global_batch=128, framework="maxtext", zero="3", step_time_s=18.7,
)  # fmt: skip


def told(notes: str, **values: object) -> PricedRun | Skip:
    return prepare(ROW.with_values({"notes": notes, **values}), shipped_catalogue())


@pytest.mark.parametrize(
    ("notes", "plan"),
    [
        (
            "per_device_batch_size 2; ici_fsdp_parallelism=-1; remat_policy=full",
            {"tp": 1, "dp": 64, "micro_batch": 2, "recompute": "full", "offload": "none"},
        ),
        (
            "per_device_batch_size: 2, ici_fsdp_parallelism=-1, remat_policy=custom",
            {"dp": 64, "micro_batch": 2, "recompute": "full", "offload": "activations:80"},
        ),
        # Half a sequence for each of four devices that share it.
        (
            "per_device_batch_size=0.5; ici_tensor_parallelism=4; dcn_data_parallelism=2; remat_policy=full",
            {"tp": 4, "dp": 16, "micro_batch": 2},
        ),
        ("ici_sequence_parallelism=2; dcn_tensor_parallelism=2", {"cp": 2, "tp": 2, "dp": 16}),
    ],
)
def test_a_mesh_is_read_as_degrees(notes: str, plan: dict[str, object]) -> None:
    found = told(notes)
    assert isinstance(found, PricedRun), found
    assert {name: getattr(found.plan, name) for name in plan} == plan


@pytest.mark.parametrize(
    ("notes", "word"),
    [
        ("remat_policy=qkv_proj_offloaded", "remat_policy=qkv_proj_offloaded; expected one of full, custom"),
        ("sparse_matmul=False; capacity_factor=1.25", "sparse_matmul=False"),
    ],
)
def test_what_no_plan_says_is_refused_with_its_name(notes: str, word: str) -> None:
    experts = {"model": "mixtral-8x7b", "num_layers": 32, "experts": 8} if "sparse" in notes else {}
    found = told(notes, **experts)
    assert isinstance(found, Skip)
    assert word in found.reason


def test_columns_go_before_words_and_other_programs_are_left_alone() -> None:
    found = told("remat_policy=custom; per_device_batch_size 2", recompute="none", micro_batch=1)
    assert isinstance(found, PricedRun)
    assert (found.plan.recompute, found.plan.micro_batch) == ("none", 1)
    other = told("remat_policy=custom; per_device_batch_size 2", framework="fsdp", gpu="h100")
    assert isinstance(other, PricedRun)
    assert other.plan.offload == "none"
