"""Which checkpoints load under another plan, by each runtime's own rules; what waiting is worth."""

from __future__ import annotations

from dataclasses import replace

from planner.api import Job, Workload, load_hardware, load_model
from planner.formulas.checkpoints import break_even_seconds, worthwhile_seconds
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.resume import RESUMING, Saved, verdict
from tests.cases import every

MODEL, CLUSTER = load_model("llama3-8b"), load_hardware("dgx-h100")


def saved(runtime: str, gpus: int, batch: int = 64, **axes: float) -> Saved:
    split = {name: float(value) for name, value in axes.items() if name != "zero"}
    work = Workload(seq_len=4096, global_batch=batch)
    dp = gpus / (split.get("tp", 1) * split.get("pp", 1) * split.get("cp", 1))
    zero = int(axes.get("zero", 1))
    plan = Plan(dp=dp, zero=zero, zero_shards=dp if zero else 1.0, num_microbatches=batch / dp, **split)
    return Saved(plan, Job(MODEL, CLUSTER, gpus, work), runtimes()[runtime])


def test_every_runtime_has_its_rules() -> None:
    assert set(RESUMING) == set(runtimes())


def test_megatron_reads_other_data_parallel_degrees_and_no_other_tensor_degrees() -> None:
    """Megatron-LM d98e8a64, checkpointing.py: a RuntimeError where tp or pp differ and shards are buckets."""
    old = saved("megatron-lm", 64, tp=8)
    assert verdict(old, saved("megatron-lm", 32, tp=8)).loads
    for axes in ({"tp": 4}, {"tp": 8, "pp": 2}):
        other = saved("megatron-lm", 64, **axes)
        told = verdict(old, other)
        assert not told.loads
        assert "--dist-ckpt-optim-fully-reshardable" in told.faults[0].expected
        assert verdict(old, other, reshardable=True).loads
    assert verdict(saved("megatron-lm", 64, tp=8, zero=0), saved("megatron-lm", 64, tp=4, zero=0)).loads


def test_an_even_split_of_the_layers_is_the_same_said_or_not() -> None:
    old, new = saved("megatron-lm", 64, pp=4), saved("megatron-lm", 32, pp=4)
    said = replace(new, plan=replace(new.plan, stage_layers=(8, 8, 8, 8)))
    assert verdict(old, said).loads
    other = replace(new, plan=replace(new.plan, stage_layers=(7, 8, 8, 9)))
    assert not verdict(old, other).loads


def test_megatron_converts_to_its_fsdp_and_not_back() -> None:
    plain, fsdp = saved("megatron-bridge", 64), saved("megatron-bridge", 64, zero=3)
    assert "convert-torch-dist-to-fsdp-dtensor" in str(verdict(plain, fsdp).tool)
    assert not verdict(fsdp, plain).loads
    assert verdict(fsdp, fsdp).tool is None


@every(
    ("old", "new"),
    [
        ((8, 2, 2, 1), (4, 2, 1, 1)),
        ((8, 2, 2, 1), (4, 2, 2, 1)),
        ((384, 2, 24, 1), (192, 2, 24, 1)),
        ((4, 1, 1, 3), (8, 1, 1, 3)),
    ],
)
def test_the_conversions_that_universal_checkpointing_shows(
    old: tuple[int, int, int, int], new: tuple[int, int, int, int]
) -> None:
    """arXiv:2406.18820: LLaMA 7B from 2, 2, 2 to fewer; BLOOM on 24 stages from 8 to 4 replicas."""
    first, second = (
        saved("deepspeed", gpus, 768, tp=tp, pp=pp, zero=zero) for gpus, tp, pp, zero in (old, new)
    )
    told = verdict(first, second)
    assert told.loads
    assert "ds_to_universal" in str(told.tool)
    assert verdict(first, first).tool is None


def test_nanotron_keeps_its_stages_and_cuts_tensors_anew() -> None:
    """Nanotron 2411b022, serialize/optimizer.py."""
    old = saved("nanotron", 16, tp=2, pp=2)
    assert verdict(old, saved("nanotron", 16, tp=4, pp=2)).loads
    assert not verdict(old, saved("nanotron", 16, tp=2, pp=4)).loads


def test_what_is_another_job_does_not_load_and_what_changes_is_told() -> None:
    old = saved("torchtitan", 16, zero=3)
    tied = MODEL.model_copy(update={"tied_embeddings": True})
    other = Saved(old.plan, Job(tied, CLUSTER, 16, old.job.workload), old.runtime)
    assert verdict(old, other).faults[0].rule == "model"
    assert "tied_embeddings" in verdict(old, other).faults[0].found
    assert verdict(old, saved("fsdp", 16, zero=3)).faults[0].rule == "runtime"
    bigger = verdict(old, saved("torchtitan", 32, 128, zero=3))
    assert bigger.loads
    assert any("from 64 to 128" in note for note in bigger.notes)


@every(("transition", "fewer", "step"), [(600.0, 2.5, 2.0), (120.0, 1.1, 1.0)])
def test_waiting_is_better_until_the_break_even_of_steps_played_out(
    transition: float, fewer: float, step: float
) -> None:
    def ahead(back: float) -> bool:
        """Whether a job that went on with fewer is ahead some time after all are back."""
        end = back + 10 * transition
        going = max(0.0, back - transition) / fewer + (end - back - transition) / step
        return going > (end - back) / step

    even = float(break_even_seconds(transition, fewer, step))
    assert not ahead(0.99 * even)
    assert ahead(1.01 * even)


def test_a_faster_plan_pays_where_enough_is_left() -> None:
    least = float(worthwhile_seconds(600.0, 1.5, 2.0))
    for left, pays in ((0.99 * least, False), (1.01 * least, True)):
        assert (600.0 + left / 2.0 * 1.5 < left) is pays
