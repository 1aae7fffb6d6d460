"""ZeRO: every number of its table 1, and what the stages divide."""

from __future__ import annotations

from planner.techniques.sharding import SHARDINGS
from planner.techniques.sharding.family import Sharding, sharded_states
from tests.cases import every

RANKS = (1, 4, 16, 64, 256, 1024)

# arXiv:1910.02054, table 1: GB for each rank, mixed-precision Adam (2 + 2 + 12 bytes), GB = 10^9.
TABLE_1 = {
    ("zero1", 7.5e9): (120, 52.5, 35.6, 31.4, 30.4, 30.1),
    ("zero2", 7.5e9): (120, 41.3, 21.6, 16.6, 15.4, 15.1),
    ("zero3", 7.5e9): (120, 30, 7.5, 1.88, 0.47, 0.12),
    ("zero1", 128e9): (2048, 896, 608, 536, 518, 513),
    ("zero2", 128e9): (2048, 704, 368, 284, 263, 257),
    ("zero3", 128e9): (2048, 512, 128, 32, 8, 2),
    ("zero1", 1e12): (16000, 7000, 4750, 4187, 4046, 4011),
    ("zero2", 1e12): (16000, 5500, 2875, 2218, 2054, 2013),
    ("zero3", 1e12): (16000, 4000, 1000, 250, 62.5, 15.6),
}


def state_bytes(
    params: float, ranks: int, sharding: Sharding, each: tuple[float, float, float] = (2.0, 2.0, 12.0)
) -> float:
    """Bytes of all states on a rank: by default those of the paper's mixed precision with Adam."""
    weights, gradients, optimizer = (params * nbytes for nbytes in each)
    return float(sum(sharded_states(weights, gradients, optimizer, ranks, sharding)))


def last_digit(printed: float) -> float:
    """Return one unit of the last digit that was printed; the table rounds some entries and cuts others."""
    _, _, decimals = f"{printed:g}".partition(".")
    return 10.0 ** -len(decimals)


@every(("stage", "params"), TABLE_1)
def test_every_number_of_table_1(stage: str, params: float) -> None:
    for ranks, printed in zip(RANKS, TABLE_1[stage, params], strict=True):
        gigabytes = state_bytes(params, ranks, SHARDINGS[stage]) / 1e9
        assert abs(gigabytes - printed) < last_digit(printed), ranks


def test_plain_data_parallelism_holds_sixteen_bytes() -> None:
    assert state_bytes(7.5e9, 1024, SHARDINGS["zero0"]) == 16 * 7.5e9


def test_fully_sharded_states_of_pytorch() -> None:
    """FSDP2 with fp32 shards: 4 + 4 + 8 bytes over the ranks, no master copy (arXiv:2304.11277, sec. 4)."""
    sharded = state_bytes(8e9, 64, SHARDINGS["zero3"], (4.0, 4.0, 8.0))
    assert sharded == 16 * 8e9 / 64


def test_what_each_stage_shares() -> None:
    shared = {
        entry.stage: (entry.optimizer_shards(8), entry.gradient_shards(8), entry.parameter_shards(8))
        for entry in SHARDINGS.values()
    }
    assert shared == {0: (1, 1, 1), 1: (8, 1, 1), 2: (8, 8, 1), 3: (8, 8, 8)}
