"""How a runner on Megatron-core judges plans that our rules refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from planner.plan import Plan
from planner.runtimes.family import Job, Runtime
from planner.runtimes.idle import ADAPTERS, in_effect
from planner.runtimes.megatron_lm.idle import IDLE
from planner.runtimes.settings import NO_CHANGES, Changes
from tests.validate.megatron.expected import as_set, wanted
from tests.validate.megatron.plans import broken, illegal_plans
from tests.validate.megatron.runner import Verdict

FIRST_STEP = {
    "sequence-divides": "the first scatter asserts it; arguments are checked for 2 · cp alone",
    "experts-need-sequence-parallel": "moe_layer.py raises in the first forward",
    "experts-divide": "moe_layer.py asserts it; Megatron-LM's arguments are checked for it, Bridge's are not",
    "tp-divides-ffn": "the layers divide it when they are built",
    "etp-divides-experts": "the layers divide it when they are built",
    "tp-divides-shared-expert": "the layers divide it when they are built",
    "cp-method-offered": "Transformer Engine asserts it in the first attention",
    "cp-divides-heads": "Transformer Engine asserts it in the first attention",
    "low-bit-tokens": "Transformer Engine asserts it in the first product",
    "low-bit-widths": "Transformer Engine asserts it in the first product",
    "precision-on-accelerator": "Transformer Engine asserts it when the first layer starts",
    "states-need-distributed-optimizer": "optimizer/__init__.py raises when the optimizer is made",
}
"""Rules that Megatron-LM keeps too, but after its arguments are checked."""

CHANGED = {
    "recompute-module": "a module that the model lacks is passed over in silence",
    "recompute-layers-in-chunks": "the plan counts layers of a stage, the flag those of a chunk",
    "zero-shards-divide": "a fraction of shards cannot be said in the flag",
    "model-expressible": "numbers that the files cannot say are left to the runner's own",
    "numerics-have-flags": "numbers that no argument sets are left to the runner's own",
    "positions-equal-sequence": "Megatron-Bridge makes as many positions as the sequence is long",
    "stages-have-layers": "a stage without layers is built, and idles",
    "method-offered": "the file has no word for it, and everything is trained",
    "lora-without-fsdp": "never tried by its authors with adapters",
    "offload-needs-distributed-optimizer": "never tried by its authors with Megatron-FSDP",
}
"""Plans that Megatron-LM would run otherwise than the plan says, or that its flags cannot say."""


KEPT = (
    "activation-offload-layers", "activation-offload-without-hybrid", "activation-offload-without-pipeline",
    "activation-offload-without-recompute", "adapters-alone", "batch-divides", "biased-experts-whole",
    "chunks-fit-schedule", "degrees-are-whole", "degrees-make-gpus", "expert-mesh-divides",
    "experts-fuse-activation", "flex-attention-alone", "unfused-attention-alone", "fsdp-optimizer",
    "grouped-products-run", "hybrid-stages-have-layers", "hybrid-without-virtual-stages",
    "images-fit-sequence",
    "indexer-gathers-keys", "indexer-trains-whole", "input-store-is-of-swiglu",
    "muon-shards-whole", "no-bf16-gradients-in-fp16",
    "offload-offered", "optimizer-offered", "own-layers-keep-norms", "own-layers-run-plainly",
    "own-layers-split-groups", "own-layers-train-whole", "own-layers-whole-sequence",
    "positions-cover-sequence", "precision-offered",
    "recompute-offered", "release-has-flags", "release-has-hybrids", "release-has-indexers",
    "rounds-fill-pipeline", "schedule-offered", "split-has-all-stages", "states-need-adam",
    "tp-divides-heads", "tp-divides-lora-outputs", "tp-divides-lora-rank", "tp-fits-query-groups",
    "vision-before-dense-layers", "vision-images-square", "vision-in-16-bit", "vision-in-first-layers",
    "vision-not-recomputed", "vision-projectors-outside-recompute", "vision-trains-whole",
    "vision-turns-heads", "vision-without-fsdp",
    "vision-without-virtual-stages",
)  # fmt: skip
"""Rules kept when arguments are checked, or run otherwise, or that no random plan breaks."""


def differences(
    job: Job,
    plan: Plan,
    verdict: Verdict,
    without: tuple[str, ...] = (),
    changes: Changes = NO_CHANGES,
) -> dict[str, object]:
    """Return what the runner derived otherwise than plan and traits say: (plan, runner)."""
    found = verdict.derived
    asked = in_effect((*IDLE, *ADAPTERS), plan, job, changes)
    said = {name: value for name, value in wanted(job, plan).items() if name not in without} | as_set(asked)
    return {name: (value, found.get(name)) for name, value in said.items() if found.get(name) != value}


def settable(job: Job, plan: Plan, changes: Changes, runtime: Runtime) -> Changes:
    """Return the changes, or none where they do not go with the plan."""
    changed = runtime.with_traits(**changes)
    if broken(job, plan, changed):
        return NO_CHANGES
    return NO_CHANGES if job.workload.precision == "fp16" else changes


def tally(
    runtime: Runtime,
    judge: Callable[[Job, Plan], Verdict],
    seed: int,
    count: int,
    without: tuple[str, ...] = (),
) -> tuple[str, str]:
    """Return counts of verdicts on plans that break one rule, and the plans accepted for no known reason."""
    verdicts = {kind: Counter[str]() for kind in ("refused", "another plan", "accepted")}
    examples = {}
    for job, plan, rule in illegal_plans(seed, count, runtime):
        try:
            verdict = judge(job, plan)
        except (KeyError, ValueError, RuntimeError, IndexError) as error:
            verdict = Verdict(error=str(error) or "no file can be written")
        changed = not verdict.error and differences(job, plan, verdict, without)
        kind = "refused" if verdict.error else "another plan" if changed else "accepted"
        verdicts[kind][rule] += 1
        if kind == "accepted" and rule not in FIRST_STEP | CHANGED:
            examples[rule] = f"{rule}: {job.model.name} {job.gpus} {plan}"
    told = "".join(f"\n{kind} {sum(counts.values())}: {dict(counts)}" for kind, counts in verdicts.items())
    return told, "\n".join(examples.values())
