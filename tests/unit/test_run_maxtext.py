"""MaxText's own words in a run table: sharding, batch and rematerialisation, or a refusal that names them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.calibrate.pricing import Prediction, cost_predictions
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, Skip, prepare
from planner.calibrate.runs.table import Run
from planner.units import GIB
from tests.cases import every

ROW = Run(
    2, "m", gpu="tpu-v6e", gpus_per_node=8, num_gpus=64, model="Llama3.1-70B-MaxText", num_layers=80,
    seq_len=8192, global_batch=128, framework="maxtext", zero="3", step_time_s=18.7,
)  # fmt: skip


def told(notes: str, **values: object) -> PricedRun | Skip:
    return prepare(ROW.with_values({"notes": notes, **values}), shipped_catalogue())


@every(
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


def test_weights_of_16_bits_have_moments_and_gradients_of_16_and_no_copy() -> None:
    # MaxText's base.yml: mu_dtype "inherits from weight_dtype if unset"; optax makes nu like the weights.
    usual, pure = (told(f"per_device_batch_size 2; weight_dtype={kind}") for kind in ("float32", "bfloat16"))
    assert isinstance(usual, PricedRun)
    assert isinstance(pure, PricedRun)
    wide, narrow = cost_predictions([usual, pure])
    assert isinstance(wide, Prediction)
    assert isinstance(narrow, Prediction)
    # 12 bytes of a weight and its two moments become 6; gradients are those of XLA, bf16 already.
    saved = 6.0 * usual.job.model.params / 64 / GIB
    assert wide.allocated_gib - narrow.allocated_gib == pytest.approx(saved, rel=0.02)


@every(
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


def test_a_custom_policy_offloads_all_layers_of_a_model_whose_row_does_not_count_them() -> None:
    found = told(
        "remat_policy=custom; per_device_batch_size 1",
        model="Gemma3-12B-MaxText",
        num_layers=None,
        seq_len=32768,
        global_batch=64,
    )
    assert isinstance(found, PricedRun), found
    assert found.plan.offload == f"activations:{found.job.model.num_layers}"


@every(
    ("values", "notes"),
    [
        ({"num_gpus": 128, "global_batch": 512}, "per_device_batch_size 4; remat_policy=custom"),
        ({"num_gpus": 64, "global_batch": 128}, "per_device_batch_size 2; remat_policy=custom"),
    ],
)
def test_a_program_of_xla_has_no_reserve_and_gathers_no_whole_layer(
    values: dict[str, object], notes: str
) -> None:
    found = told(notes, **values)
    assert isinstance(found, PricedRun), found
    (price,) = cost_predictions([found])
    assert isinstance(price, Prediction)
    assert price.reserve_gib == price.framework_gib == 0.0
    assert price.oom_probability < 0.05
    # GSPMD keeps 14 bytes of each weight over all ranks (fp32 weights, two moments, bf16 gradients) and less
    # than the gathered layer that PyTorch's FSDP has.
    states = 14 * found.job.model.params / found.job.gpus / GIB
    fsdp = replace(found, runtime=shipped_catalogue().runtimes["fsdp"])
    (other,) = cost_predictions([fsdp])
    assert isinstance(other, Prediction)
    assert states < price.allocated_gib < other.allocated_gib
