"""Linear layers that pass on states: what their papers printed, the rules, and what crosses ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.communication import recurrent_exchange
from planner.cost.layer.operators import Pricer
from planner.cost.layer.recurrent import scan_operator
from planner.cost.layer.state_passing import held_states, state_exchange
from planner.cost.legal import all_rules
from planner.errors import InputError
from planner.formulas.collectives import Tier
from planner.formulas.relay import pipelined_relay_seconds, relay_seconds
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.mixers.lightning import Lightning
from planner.inputs.model import Attention, Block, DenseFfn, ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.search.choices import context_methods
from planner.techniques.context import CONTEXT_METHODS
from planner.techniques.context.family import read_method
from planner.techniques.states import STATE_METHODS
from tests.cases import every

MEGATRON = runtimes()["megatron-lm"]

TABLE_2 = {
    8: (0.375, 0.226), 16: (0.658, 0.297), 32: (1.616, 0.448), 64: (2.543, 0.739), 128: (4.350, 1.272),
    256: (8.514, 2.165),
}  # fmt: skip
"""Ranks of H100; ms of an all-gather and an All-Scan, 32 heads of 128 (arXiv:2507.01004, table 2)."""

STATE = 4.0 * 32 * 128 * 128
"""Bytes of that state."""


def authors_scan() -> tuple[Tier, float]:
    """Hop and blocks of the authors' network, which they do not print: from their first and last row."""
    (_, near), (_, far) = TABLE_2[8], TABLE_2[256]
    hop = 1e-3 * (far - near) / (256 - 8)
    blocks = 1e-3 * near / hop - (8 - 2)
    start = load_hardware("dgx-h100").pool.tiers[-1].latency
    rate = STATE / blocks / (hop - start)
    return Tier("hop", np.inf, rate, start, rate), blocks


@every("ranks", [16, 32, 64, 128])
def test_an_all_scan_takes_what_its_authors_measured_between_their_ends(ranks: int) -> None:
    """Two unknowns of their network from 8 and 256 ranks; four rows follow within 11%."""
    tier, blocks = authors_scan()
    found = 1e3 * float(relay_seconds(STATE, float(ranks), 1.0, [tier], blocks))
    assert found == pytest.approx(TABLE_2[ranks][1], rel=0.11)


@every("ranks", [16, 32, 64, 128])
def test_an_all_gather_grows_with_the_ranks_as_theirs_does(ranks: int) -> None:
    """A line through their first and last row; theirs bends at two nodes, by up to a third."""
    (near, _), (far, _) = TABLE_2[8], TABLE_2[256]
    rate = STATE / (1e-3 * (far - near) / (256 - 8))
    tier = Tier("hop", np.inf, rate, 0.0, rate)
    start = 1e-3 * near - float(STATE_METHODS["lasp-2"].seconds(STATE, 8.0, 1.0, [tier]))
    found = 1e3 * (start + float(STATE_METHODS["lasp-2"].seconds(STATE, float(ranks), 1.0, [tier])))
    assert found == pytest.approx(TABLE_2[ranks][0], rel=0.31)


def test_nothing_hides_the_exchange_in_their_steps() -> None:
    """32K tokens a rank on 256: 46,588 tokens/s alone, 40,967 with ZeCO, 25,402 with LASP-2 (fig. 4).

    24 layers (1B GLA), both passes of table 2: 1% from ZeCO's; LASP-2's is 16% slower still.
    """
    tokens, layers = 32768, 24
    alone = tokens / 46588
    gathered, scanned = (1e-3 * ms for ms in TABLE_2[256])
    assert tokens / (alone + 2 * layers * scanned) == pytest.approx(40967, rel=0.015)
    slow = tokens / (alone + 2 * layers * gathered)
    assert 25402 < slow < 1.17 * 25402


def linear_job(gpus: int, each: int, heads: int = 16, layers: int = 16) -> Job:
    """A model of about 1 B of linear attention on H100, one sequence over all accelerators."""
    block = Block(mixer=Lightning(heads=heads, head_dim=128), ffn=DenseFfn(inner=5632))
    model = ModelSpec(
        name="linear", hidden=2048, vocab=32000, layers=("b",) * layers, blocks={"b": block},
        tied_embeddings=False,
    )  # fmt: skip
    return Job(model, load_hardware("dgx-h100"), gpus, Workload(seq_len=each * gpus, global_batch=1))


