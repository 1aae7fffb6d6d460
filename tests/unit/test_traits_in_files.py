"""No trait of Megatron-core is priced in silence: it is in the files, refused, or told on the run card."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.errors import UnsupportedPlan
from planner.launchers import Card, Target, launch_files, launchers
from planner.plan import Plan
from planner.remembered import remembered
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.settings import CHOICES
from planner.runtimes.trait_values import words_of
from planner.runtimes.traits import TRAITS
from planner.techniques.engines import ENGINES
from tests.cases import every
from tests.helpers import ROOT
from tests.unit.test_trait_settings import LOW, PLANS, ROUTED, job_for, lines, written
from tests.validate.megatron import cases

RUNTIMES = ("megatron-lm", "megatron-bridge")


@remembered(most=16, records=2)
def plain_files(name: str, job: Job) -> dict[str, str]:
    """Return what is written of a job where no trait is changed."""
    return written(name, job=job)


def others(name: str, trait: str) -> list[Any]:
    """Return values of a trait beside the runtime's own."""
    own = runtimes()[name].traits.value_of(trait)
    if words_of(trait):
        return [word for word in words_of(trait) if word != own]
    if TRAITS[trait].kind is bool:
        return [not own]
    return [value for value in (1.0, 0.25, 0.5) if value != own]


@every("name", RUNTIMES)
@every("trait", TRAITS)
def test_a_changed_trait_is_in_the_files_or_refused_or_told(name: str, trait: str) -> None:
    settings = runtimes()[name].settings.get(trait, ())
    for value in others(name, trait):
        job = job_for(trait, name, value)
        plain = plain_files(name, job)
        try:
            found = written(name, job=job, **{trait: value})
        except UnsupportedPlan:
            alone = trait == "engine" and not ENGINES[value].runs
            assert trait in CHOICES or value in settings or alone, (trait, value)
            continue
        changed = {file for file in plain if found[file] != plain[file]} - {"README.md"}
        told = f"The price assumes {trait} " in found["README.md"]
        assert told != bool(changed), (trait, value, "in files and told" if changed else "in silence")


@every("name", RUNTIMES)
@every("trait", ["dp_exposed", "tp_exposed"])
def test_a_value_without_a_setting_leaves_the_files_as_they_are(name: str, trait: str) -> None:
    """Half of the messages hidden is no setting: the files must not switch overlap off for it."""
    plain, found = written(name, job=LOW), written(name, job=LOW, **{trait: 0.5})
    assert {file for file in plain if found[file] != plain[file]} == {"README.md"}


@every("name", RUNTIMES)
def test_copies_of_weights_in_passing_are_refused_where_no_flag_makes_them(name: str) -> None:
    with pytest.raises(UnsupportedPlan, match="low_bit_weights: passing; needs beside, alone"):
        written(name, job=LOW, low_bit_weights="passing")


REFUSED: dict[str, tuple[Job, dict[str, Any], dict[str, Any], str]] = {
    # arguments.py, validate_args: --fp8-param-gather needs a distributed optimizer, and beside
    # --optimizer-cpu-offload the delayed recipe.
    "zero 0": (LOW, {"zero": 0}, {"low_bit_weights": "alone"}, "zero 1"),
    "offload": (LOW, {"offload": "optimizer"}, {"low_bit_weights": "alone"}, "fp8-delayed"),
    # transformer_config.py on overlap_moe_expert_parallel_comm, and on padding beside DeepEP.
    "chunks": (ROUTED, {"ep": 2.0, "pp": 2.0}, {"overlaps_experts": True}, "interleaved-1f1b"),
    "recompute": (ROUTED, {"ep": 2.0, "recompute": "full"}, {"overlaps_experts": True}, "selective"),
    # arguments.py, validate_args on delay_wgrad_compute.
    "graphs": (
        ROUTED,
        {"ep": 2.0},
        {"overlaps_experts": True, "graphed": "router", "fused_weight_gradient": False},
        "--set cuda_graphs=none",
    ),
    "deepep": (
        ROUTED,
        {"ep": 2.0},
        {"static_experts": True, "dispatcher": "fused"},
        "--set expert_dispatcher=all-to-all",
    ),
}


@every("name", RUNTIMES)
@every("case", REFUSED)
def test_what_megatron_refuses_beside_a_setting_is_refused(name: str, case: str) -> None:
    job, axes, traits, nearest = REFUSED[case]
    plain = runtimes()[name]
    runtime = plain.with_traits(**traits)
    with pytest.raises(UnsupportedPlan) as refused:
        launch_files(
            cases.plan(16, 64, **axes),
            job,
            Target(runtime, launchers()["torchrun"], plain.versions[0]),
            Card(),
        )
    assert "nearest:" in str(refused.value)
    assert nearest in str(refused.value)


@every("trait", ["operator_fuser", "low_bit_head"])
def test_a_release_without_the_flag_is_refused(trait: str) -> None:
    job = job_for(trait, "megatron-lm")
    value = "mxfp8" if trait == "low_bit_head" else True
    assert written("megatron-lm", "0.18", job, **{trait: value})
    with pytest.raises(UnsupportedPlan, match=r"release 0\.17, which has no --"):
        written("megatron-lm", "0.17", job, **{trait: value})


@every("name", RUNTIMES)
def test_switches_of_experts_and_messages_are_idle_where_there_are_none(name: str) -> None:
    """Megatron-core asserts experts for them, and sequence parallelism for overlapped messages."""
    plain = written(name)
    for trait in ("overlaps_experts", "static_experts"):
        found = written(name, **{trait: True})
        assert {file for file in plain if found[file] != plain[file]} <= {"README.md"}
    assert "--tp-comm-overlap" not in "".join(alone())


def alone() -> set[str]:
    """Return the lines of a plan without tensor parallelism, whose messages are to be overlapped."""
    plain = runtimes()["megatron-lm"]
    runtime = plain.with_traits(tp_exposed=0.25)
    plan: Plan = replace(
        PLANS["megatron-lm"], tp=1.0, dp=16.0, sequence_parallel=False, zero_shards=16.0, num_microbatches=4.0
    )
    return lines(
        launch_files(plan, job_for("", ""), Target(runtime, launchers()["torchrun"], "0.20"), Card())[
            "train.sh"
        ]
    )


def test_weight_gradients_are_delayed_where_messages_of_experts_are_overlapped() -> None:
    """As all 47 recipes of Megatron-Bridge that overlap them do, whose runs stand behind the price."""
    recipes = (ROOT / "planner/runtimes/megatron_bridge/reading/bridge_recipes.txt").read_text()
    both = "overlap_moe_expert_parallel_comm=true delay_wgrad_compute=true"
    assert recipes.count(both) == recipes.count("delay_wgrad_compute=true") == 47
    said = lines(written("megatron-bridge", job=ROUTED, overlaps_experts=True)["train.py"])
    assert {"overlap_moe_expert_parallel_comm=True,", "delay_wgrad_compute=True,"} <= said
