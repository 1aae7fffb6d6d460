"""The kernel curves of an accelerator: its own, or those of a relative where nobody has measured it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from planner.dataclasses import dataclass, replace
from planner.errors import InputError, Problem
from planner.formulas.attention import AttentionCurve
from planner.formulas.experts import ExpertCurve
from planner.formulas.gemm import GemmCurve
from planner.formulas.kernels import Kernels, Stream
from planner.inputs.bounded import is_file
from planner.inputs.curves import attention_curve, expert_curve, gemm_curve, unfused_attention
from planner.inputs.shipped import data_folder
from planner.inputs.stated import ceiling_of, power_of, shipped_accelerator, stated_by
from planner.inputs.yaml_file import read_fitted, read_yaml
from planner.units import parse

RELATIVES: Final[Mapping[str, str]] = {
    "volta": "a100-80gb-sxm",
    "turing": "a100-80gb-sxm",
    "ampere": "a100-80gb-sxm",
    "ada": "l40s",
    "hopper": "h100-80gb-sxm",
    "blackwell": "b200-180gb",
    "rubin": "gb200-186gb",
}
"""Whose curves an accelerator of each architecture borrows; every other borrows those of `GENERIC`."""

GENERIC: Final = "h100-80gb-sxm"

CURVE_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "bf16": ("bf16",),
    "fp16": ("fp16", "bf16"),
    "fp8": ("fp8", "fp8_block"),
    "fp8_block": ("fp8_block", "fp8"),
    "mxfp8": ("fp8_block", "fp8"),
    "nvfp4": ("nvfp4",),
}
"""Precisions of linear layers, each with the curves that may stand for it, the best first."""

PEAK_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "bf16": ("bf16", "fp16"),
    "fp16": ("fp16", "bf16"),
    "fp8": ("fp8",),
    "fp8_block": ("fp8",),
    "mxfp8": ("mxfp8",),
    "nvfp4": ("nvfp4",),
}
"""Precisions, each with the dense peaks that it runs at: 16 bit of either kind has one rate."""

_EQUAL: Final = {"fp16": "bf16", "mxfp8": "fp8_block"}
"""Precisions and the curve that is as good as their own: that of the same units and width."""

_CAST_AS: Final = {"mxfp8": "fp8"}
"""Precisions and the curve whose casts take as long for each byte, where not those of their products.

The tables time casts for inference, and none to blocks of 32: the kernel of ``fp8_block`` scales rows alone,
by blocks of 128. Training's finds the largest of each 32 along rows and along columns, and is bound by that
work, not by its bytes [1]_; kernels of their own then order the scales for the products [2]_. Each layout is
taken to last as long as one with a scale for the tensor, which goes over it twice: of the casts that were
measured the one that prices models left out of the fit best.

References
----------
.. [1] NVIDIA, Transformer Engine, pull request 1628, "Improved performance of mxfp8 cast kernels."
.. [2] NVIDIA, Transformer Engine, pull request 3338, "MXFP8: Add swizzled-scale fast path for cast-only
   quantization": until then, separate launches.
