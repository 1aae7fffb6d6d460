"""Which checkpoints of one plan a runtime loads under another, and with which tool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from planner.dataclasses import dataclass
from planner.plan import Plan, even_split
from planner.rules import Violation
from planner.runtimes.family import Job, Runtime


@dataclass(frozen=True)
class Saved:
    """A plan whose checkpoint is loaded, or that loads it."""

    plan: Plan
    job: Job
    runtime: Runtime


@dataclass(frozen=True)
class Verdict:
    """Whether a checkpoint can be loaded."""

    faults: tuple[Violation, ...]
    """Why it cannot; none where it can."""
    tool: str | None
    """What must run in between."""
    notes: tuple[str, ...]
    """What is not the same afterwards."""
    converts: bool = False
    """Whether the tool writes the whole checkpoint anew."""

    @property
    def loads(self) -> bool:
        """Whether the new plan can go on from the old one's checkpoint."""
        return not self.faults


Rules = Callable[[Saved, Saved, bool], Iterator[Violation]]
Tool = Callable[[Saved, Saved], str | None]


def changed_axes(old: Saved, new: Saved, *names: str) -> list[str]:
    """Return which of the axes differ, as ``tp 8 to 4``; an even split is the same said or not."""
    pairs = ((name, _value(old, name), _value(new, name)) for name in names)
    return [f"{name} {_said(one)} to {_said(two)}" for name, one, two in pairs if one != two]


def _value(one: Saved, name: str) -> object:
    if name != "stage_layers" or one.plan.stage_layers is not None:
        return getattr(one.plan, name)
    return even_split(one.job.model.num_layers, int(one.plan.pp * one.plan.vpp))