def plan(cp: int, method: str, tp: int = 1) -> Plan:
    return Plan(cp=float(cp), tp=float(tp), micro_batch=1.0, zero=1, zero_shards=float(cp), cp_method=method)


def step(job: Job, method: str) -> float:
    return float(estimate(plan(job.gpus, method), job, MEGATRON).step)


def test_the_order_of_the_papers_and_a_ring_that_waits() -> None:
    """LASP-2 over LASP: 15.2% by one paper's step on 64 ranks, 3.2 times by the other's layer on 128."""
    long = linear_job(64, 32768)
    lasp, lasp_2, zeco = (step(long, name) for name in ("lasp", "lasp-2", "zeco"))
    assert zeco < lasp_2 < lasp
    assert 1.152 < lasp / lasp_2 < 113.71 / 35.72


def test_a_ring_of_keys_and_values_loses_more_than_lasp_2_prints() -> None:
    """+36.6% over ring attention, 2,048K tokens on 64 ranks (arXiv:2502.07563, sec. 4): a lower bound alone.

    The print does not follow from what the paper states. Its ring passes keys and values, 134 MB of each a
    turn where a state has 0.5 MB, and multiplies without the order that makes attention linear: either one
    makes a step here over twenty times as long as LASP-2's.
    """
    linear = linear_job(64, 32768)
    mixer = Attention(heads=16, kv_heads=16, head_dim=128)
    blocks = {"b": Block(mixer=mixer, ffn=DenseFfn(inner=5632))}
    softmax = replace(linear, model=linear.model.model_copy(update={"blocks": blocks}))
    assert step(softmax, "ring") / step(linear, "lasp-2") > 20 > 1.366
    passed = priced_layer(pricer(softmax, cp=64.0, cp_method="ring"), "b").exchanges.cp
    worked = priced_layer(pricer(linear, cp=64.0, cp_method="lasp-2"), "b")
    assert float(passed.forward_sent) == 63 * 2 * 2 * 32768 * 2048
    assert float(passed.forward) > 20 * sum(float(one.forward) for one in worked.operators)


def test_on_256_ranks_zeco_loses_what_it_does() -> None:
    """40,967 of 46,588 tokens/s, 87.9%; LASP-2's cluster gathered at a sixth of this one's rate."""
    shared = linear_job(256, 32768, layers=24)
    alone = replace(shared, workload=Workload(seq_len=32768, global_batch=256))
    none = Plan(tp=1.0, cp=1.0, dp=256.0, micro_batch=1.0, zero=1, zero_shards=256.0)
    base = float(estimate(none, alone, MEGATRON).step)
    assert base / step(shared, "zeco") == pytest.approx(40967 / 46588, abs=0.06)
    assert base / step(shared, "lasp-2") < base / step(shared, "zeco")


def test_blocks_never_take_longer_and_one_hop_needs_none() -> None:
    tiers = [Tier("a", 8, 337e9, 3e-6, 247e9), Tier("b", np.inf, 42e9, 5e-6, 42e9)]
    ranks = np.array([1.0, 2.0, 8.0, 64.0, 256.0])
    whole, blocks = (way(STATE, ranks, 1.0, tiers) for way in (relay_seconds, pipelined_relay_seconds))
    assert np.all(blocks <= whole)
    assert blocks[0] == 0.0
    assert blocks[1] == whole[1]
    for place, number in enumerate(ranks):
        assert float(pipelined_relay_seconds(STATE, float(number), 1.0, tiers)) == pytest.approx(
            float(blocks[place])
        )


def pricer(job: Job, **degrees: float | str) -> Pricer:
    one = replace(Plan(tp=1.0, cp=1.0, micro_batch=1.0), **degrees)  # type: ignore[arg-type]
    return Pricer(case_of(one, job, MEGATRON), one)


