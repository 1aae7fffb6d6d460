"""Compare what a plan is priced at with what its own kernels take on the local device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from planner.cost.case import Case
from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass
from planner.inputs.hardware import Accelerator
from planner.inputs.model import Attention
from planner.plan import Plan
from planner.profile.benches import elementwise
from planner.profile.check_block import Layer, kept_bytes, why_not
from planner.profile.check_kernels import Pair, Widths, measured_pair
from planner.profile.check_shapes import CheckedPart, checked_case, stage_parts
from planner.profile.device import Device
from planner.profile.running import loaded_driver, read_measured
from planner.profile.timing import clock_of, measure

ADAM_ELEMENTS: Final = {"cpu": 2**20, "cuda": 2**27}
"""Parameters of which the optimizer step is timed. [element]"""


@dataclass(frozen=True)
class Compared:
    """One pass of one operator, predicted and measured."""

    part: str
    operator: str
    step: str
    """Kind of layer, operator, and ``forward`` or ``backward``."""
    runs: float
    """How often it runs on the stage for one micro-batch, recompute included. [-]"""
    predicted: float
    """Time of one run. [s]"""
    measured: float | None
    """The same; None where it could not be measured. [s]"""
    reason: str = ""
    """Why not."""


@dataclass(frozen=True)
class Memory:
    """Bytes of one layer, predicted and measured. [byte]"""

    part: str
    what: str
    predicted: float
    measured: float | None
    reason: str = ""


@dataclass(frozen=True)
class Checked:
    """A plan compared with the device."""

    operators: tuple[Compared, ...]
    memory: tuple[Memory, ...]
    """Comparisons."""
    optimizer_ratio: float | None
    """Measured over predicted time of the optimizer step. [-]"""
    step: float
    moved: float
    """Estimated step, and what it becomes with the measured times. [s]"""
    covered: float
    """Share of the stage's predicted time that was measured. [-]"""
    notes: tuple[str, ...]
    """What a reader must know."""

    @property
    def move(self) -> float:
        """By how much the step estimate should move, as a share of it. [-]"""
        return self.moved / self.step - 1


Tell = Callable[[float, str], None]


def check_plan(estimate: Estimate, device: Device, tell: Tell) -> Checked:
    """Run the operators of a plan's peak stage on a device.

    ``tell``: told the share done and what is being done.
    """
    case, plan, notes = checked_case(estimate)
    parts = stage_parts(case, plan)
    widths = widths_of(case)
    rows: list[Compared] = []
    known: dict[tuple[Any, ...], Pair] = {}
    work = [(part, operator) for part in parts for operator in part.layer.operators]
    for number, (part, operator) in enumerate(work):
        tell(number / len(work), f"{part.name} {operator.name}")
        shape = part.shapes[operator.name]
        key = (operator.name.rstrip("0123456789_"), shape.kind, *sorted(shape.sizes.items()))
        if key not in known:
            known[key] = measured_pair(operator.name, shape, widths, case.traits, device)
        rows += _compared(part, operator, known[key])
    ratio = optimizer_ratio(case, device)
    memory = [one for part in parts for one in _memory(case, plan, part, device)]
    return _verdict(estimate, rows, memory, ratio, [*notes, *machine_notes(estimate, device)])


def widths_of(case: Case) -> Widths:
    """Return the row lengths of a model's elementwise operators."""
    sizes = [
        mixer.head_dim if isinstance(mixer, Attention) else mixer.qk_rope_head_dim
        for mixer in case.model.attentions
    ]
    size = sizes[0] if sizes else case.model.recurrents[0].value_head_dim
    kept = "fp32" if case.gradient_bytes > 2 else "bf16"
    return Widths(
        hidden=case.model.hidden,
        head_dim=size,
        vocab=case.model.vocab,
        gated=bool(case.model.ffns[0].gated) if case.model.ffns else True,
        norm=case.model.norm,
        gradient=kept if case.method.trains_base else "",
    )


def _compared(part: CheckedPart, operator: Any, pair: Pair) -> list[Compared]:
    """Return both passes; adding to the residual stream has no backward kernel of its own."""
    forward, backward = (float(np.asarray(getattr(operator, name))) for name in ("forward", "backward"))
    runs = part.count * part.repeats[operator.name]
    none = "residual" in operator.name
    return [
        Compared(part.name, operator.name, "forward", runs, forward, pair.forward, pair.reason),
        Compared(
            part.name,
            operator.name,
            "backward",
            part.count,
            backward,
            None if none else pair.backward,
            "no kernel of its own" if none else pair.reason,
        ),
    ]