def _said(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _layout(plan: Plan) -> tuple[float, ...]:
    return (plan.tp, plan.pp, plan.vpp, plan.ep, plan.etp)  # type: ignore[return-value]


def megatron_rules(old: Saved, new: Saved, reshardable: bool) -> Iterator[Violation]:
    """Yield why a distributed checkpoint does not load.

    The distributed optimizer saves its buckets as they lie, which other data-parallel degrees can read and
    other tensor or pipeline degrees cannot, unless it was told to save whole tensors.

    References
    ----------
    .. [1] NVIDIA, Megatron-LM d98e8a64, ``megatron/training/checkpointing.py``, ``load_checkpoint``: a
       RuntimeError where tensor or pipeline degrees differ and the sharding type is not fully reshardable;
       ``training_config.py``: ``--dist-ckpt-optim-fully-reshardable``, off by default.
    .. [2] ``tools/checkpoint/checkpoint_inspector.py``: ``convert-torch-dist-to-fsdp-dtensor``, one way.
    """
    whole = old.plan.zero >= 2
    if whole and new.plan.zero < 2:
        yield Violation("checkpoint format", "fsdp_dtensor of Megatron-FSDP", "torch_dist", "--zero 2 or 3")
    if whole or old.plan.zero == 0 or reshardable:
        return
    moved = changed_axes(old, new, "tp", "pp", "vpp", "ep", "etp", "stage_layers")
    if moved:
        yield Violation(
            "optimizer shards",
            ", ".join(moved),
            "the same degrees, or an old run that saved with --dist-ckpt-optim-fully-reshardable",
            "--fully-reshardable, if it did",
        )


def megatron_tool(old: Saved, new: Saved) -> str | None:
    """Return the converter from distributed checkpoints to those of Megatron-FSDP, where it is needed."""
    if old.plan.zero < 2 <= new.plan.zero:
        return "tools/checkpoint/checkpoint_inspector.py convert-torch-dist-to-fsdp-dtensor"
    return None


def nanotron_rules(old: Saved, new: Saved, _: bool) -> Iterator[Violation]:
    """Yield why nanotron does not load a checkpoint.

    References
    ----------
    .. [1] Hugging Face, nanotron 2411b022, ``src/nanotron/serialize/optimizer.py``, ``load_optimizer``: other
       tensor parallel degrees are merged and cut anew, other pipeline degrees warn that states are not
       checked.
    """
    for axis in ("pp", "ep"):
        moved = changed_axes(old, new, axis)
        if moved:
            yield Violation(
                "optimizer shards", moved[0], f"the same {axis}", f"--{axis} {_said(getattr(old.plan, axis))}"
            )


def deepspeed_tool(old: Saved, new: Saved) -> str | None:
    """Return Universal Checkpointing's converter where anything but the number of steps changes.

    References
    ----------
    .. [1] X. Lian et al., "Universal Checkpointing," arXiv:2406.18820, 2024: any change of tensor, pipeline
       and data parallelism and of ZeRO's stage.
    .. [2] Microsoft, DeepSpeed 0.19.8, ``deepspeed/checkpoint/ds_to_universal.py``.
    """
    names = ("tp", "pp", "dp", "cp", "ep", "zero", "zero_shards", "stage_layers")
    if changed_axes(old, new, *names):
        return (
            "python -m deepspeed.checkpoint.ds_to_universal, and checkpoint.load_universal in ds_config.json"
        )
    return None


def _no_rules(_: Saved, __: Saved, ___: bool) -> Iterator[Violation]:
    yield from ()


def _no_tool(_: Saved, __: Saved) -> str | None:
    return None


RESUMING: Final[Mapping[str, tuple[Rules, Tool]]] = MappingProxyType(
    {
        "megatron-lm": (megatron_rules, megatron_tool),
        "megatron-bridge": (megatron_rules, megatron_tool),
        "deepspeed": (_no_rules, deepspeed_tool),
        "nanotron": (nanotron_rules, _no_tool),
        "torchtitan": (_no_rules, _no_tool),
        "fsdp": (_no_rules, _no_tool),
    }
)
"""Runtime to its rules and its converter; torchtitan and FSDP save with PyTorch's distributed checkpoint
(``torch.distributed.checkpoint``), which cuts whole tensors anew for any degrees."""


def same_job(old: Saved, new: Saved) -> Iterator[Violation]:
    """Yield what must be the same under any runtime."""
    fields = ("hidden", "vocab", "blocks", "layers", "tied_embeddings", "learned_positions", "token_types")
    differing = [name for name in fields if getattr(old.job.model, name) != getattr(new.job.model, name)]
    if differing:
        names = f"{old.job.model.name} and {new.job.model.name}"
        yield Violation("model", f"{names} differ in {', '.join(differing)}", "one model", old.job.model.name)
    if old.runtime.name != new.runtime.name:
        found = f"{old.runtime.name} to {new.runtime.name}"
        yield Violation(
            "runtime", found, "the same, or weights alone through Hugging Face's format", old.runtime.name
        )
    work, its = old.job.workload, new.job.workload
    for name in ("method", "optimizer"):
        if getattr(work, name) != getattr(its, name):
            found = f"{getattr(work, name)} to {getattr(its, name)}"
            yield Violation(name, found, "the same, or weights alone", getattr(work, name))


def differences(old: Saved, new: Saved) -> Iterator[str]:
    """Yield what a run that goes on does otherwise than before, in words."""
    work, its = old.job.workload, new.job.workload
    if work.global_batch != its.global_batch:
        yield (
            f"The global batch changes from {work.global_batch} to {its.global_batch}: learning rate and the "
            "place in the data follow steps of another size."
        )
    if work.seq_len != its.seq_len:
        yield f"Sequences change from {work.seq_len} to {its.seq_len} tokens."
    if work.precision != its.precision:
        yield f"Precision changes from {work.precision} to {its.precision}: scales start anew."
    if old.plan.tp != new.plan.tp and old.runtime.name.startswith("megatron"):
        yield "The vocabulary is padded for the tensor parallel degree; the padding is cut and made anew."
    if _layout(old.plan) != _layout(new.plan) or old.plan.dp != new.plan.dp:
        yield "Random states belong to ranks: dropout draws other numbers than it would have."


def verdict(old: Saved, new: Saved, reshardable: bool = False) -> Verdict:
    """Return whether a plan can go on from another's checkpoint.

    ``old`` and ``new``: who saved, and who loads; ``reshardable``: whether Megatron's optimizer was told to
    save whole tensors.
    """
    rules, tool = RESUMING.get(new.runtime.name, (_no_rules, _no_tool))
    faults = (
        *same_job(old, new),
        *(rules(old, new, reshardable) if old.runtime.name == new.runtime.name else ()),
    )
    needed = tool(old, new) if not faults else None
    return Verdict(faults, needed, tuple(differences(old, new)), needed is not None)