def test_what_is_sent_does_not_grow_with_the_sequence_and_all_heads_stay() -> None:
    mixer = Lightning(heads=16, head_dim=128)
    short, long = (pricer(linear_job(8, each), cp=8.0, cp_method="zeco") for each in (4096, 65536))
    method = STATE_METHODS["zeco"]
    sent = [float(state_exchange(one, mixer, method).forward_sent) for one in (short, long)]
    assert sent[0] == sent[1] == 4 * 16 * 128 * 128
    assert float(recurrent_exchange(long, mixer).forward_sent) == 16 * float(
        recurrent_exchange(short, mixer).forward_sent
    )
    heads = pricer(linear_job(8, 65536), cp=8.0)
    assert float(scan_operator(heads, mixer).flops) == float(scan_operator(long, mixer).flops)
    # A chain of chunks over the whole sequence is longer than one over a part.
    assert float(scan_operator(heads, mixer).forward) > float(scan_operator(long, mixer).forward)


@every(("name", "waiting"), [("lasp", 1), ("lasp-2", 8), ("zeco", 1)])
def test_a_rank_holds_the_states_that_wait(name: str, waiting: int) -> None:
    mixer = Lightning(heads=16, head_dim=128)
    known = pricer(linear_job(8, 4096), cp=8.0, cp_method=name)
    kept, held = (float(nbytes) for nbytes in held_states(known, mixer))
    assert (kept, held) == (4 * 16 * 128 * 128, waiting * kept)
    assert held_states(pricer(linear_job(8, 4096), cp=8.0), mixer) == (0.0, 0.0)


def test_a_convolution_sends_its_last_tokens() -> None:
    job = replace(linear_job(8, 4096), model=load_model("nemotron-h-56b"))
    mixer = job.model.recurrents[0]
    method = STATE_METHODS["zeco"]
    sent = float(state_exchange(pricer(job, cp=8.0, cp_method="zeco"), mixer, method).forward_sent)
    state = 4 * mixer.state_heads * mixer.qk_head_dim * mixer.value_head_dim
    assert sent == state + 2 * (mixer.conv_kernel - 1) * mixer.conv_width


def broken(job: Job, one: Plan) -> set[str]:
    return {fault.rule for fault in violations(all_rules(one, case_of(one, job, MEGATRON)))}


def test_no_runner_is_known_and_more_ranks_than_heads_can_share() -> None:
    job = linear_job(64, 32768)
    assert "state-heads-divide" in broken(job, plan(64, "ring"))
    assert broken(job, plan(64, "ring+zeco")) >= {"states-have-a-runner"}
    assert "state-heads-divide" not in broken(job, plan(64, "ring+zeco"))
    assert "cp-method-offered" in broken(job, plan(64, "burst+zeco"))
    assert "states-have-a-runner" not in broken(job, plan(64, "ring"))
    for runtime in runtimes().values():
        assert not any("zeco" in name or "lasp" in name for name in context_methods(runtime, job))


@every("name", ["llama3-8b", "qwen3-next-80b-a3b"])
def test_states_that_turn_or_are_not_there_are_refused_by_name(name: str) -> None:
    job = Job(load_model(name), load_hardware("dgx-h100"), 2, Workload(seq_len=8192, global_batch=2))
    assert "states-can-be-merged" in broken(job, plan(2, "zeco"))
    assert "states-can-be-merged" not in broken(job, plan(2, "ring"))


def test_attention_beside_them_keeps_its_own_method() -> None:
    job = replace(linear_job(8, 4096), model=load_model("nemotron-h-56b"))
    for name in ("ring", "all-gather"):
        method = case_of(plan(8, f"{name}+zeco"), job, MEGATRON).context
        assert method == replace(CONTEXT_METHODS[name], name=f"{name}+zeco", states=STATE_METHODS["zeco"])
    assert any(isinstance(block.mixer, Attention) for block in job.model.blocks.values())


@every(
    ("text", "name"),
    [
        ("zeco", "ring+zeco"),
        ("usp:4+LASP2", "usp:4+lasp-2"),
        ("a2a+p2p", "usp"),
        ("p2p+all-scan", "ring+zeco"),
    ],
)
def test_names(text: str, name: str) -> None:
    assert read_method(CONTEXT_METHODS, text).name == name
    assert read_method(CONTEXT_METHODS, name).name == name


@every("text", ["ring+zecco", "zeco+zeco", "ring+lasp+zeco", "rung+zeco", "+zeco"])
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(InputError):
        read_method(CONTEXT_METHODS, text)


def test_a_way_to_pass_states_is_told_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"lasp, lasp-2, zeco; nearest: zeco"):
        read_method(CONTEXT_METHODS, "ring+zecco")