def optimizer_ratio(case: Case, device: Device) -> float | None:
    """Measured over predicted time of a fused Adam step on fp32 parameters; None for another optimizer."""
    if not case.optimizer.precision_aware:
        return None
    elements = ADAM_ELEMENTS[device.kind]
    step = elementwise.OPERATORS["adam"](device, elements // 1024, 1024)
    seconds = measure([step], clock_of(device), 0.1).seconds
    rate = elementwise.BYTES["adam"] * elements / seconds
    return float(case.kernels.stream_for("optimizer").bandwidth / rate)


def _memory(case: Case, plan: Plan, part: CheckedPart, device: Device) -> list[Memory]:
    """Compare what one layer keeps, where it is built as a whole."""
    block = case.model.blocks.get(part.name)
    if block is None:
        return []
    held, rebuilt = (float(np.asarray(getattr(part.cost, name))) for name in ("held", "rebuilt"))
    partly = max(part.repeats.values()) > 1.0 and min(part.repeats.values()) == 1.0 and not _whole(part)
    reason = why_not(block, plan) or ("recompute of single modules is not run" if partly else "")
    what = "kept"
    if reason:
        return [Memory(part.name, what, held, None, reason)]
    layer = Layer(device, case, plan, block, part.shapes)
    try:
        kept = kept_bytes(layer, recompute=_whole(part))
    except RuntimeError as error:
        return [Memory(part.name, what, held, None, str(error).splitlines()[0][:120])]
    peak = "peak"
    gradients = 2.0 * float(np.asarray(part.cost.trained))
    uncounted = "" if kept.peak is not None else "a processor does not count it"
    return [
        Memory(part.name, what, held, kept.held),
        Memory(part.name, peak, held + rebuilt + gradients, kept.peak, uncounted),
    ]


def _whole(part: CheckedPart) -> bool:
    """Whether the layer's products all run again but the last."""
    return sum(count > 1 for count in part.repeats.values()) >= len(part.repeats) - 1


def _verdict(
    estimate: Estimate,
    rows: Sequence[Compared],
    memory: Sequence[Memory],
    ratio: float | None,
    notes: Sequence[str],
) -> Checked:
    """Move the step by what was measured; what was not measured stays as predicted."""
    everything = sum(row.runs * row.predicted for row in rows)
    known = [row for row in rows if row.measured is not None]
    predicted = sum(row.runs * row.predicted for row in known)
    measured = sum(row.runs * (row.measured or 0.0) for row in known)
    time = estimate.time
    compute = (measured - predicted) / everything * (time.compute + time.bubble)
    optimizer = (ratio - 1.0) * time.optimizer if ratio is not None else 0.0
    return Checked(
        operators=tuple(rows),
        memory=tuple(memory),
        optimizer_ratio=ratio,
        step=estimate.step,
        moved=estimate.step + compute + optimizer,
        covered=predicted / everything,
        notes=tuple(notes),
    )


def machine_notes(estimate: Estimate, device: Device) -> list[str]:
    """Say where the prediction is for another device, or its curves were measured with other versions."""
    part = estimate.job.hardware.pool.accelerator
    found = []
    words = {part.name, *part.aliases}
    if not any(same_product(word, device.name) for word in words):
        found.append(f"predicted for {part.name}, measured on {device.name}: the difference is of both")
    return found + version_notes(part, device)


def same_product(word: str, product: str) -> bool:
    """Whether a product name is one of an accelerator's names.

    Examples
    --------
    >>> same_product("nvidia-h100-80gb-hbm3", "NVIDIA H100 80GB HBM3"), same_product("h100", "AMD EPYC")
    (True, False)
    """
    plain = product.lower().replace(" ", "-")
    return word.lower() in (plain, plain.removeprefix("nvidia-"), plain.removeprefix("amd-instinct-"))


def version_notes(part: Accelerator, device: Device) -> list[str]:
    """Say where measured curves are of another torch, CUDA or driver than the one running."""
    then = read_measured(part.curves)
    now = {
        "torch": str(device.torch.__version__),
        "cuda": str(device.torch.version.cuda or ""),
        "driver": "" if device.is_cpu else loaded_driver(),
    }
    changed = [
        f"{name} was {then[name]} and is {value}"
        for name, value in now.items()
        if then.get(name) and value and then[name] != value
    ]
    return [f"the curves were measured with other versions: {'; '.join(changed)}"] if changed else []
