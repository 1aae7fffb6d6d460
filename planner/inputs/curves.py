"""Entries of a curve file, texts with units, become the curves that formulas take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from planner.dataclasses import dataclass
from planner.formulas.attention import CHOSEN, AttentionCurve
from planner.formulas.experts import ExpertCurve
from planner.formulas.gemm import GemmCurve, Range, tile_costs
from planner.formulas.roofline import drain_half_k
from planner.formulas.size_grid import ATTENTION_AXES, PRODUCT_AXES, SizeGrid
from planner.formulas.unfused_attention import UnfusedAttention
from planner.units import parse

FEWEST_NODES: Final = 2
"""Sizes that a grid of residuals needs on each axis."""


@dataclass(frozen=True)
class _Entry:
    """One entry of a curve file, read field by field."""

    fields: Mapping[str, object]

    def number(self, key: str, dimension: str = "-") -> float:
        """Return a field in the base unit of its dimension."""
        return parse(self.fields[key], dimension)

    def ranges(self, *names: str) -> tuple[Range, ...]:
        """Return the smallest and the largest measured size of each name."""
        ranges = self.fields["range"]
        if not isinstance(ranges, Mapping):
            listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}, each"
            raise ValueError(f"range: expected {listed} with two numbers")
        return tuple(_bounds(ranges[name]) for name in names)

    def grid(self, key: str, axes: Sequence[str]) -> SizeGrid | None:
        """Return the residuals of a field, None where it has none."""
        residuals = self.fields.get(key)
        return size_grid(residuals, axes) if isinstance(residuals, Mapping) else None


def _bounds(value: object) -> Range:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise ValueError("a range is two numbers, the smallest and the largest")
    return parse(value[0], "-"), parse(value[1], "-")


def _tiles(value: object) -> list[Range]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise ValueError("tiles are a list of [rows, columns]")
    return [_bounds(tile) for tile in value]


def _numbers(value: object) -> tuple[float, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError("residuals: expected lists of numbers")
    return tuple(parse(number, "-") for number in value)


def gemm_curve(
    fields: Mapping[str, object],
    peak: float,
    bandwidth: float,
    multiprocessors: float,
    sustained: bool = True,
) -> GemmCurve:
    """Resolve one ``gemm`` entry of a curve file.

    Parameters
    ----------
    fields : Mapping
        The entry, every quantity a text with its unit.
    peak : float
        Dense peak of the data type. [FLOP/s]
    bandwidth : float
        Memory bandwidth of the datasheet. [byte/s]
    multiprocessors : float
        Streaming multiprocessors, or what the vendor calls the units that tiles run on. [-]
    sustained : bool
        Multiply by the share of the burst rate that hours of work hold, and bring results away as training
        does: the 8 and 4 bit kernels of inference engines that were timed may take longer for that than
        memory does, which those of training hide or at most wait for (`drain_half_k`).

    Raises
    ------
    KeyError
        If a field is missing.
    ValueError
        If a field is not what it should be.
    """
    entry = _Entry(fields)
    m_range, n_range, k_range = entry.ranges("m", "n", "k")
    efficiency = entry.number("efficiency") * (entry.number("sustained_ratio") if sustained else 1.0)
    if not 0 < efficiency <= 1:
        raise ValueError(f"efficiency {efficiency} is not above 0 and at most 1")
    rate, memory = efficiency * peak, entry.number("memory_efficiency") * bandwidth
    half_k, operand, output = (
        entry.number("half_k"),
        entry.number("operand_bytes", "byte"),
        entry.number("output_bytes", "byte"),
    )
    foreign = sustained and operand < output and fields.get("standing") == "fitted"
    return GemmCurve(
        rate=rate,
        half_k=min(half_k, float(drain_half_k(rate, memory, output))) if foreign else half_k,
        half_mn=entry.number("half_mn"),
        wave_weight=entry.number("wave_weight"),
        tiles=tile_costs(_tiles(fields["tiles"]), entry.number("tile_edge")),
        multiprocessors=multiprocessors,
        launch=entry.number("launch", "s"),
        bandwidth=memory,
        operand_bytes=operand,
        output_bytes=output,
        quantisation_bytes=entry.number("quantisation_bytes", "byte"),
        quantisation_launch=entry.number("quantisation_launch", "s"),
        m_range=m_range,
        n_range=n_range,
        k_range=k_range,
        residuals=entry.grid("residuals", PRODUCT_AXES),
    )


def attention_curve(
    fields: Mapping[str, object], peak: float, multiprocessors: float, sustained: bool = True
) -> AttentionCurve:
    """Resolve one ``attention`` entry of a curve file.

    Parameters
    ----------
    fields : Mapping
        The entry, every quantity a text with its unit.
    peak : float
        Dense peak of the data type. [FLOP/s]
    multiprocessors : float
        Streaming multiprocessors. [-]
    sustained : bool
        Multiply by the share of the burst rate that hours of work hold; a backward rate that comes from
        training runs holds already.

    Raises
    ------
    KeyError
        If a field is missing.
    ValueError
        If a field is not what it should be.
    """
    entry = _Entry(fields)
    (seq_range,) = entry.ranges("seq")
    lasting = entry.number("sustained_ratio") if sustained else 1.0
    backward = lasting if fields.get("backward_standing") == "measured" else 1.0
    return AttentionCurve(
        rate=entry.number("efficiency") * lasting * peak,
        half_keys=entry.number("half_keys"),
        half_queries=entry.number("half_queries_per_multiprocessor") * multiprocessors,
        launch=entry.number("launch", "s"),
        backward_rate=entry.number("backward_efficiency") * backward * peak,
        backward_half_keys=entry.number("backward_half_keys"),
        seq_range=seq_range,
        shared_half_keys=parse(fields.get("shared_half_keys", "0"), "-"),
        residuals=entry.grid("residuals", ATTENTION_AXES),
        backward_residuals=entry.grid("backward_residuals", ATTENTION_AXES),
        chosen=fields.get("kernel") == CHOSEN,
    )


def expert_curve(
    fields: Mapping[str, object], dense: GemmCurve, bandwidth: float, trained: bool = True
) -> ExpertCurve:
    """Resolve one ``experts`` entry of a curve file; the rate is that of the dense product.

    Parameters
    ----------
    fields : Mapping
        The entry, every quantity a text with its unit.
    dense : GemmCurve
        Matrix products of the same accelerator and data type.
    bandwidth : float
        Memory bandwidth of the datasheet. [byte/s]
    trained : bool
        Weights as training has them. Those of the tables were not random: products on them draw less power
        and pass the dense rate, which is kept out where this is true.

    Raises
    ------
    KeyError
        If a field is missing.
    ValueError
        If a field is not what it should be.
    """
    entry = _Entry(fields)
    (rows_range,) = entry.ranges("rows")
    share = entry.number("rate_share")
    return ExpertCurve(
        rate=dense.rate * (min(share, 1.0) if trained else share),
        launch=entry.number("launch", "s"),
        bandwidth=entry.number("memory_efficiency") * bandwidth,
        activation_bandwidth=entry.number("activation_efficiency") * bandwidth,
        token_bytes=entry.number("token_bytes", "byte"),
        operand_bytes=dense.operand_bytes,
        output_bytes=dense.output_bytes,
        rows_range=rows_range,
    )


def unfused_attention(
    fields: Mapping[str, object], peak: float, bandwidth: float, fused_softmax: bool
) -> UnfusedAttention:
    """Resolve the ``unfused_attention`` entry of a curve file.

    Parameters
    ----------
    fields : Mapping
        The entry, every quantity a text with its unit.
    peak : float
        Dense peak of the data type. [FLOP/s]
    bandwidth : float
        Memory bandwidth of the datasheet. [byte/s]
    fused_softmax : bool
        Whether scale, mask, softmax and dropout are one kernel.

    Raises
    ------
    KeyError
        If a field is missing.
    ValueError
        If a field is not what it should be.
    """
    entry = _Entry(fields)
    return UnfusedAttention(
        rate=entry.number("efficiency") * peak,
        misaligned_rate=entry.number("misaligned_efficiency") * peak,
        score_bytes=entry.number("fused_softmax_score_bytes" if fused_softmax else "score_bytes", "byte"),
        forward_share=entry.number("forward_share"),
        bandwidth=entry.number("memory_efficiency") * bandwidth,
    )


def size_grid(fields: Mapping[str, object], axes: Sequence[str] = PRODUCT_AXES) -> SizeGrid:
    """Resolve the ``residuals`` of an entry of a curve file: sizes by the name of each axis, and ``shares``.

    Raises `KeyError` if a field is missing; `ValueError` if axes do not rise, or there are not as many shares
    as nodes.
    """
    nodes = tuple(_numbers(fields[axis]) for axis in axes)
    shares = _numbers(fields["shares"])
    rising = all(
        len(axis) >= FEWEST_NODES and all(low < high for low, high in pairwise(axis)) for axis in nodes
    )
    if not rising:
        raise ValueError(f"residuals: expected at least two rising sizes for each of {', '.join(axes)}")
    wanted = len(nodes[0]) * len(nodes[1]) * len(nodes[2])
    if len(shares) != wanted:
        raise ValueError(f"residuals: {len(shares)} shares, expected {wanted}, one for each node")
    return SizeGrid(nodes, shares)