"""

_NOWHERE: Final = (math.inf, -math.inf)


class Chip(Protocol):
    """What curves are resolved for: the facts of an accelerator that they ask for."""

    @property
    def name(self) -> str:
        """Whose curve file is looked for."""

    @property
    def arch(self) -> str:
        """Architecture, which says whose curves are borrowed."""

    @property
    def curves(self) -> str:
        """The file to take instead, or nothing."""

    @property
    def memory_bandwidth(self) -> float:
        """Memory bandwidth. [byte/s]"""

    @property
    def multiprocessors(self) -> float | None:
        """Multiprocessors, where they are known. [-]"""

    @property
    def matmul_efficiency(self) -> float | None:
        """Share of its peak that large matrix products reach, where it is known. [-]"""

    @property
    def power(self) -> float | None:
        """Rated power, where it is known. [W]"""

    @property
    def peak(self) -> Mapping[str, float]:
        """Dense peak of every precision. [FLOP/s]"""


def load_kernels(accelerator: Chip, sustained: bool = True) -> Kernels:
    """Return what the kernels of an accelerator reach.

    ``accelerator``: its ``curves`` names a file, or else its name does; without either the curves of a
    relative are taken (`RELATIVES`), as shares of this accelerator's peak and bandwidth, their efficiency
    scaled by the measured matrix product ceilings where both are known, by power for each FLOP elsewhere, and
    with an empty measured range, so that everything counts as extrapolated; ``sustained``: whether rates are
    those that hours of work hold, not those of a short benchmark.

    Raises `InputError` if the curve file is missing or wrong.
    """
    path, own = _curve_file(accelerator)
    raw = read_fitted(path) if path.parent == _curves() else read_yaml(path)
    try:
        return _Reader(accelerator, raw, own, sustained).kernels()
    except KeyError as error:
        raise InputError(
            Problem(f"{path}: {error.args[0]}", "nothing", "a field of a kernel curve")
        ) from None
    except (TypeError, AttributeError, ValueError) as error:
        raise InputError(Problem(str(path), str(error), "kernel curves with units")) from None


def _curves() -> Path:
    return data_folder("hardware_profiles") / "curves"


def _curve_file(accelerator: Chip) -> tuple[Path, bool]:
    """Return the file, and whether it was fitted to this accelerator, or to one that computes as it does."""
    folder = _curves()
    own = folder / f"{accelerator.name}.yaml"
    if not accelerator.curves and is_file(own):
        return own, True
    name = accelerator.curves or RELATIVES.get(accelerator.arch, GENERIC)
    shipped = folder / f"{name}.yaml"
    if not is_file(shipped):
        return Path(name).expanduser(), True
    return shipped, _is_same_chip(accelerator, name)


def _is_same_chip(accelerator: Chip, name: str) -> bool:
    """Return whether an accelerator computes as a shipped one does: H800 and A800 have slower links alone."""
    known = shipped_accelerator(name)
    peaks = {key: parse(entry["value"], "FLOP/s") for key, entry in known.get("peak", {}).items()}
    power, bandwidth = power_of(name), stated_by(name, "memory_bandwidth", "byte/s")
    return (
        (accelerator.arch, accelerator.multiprocessors) == (known.get("arch"), known.get("multiprocessors"))
        and (accelerator.power, accelerator.memory_bandwidth) == (power, bandwidth)
        and all(peaks.get(key) == peak for key, peak in accelerator.peak.items())
    )


SAME: Final = 0.001
"""Share by which a stated rate may differ by rounding from the one that curves were measured at. [-]"""


def _of_sheet(stated: float, usual: float) -> float:
    """Return what a stated rate is of the usual one, 1 where they are the same but for rounding. [-]"""
    return 1.0 if abs(stated / usual - 1) <= SAME else stated / usual


@dataclass(frozen=True)
class _Reader:
    """One curve file, read for one accelerator.

    The efficiencies of a file are shares of the datasheet that it states: an accelerator's own file keeps
    them so, for another they are shares of that one's peaks. Where a profile states another rate than the one
    that an accelerator's own curves were measured at, they are shares of the stated rate, and extrapolated.
    """

    accelerator: Chip
    raw: Mapping[str, Any]
    own: bool
    sustained: bool

    def kernels(self) -> Kernels:
        """Resolve every curve that the accelerator has a peak for."""
        gemm = {precision: curve for precision in CURVE_OF if (curve := self.gemm(precision)) is not None}
        peak = self.peak("bf16", "bf16")
        slow, simple = self.raw["unfused_attention"], self.raw["memory_bound"]
        return Kernels(
            gemm=gemm,
            attention=self.attention(peak),
            experts={precision: self.experts(precision, curve) for precision, curve in gemm.items()},
            unfused=unfused_attention(slow, peak * self.scale, self.bandwidth, fused_softmax=False),
            fused_softmax=unfused_attention(slow, peak * self.scale, self.bandwidth, fused_softmax=True),
            memory_bandwidth=parse(simple["efficiency"], "-") * self.bandwidth,
            launch=parse(simple["launch"], "s"),
            streams={kind: self.stream(entry) for kind, entry in simple.get("operators", {}).items()},
            borrowed=not self.measured,
        )

    def stream(self, entry: Mapping[str, Any]) -> Stream:
        """What memory-bound kernels of one kind reach."""
        return Stream(parse(entry["efficiency"], "-") * self.bandwidth, parse(entry["launch"], "s"))

    @property
    def bandwidth(self) -> float:
        """Memory bandwidth that the file's shares are taken of. [byte/s]"""
        stated = float(self.accelerator.memory_bandwidth)
        if not self.own:
            return stated
        sheet = parse(self.raw["datasheet"]["bandwidth"], "byte/s")
        return sheet * _of_sheet(stated, self.usual("memory_bandwidth", "byte/s") or sheet)

    def usual(self, field: str, unit: str) -> float:
        """What the accelerator that ships under this name has, 0 where there is none. [unit]"""
        return stated_by(self.accelerator.name, field, unit)

    @cached_property
    def usual_peaks(self) -> Mapping[str, float]:
        """Peaks of the accelerator that ships under this name. [FLOP/s]"""
        peaks = shipped_accelerator(self.accelerator.name).get("peak", {})
        return {key: parse(entry["value"], "FLOP/s") for key, entry in peaks.items()}

    @cached_property
    def measured(self) -> bool:
        """Whether the curves were measured on this very accelerator, at the rates that its profile states."""
        peaks, usual = self.accelerator.peak, self.usual_peaks
        pairs = [(float(peaks[key]), usual[key]) for key in peaks if key in usual]
        pairs.append((float(self.accelerator.memory_bandwidth), self.usual("memory_bandwidth", "byte/s")))
        return self.own and all(_of_sheet(stated, known) == 1.0 for stated, known in pairs if known)

    @property
    def multiprocessors(self) -> float:
        """Those of the accelerator, or of the file where it has none. [-]"""
        return float(self.accelerator.multiprocessors or parse(self.raw["datasheet"]["multiprocessors"], "-"))

    @cached_property
    def scale(self) -> float:
        """Share of its peak that the accelerator reaches, over the lender's; no curve passes the peak. [-]"""
        ceiling = self.accelerator.matmul_efficiency
        if self.own:
            return 1.0
        if ceiling is None:
            return self.powered
        fitted = max(parse(entry["efficiency"], "-") for entry in self.raw["gemm"].values())
        scale = float(ceiling) / (ceiling_of(str(self.raw.get("accelerator"))) or fitted)
        return min(scale, 1 / fitted)

    @property
    def powered(self) -> float:
        """Share of its peak that an accelerator with less power for each FLOP holds, over the lender's. [-]

        More power than the lender's is of no use, unless it is a limit on power that holds the lender.
        """
        return min(1.0, self.clock)

    @cached_property
    def clock(self) -> float:
        """Clock that power for each FLOP holds, over the lender's. [-]

        Power grows with the clock and the square of voltage, and voltage with the clock towards its end: a
        limit on power holds the clock to between its cube root and itself, here its square root. With 1.10,
        1.08 and 1.26 times B200's power for each FLOP, curves and runs of B300, GB200 and GB300 reach 1.02,
        0.92 and 1.23 times its share: a power of 0.6.
        """
        power, lent = self.accelerator.power, power_of(str(self.raw.get("accelerator")))
        peak = self.peak("bf16", "bf16")
        if not (power and lent and peak):
            return 1.0
        sheet = parse(self.raw["datasheet"]["bf16_peak"], "FLOP/s")
        return math.sqrt(float(power) / peak / (lent / sheet))

    def lasting(self, entry: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a curve with what it holds for hours: more where own products and power are known.

        What power does to the lender is no measure for other makers' dies, nor is the lender's own ceiling
        one for another accelerator.
        """
        known, lent = self.accelerator.matmul_efficiency, ceiling_of(str(self.raw.get("accelerator")))
        if self.own or known in (None, lent) or self.accelerator.arch not in RELATIVES:
            return entry
        held = parse(entry["sustained_ratio"], "-") * max(1.0, self.clock)
        return {**entry, "sustained_ratio": repr(min(1.0, held))}

    def peak(self, precision: str, curve: str) -> float:
        """Dense peak that the efficiency of a curve is a share of, 0 where there is none. [FLOP/s]"""
        peaks = self.accelerator.peak
        key = next((key for key in PEAK_OF[precision] if key in peaks), "")
        stated = float(peaks[key]) if key else 0.0
        sheets = self.raw["datasheet"]
        text = sheets.get(f"{curve}_peak") or sheets.get(f"{_EQUAL.get(curve, curve)}_peak")
        if not (self.own and stated and text):
            return stated
        sheet = parse(text, "FLOP/s")
        return sheet * _of_sheet(stated, self.usual_peaks.get(key, sheet))

    def gemm(self, precision: str) -> GemmCurve | None:
        """Matrix products of one precision, None where the accelerator or the file has none."""
        name = next((curve for curve in CURVE_OF[precision] if curve in self.raw["gemm"]), "")
        if not name or not (peak := self.peak(precision, name)):
            return None
        entry = self.raw["gemm"][name]
        cast = self.raw["gemm"].get(_CAST_AS.get(precision, name), entry)
        entry = {**self.lasting(entry), "quantisation_bytes": cast["quantisation_bytes"]}
        curve = gemm_curve(entry, peak * self.scale, self.bandwidth, self.multiprocessors, self.sustained)
        measured = self.measured and name in (precision, _EQUAL.get(precision))
        return curve if measured else replace(curve, m_range=_NOWHERE, n_range=_NOWHERE, k_range=_NOWHERE)

    def attention(self, peak: float) -> dict[int, AttentionCurve]:
        """Fused attention by head size, in 16 bit; what another accelerator lent was never measured."""
        lent = self.raw.get("attention_lent", {}).get("bf16", {})
        measured = self.raw["attention"]["bf16"]
        curves = {
            int(parse(size, "-")): attention_curve(
                self.lasting(entry), peak * self.scale, self.multiprocessors, self.sustained
            )
            for size, entry in {**lent, **measured}.items()
        }
        own = {int(parse(size, "-")) for size in measured if self.measured}
        return {
            size: curve if size in own else replace(curve, seq_range=_NOWHERE)
            for size, curve in curves.items()
        }

    @cached_property
    def expert_table(self) -> Mapping[str, Any]:
        """The file's grouped products, or the generic ones where it has none."""
        table: Mapping[str, Any] = self.raw["experts"] or read_yaml(_curves() / f"{GENERIC}.yaml")["experts"]
        return table

    def experts(self, precision: str, dense: GemmCurve) -> ExpertCurve:
        """Grouped products of one precision, by the curve of the nearest precision that has one."""
        table = self.expert_table
        name = next((curve for curve in (*CURVE_OF[precision], "bf16") if curve in table), "bf16")
        curve = expert_curve(table[name], dense, self.bandwidth)
        measured = (
            self.measured and name in self.raw["experts"] and name in (precision, _EQUAL.get(precision))
        )
        return curve if measured else replace(curve, rows_range=_NOWHERE)


class _Facts(NamedTuple):
    """A `Chip` that is known by what it says."""

    name: str
    arch: str
    memory_bandwidth: float
    multiprocessors: float | None
    matmul_efficiency: float | None
    power: float | None
    peaks: tuple[tuple[str, float], ...]
    curves: str = ""

    @property
    def peak(self) -> Mapping[str, float]:
        """Dense peak of every precision. [FLOP/s]"""
        return dict(self.peaks)


def known_kernels(accelerator: Chip) -> Kernels:
    """Return what `load_kernels` does; those that ship are resolved once, however often asked for."""
    if accelerator.curves:
        return load_kernels(accelerator)
    facts = _Facts(
        accelerator.name,
        accelerator.arch,
        float(accelerator.memory_bandwidth),
        _plain(accelerator.multiprocessors),
        _plain(accelerator.matmul_efficiency),
        _plain(accelerator.power),
        tuple((name, float(peak)) for name, peak in accelerator.peak.items()),
    )
    return _shipped_kernels(facts)


def _plain(number: float | None) -> float | None:
    """Return a number without its unit and source."""
    return None if number is None else float(number)


@lru_cache(maxsize=256)
def _shipped_kernels(chip: _Facts) -> Kernels:
    return load_kernels(chip)
