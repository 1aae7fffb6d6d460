"""Context parallelism: volumes in their papers' forms, played rings and exchanges, and what heads allow."""

from __future__ import annotations

from typing import Any

import pytest

from planner.calibrate.pricing import Prediction, cost_predictions
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, prepare
from planner.calibrate.runs.table import Run
from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.layer.blocks import block_operators
from planner.cost.layer.context_exchange import context_exchange
from planner.cost.layer.context_parallel import gathered_bytes
from planner.cost.layer.operators import Pricer
from planner.errors import InputError
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.runtimes.family import Job
from planner.techniques.context import CONTEXT_METHODS
from planner.techniques.context.family import read_method
from tests.cases import every
from tests.unit.cost_jobs import DENSE, MHA, any_runtime, job, model, plan_of, runtime

BATCH, SEQ, HEADS, KV_HEADS, HEAD_DIM = 2, 8192, 32, 8, 128
Q_WIDTH, KV_WIDTH = HEADS * HEAD_DIM, 2 * KV_HEADS * HEAD_DIM


def sent(name: str, cp: int, backward: bool = False) -> float:
    method = CONTEXT_METHODS[name]
    elements = method.backward_elements if backward else method.forward_elements
    return float(elements(BATCH * SEQ / cp, Q_WIDTH, KV_WIDTH, cp) * method.sent_share(cp))


@every("cp", [2, 4, 8])
@every("name", ["ring", "all-gather"])
def test_a_ring_passes_keys_and_values_around(name: str, cp: int) -> None:
    """Played: in each of cp - 1 rounds a rank passes on the chunk that it got; all end with all chunks."""
    held = [{rank} for rank in range(cp)]
    chunk = BATCH * SEQ / cp * 2 * KV_HEADS * HEAD_DIM
    moved = 0.0
    for step in range(cp - 1):
        for rank in range(cp):
            held[(rank + 1) % cp].add((rank - step) % cp)
        moved += chunk
    assert all(len(chunks) == cp for chunks in held)
    assert sent(name, cp) == moved
    assert sent(name, cp, backward=True) == 2 * moved


@every("cp", [2, 4, 8])
def test_ulysses_keeps_one_share_of_queries_keys_values_and_outputs(cp: int) -> None:
    """arXiv:2309.14509, sec. 3.1, for grouped queries: (P-1)/P^2 of 2 s d (a + a_kv), each way."""
    expected = (cp - 1) / cp**2 * 2 * BATCH * SEQ * HEAD_DIM * (HEADS + KV_HEADS)
    assert sent("all-to-all", cp) == expected == sent("all-to-all", cp, backward=True)


def test_ulysses_sends_less_with_more_ranks_and_a_ring_does_not() -> None:
    """Its volume is constant when sequence and ranks grow together, so it falls at one length."""
    assert sent("all-to-all", 8) < sent("all-to-all", 4) < sent("all-to-all", 2)
    assert sent("ring", 2) < sent("ring", 4) < sent("ring", 8)


def test_ring_and_ulysses_for_as_many_key_heads_as_query_heads() -> None:
    """Per rank, Megatron's 4 s h of tensor parallelism against 4 s h / P (arXiv:2309.14509, sec. 3.2)."""
    method = CONTEXT_METHODS["all-to-all"]
    cp, hidden = 8, HEADS * HEAD_DIM
    volume = method.forward_elements(SEQ / cp, hidden, 2 * hidden, cp)
    assert volume == 4 * SEQ * hidden / cp


@every(
    ("name", "cp", "heads", "kv_heads", "allowed"),
    [
        ("all-to-all", 8, 32, 8, True),
        ("all-to-all", 16, 32, 8, True),
        ("all-to-all", 3, 32, 8, False),
        ("all-to-all", 1, 32, 1, True),
        ("ring", 16, 32, 1, True),
        ("all-gather", 64, 1, 1, True),
        ("usp", 16, 32, 8, True),
        ("usp", 8, 32, 8, False),
        ("usp", 16, 32, 1, False),
        ("usp", 6, 32, 4, True),
    ],
)
def test_which_heads_can_be_split(name: str, cp: int, heads: int, kv_heads: int, allowed: bool) -> None:
    method = CONTEXT_METHODS[name]
    assert method.legal(cp, heads, kv_heads, method.head_ranks(cp, heads, kv_heads, near=8)) == allowed


@every("name", CONTEXT_METHODS)
def test_one_rank_sends_and_holds_nothing(name: str) -> None:
    assert sent(name, 1) == sent(name, 1, backward=True) == 0
    assert CONTEXT_METHODS[name].gathered_elements(SEQ, Q_WIDTH, KV_WIDTH, 1) == 0


def test_what_a_rank_holds_beside_its_own() -> None:
    held = {
        name: method.gathered_elements(SEQ / 4, Q_WIDTH, KV_WIDTH, 4)
        for name, method in CONTEXT_METHODS.items()
    }
    assert held["all-gather"] == 2 * 3 * SEQ / 4 * KV_WIDTH
    assert held["ring"] == 2 * 2 * SEQ / 4 * KV_WIDTH
    assert held["all-to-all"] == SEQ / 4 * (2 * Q_WIDTH + KV_WIDTH)


@every("cp", [2, 3, 4, 5, 8, 16])
def test_balanced_attention_played_step_by_step(cp: int) -> None:
    """arXiv:2310.03294, sec. 3.1: a rank without keys left helps the one t places before."""
    method = CONTEXT_METHODS["lightseq"]
    pairs: list[tuple[int, int]] = []
    elapsed = 0.5
    for step in range(1, cp // 2 + 1):
        owners = [(rank, rank - step) for rank in range(step, cp)]
        helped = [(rank - step + cp, rank) for rank in range(step)]
        pairs += owners + ([] if 2 * step == cp else helped)
        elapsed += 1.0
    assert sorted(pairs) == [(query, key) for query in range(cp) for key in range(query)]
    work = (cp * 0.5 + len(pairs)) / cp
    assert method.idle_factor(cp) == pytest.approx(elapsed / work, rel=1e-12)
    chunk = SEQ / cp * 2 * Q_WIDTH
    moved = method.forward_elements(SEQ / cp, Q_WIDTH, 2 * Q_WIDTH, cp) * method.sent_share(cp)
    assert moved == pytest.approx(chunk * len(pairs) / cp, rel=1e-12)


@every("cp", [2, 4, 8])
def test_burst_attention_sends_what_its_paper_counts(cp: int) -> None:
    """arXiv:2403.09347, Table 1: 2 B Z N d forward, 3 B Z N d + 2 B Z N backward, whole buffers."""
    method, hidden = CONTEXT_METHODS["burst"], HEADS * HEAD_DIM
    unit = BATCH * SEQ * hidden
    assert method.forward_elements(BATCH * SEQ / cp, hidden, 2 * hidden, cp) == 2 * unit
    assert method.backward_elements(BATCH * SEQ / cp, hidden, 2 * hidden, cp) == 3 * unit
    assert method.backward_statistics * BATCH * SEQ * HEADS == 2 * BATCH * HEADS * SEQ


@every(("sharing", "ratio"), [(1, 3 / 4), (4, 3), (8, 6)])
def test_burst_attention_loses_backward_with_grouped_queries(sharing: int, ratio: float) -> None:
    """By hand: three widths of the queries against the ring's four of the keys, statistics apart."""
    widths = (SEQ / 8, Q_WIDTH, 2 * Q_WIDTH / sharing, 8)
    burst, ring = (CONTEXT_METHODS[name].backward_elements(*widths) for name in ("burst", "ring"))
    assert burst / ring == ratio


@every("fp32", [False, True])
def test_burst_attention_carries_statistics_and_no_gradients_of_keys(fp32: bool) -> None:
    """By hand, one rank sends 7/8 of 2 x (3 x width + 2 x heads) bytes; no fp32 dK and dV."""
    asked = job(model("8", {"a": {"mixer": MHA | {"heads": 32, "kv_heads": 8}, "ffn": DENSE}}, "2 a"), gpus=8)
    plan = plan_of(asked, cp=8, zero=3, cp_method="burst")
    pricer = Pricer(
        case_of(plan, asked, any_runtime(ring_attention="torch" if fp32 else "transformer-engine")), plan
    )
    block = asked.model.blocks["a"]
    core = next(one for one in block_operators(pricer, block) if one.module == "core_attn")
    mixer = block.attention
    assert mixer is not None
    sequence = pricer.tokens * 8
    exchange = context_exchange(pricer, mixer, core)
    assert exchange.forward_sent == 2 * sequence * 8 * 2 * mixer.qk_head_dim * 7 / 8
    assert exchange.backward_sent == 2 * sequence * (3 * 32 * mixer.qk_head_dim + 2 * 32) * 7 / 8


@every("method", ["all-to-all", "ring"])
def test_heads_that_ranks_do_not_divide_are_padded_where_they_are_dealt_out(method: str) -> None:
    """33 heads on 8 ranks are 5 each, so that as many travel as of 40; a ring passes on the 33."""

    def sent_of(heads: int) -> float:
        block = {"mixer": MHA | {"heads": heads, "kv_heads": heads}, "ffn": DENSE}
        asked = job(model(str(heads), {"a": block}, "2 a"), gpus=8)
        plan = plan_of(asked, cp=8, zero=3, cp_method=method)
        pricer = Pricer(case_of(plan, asked, any_runtime()), plan)
        layer = asked.model.blocks["a"]
        core = next(one for one in block_operators(pricer, layer) if one.module == "core_attn")
        assert layer.attention is not None
        return float(context_exchange(pricer, layer.attention, core).forward_sent)

    expected = 40 / 33 if method == "all-to-all" else 1.0
    assert sent_of(33) == pytest.approx(expected * 33 / 32 * sent_of(32))


def attention_of(cp: int, method: str, kv_heads: int = 8) -> tuple[Pricer, Any, Any]:
    """A layer's pricer, its attention and the priced core, on cp ranks of two nodes of eight."""
    block = {"mixer": MHA | {"heads": 32, "kv_heads": kv_heads}, "ffn": DENSE}
    asked = job(model(str(kv_heads), {"a": block}, "2 a"), gpus=16)
    plan = plan_of(asked, cp=cp, zero=3, cp_method=method)
    pricer = Pricer(case_of(plan, asked, any_runtime()), plan)
    core = next(one for one in block_operators(pricer, asked.model.blocks["a"]) if one.module == "core_attn")
    return pricer, asked.model.blocks["a"].attention, core


@every("inner", [2, 4, 8])
def test_a_mesh_sends_heads_inside_and_its_own_keys_between_groups(inner: int) -> None:
    """arXiv:2405.07719, sec. 3, by hand: (u-1)/u of q, k, v, o; then r-1 times k, v of the rank's heads."""
    pricer, mixer, core = attention_of(16, f"usp:{inner}")
    width, rings = mixer.qk_head_dim, 16 // inner
    near = (inner - 1) / inner * pricer.tokens * (2 * 32 + 2 * 8) * width
    far = (rings - 1) * (pricer.tokens * inner) * (2 * 8 / inner) * width
    exchange = context_exchange(pricer, mixer, core)
    assert exchange.forward_sent == pytest.approx(2 * (near + far), rel=1e-12)
    assert exchange.backward_sent == pytest.approx(2 * (near + 2 * far), rel=1e-12)


@every(("method", "mesh"), [("ring", "usp:1"), ("all-to-all", "usp:16")])
def test_a_mesh_of_one_side_is_the_method_of_that_side(method: str, mesh: str) -> None:
    alone, both = (
        context_exchange(*attention_of(16, name, kv_heads=32)).forward_sent for name in (method, mesh)
    )
    assert alone == pytest.approx(both, rel=1e-12)
    assert attention_of(16, method, 32)[2].forward == pytest.approx(attention_of(16, mesh, 32)[2].forward)


def test_sizes_of_a_mesh_that_is_not_told_fill_a_node() -> None:
    """32 and 8 heads over nodes of eight: eight share heads, and what is sent is what usp:8 sends."""
    chosen, told = (context_exchange(*attention_of(16, name)) for name in ("usp", "usp:8"))
    assert chosen == told


def test_keys_of_other_ranks_stand_in_memory_while_attention_runs() -> None:
    """By hand: keys and values of 15 others and as many gradients, 2 bytes each."""
    pricer, mixer, core = attention_of(16, "all-gather")
    gathered = 2 * 2 * 15 * pricer.tokens * 2 * 8 * mixer.qk_head_dim
    assert gathered_bytes(pricer.case, pricer.plan, pricer.tokens, mixer) == gathered
    assert core.result >= gathered
    long = Workload(seq_len=262144, global_batch=1)
    asked = Job(load_model("llama3-8b"), load_hardware("dgx-h100"), 16, long)
    by = {
        name: estimate(
            plan_of(asked, cp=16, zero=3, recompute="full", cp_method=name), asked, runtime("torchtitan")
        )
        for name in ("ring", "all-gather")
    }
    whole = by["all-gather"].stages[0].workspace - by["ring"].stages[0].workspace
    assert whole > 0


@every(
    ("text", "told"),
    [
        ("usp:0", "whole number"),
        ("usp:x", "whole number"),
        ("ring:2", "but for a mesh"),
        ("ursp", "nearest: "),
    ],
)
def test_a_wrong_mesh_is_told(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_method(CONTEXT_METHODS, text)


LIGHTSEQ_JOB = Job(
    load_model("llama-7b"), load_hardware("dgx-a100-80gb"), 16, Workload(seq_len=262144, global_batch=1)
)


def long_step(method: str, **traits: Any) -> float:
    """Seconds of DistFlashAttention's job of 256K tokens on two nodes, PyTorch FSDP. [s]"""
    plan = plan_of(LIGHTSEQ_JOB, cp=16, zero=3, cp_method=method, recompute="full")
    return estimate(plan, LIGHTSEQ_JOB, runtime("fsdp", **traits)).step


def test_balanced_attention_asked_for_costs_what_its_authors_measured() -> None:
    """arXiv:2310.03294, Table 1: 30.21 s on 2 x 8 A100, where Ulysses took 37.53 s (Table 4)."""
    own, heads = long_step("lightseq"), long_step("all-to-all")
    assert own == pytest.approx(30.21, rel=0.06)
    assert heads == pytest.approx(37.53, rel=0.12)
    assert own < heads


def test_a_run_of_the_authors_code_is_priced_as_the_method_is() -> None:
    """A table's row and the same job asked for: only FSDP's own version differs between them."""
    row = Run(
        line=2, id="a", source="a", gpu="a100-80gb-sxm", gpus_per_node=8, num_gpus=16, model="llama-7b",
        seq_len=262144, framework="distflashattn", cp=16, cp_method="lightseq", micro_batch=1, global_batch=1,
        recompute="full", zero="3", step_time_s=30.21,
    )  # fmt: skip
    ready = prepare(row, shipped_catalogue())
    assert isinstance(ready, PricedRun)
    (found,) = cost_predictions([ready])
    assert isinstance(found, Prediction)
    assert found.step_s == pytest.approx(long_step("lightseq"), rel=0.02)


def test_a_method_with_its_own_kernel_takes_nothing_from_the_runtime_s_ring() -> None:
    """What PyTorch's ring attention does is not what LightSeq's kernel does (`lightseq_async_attn.py`)."""
    ring = {"ring_attention": "transformer-engine", "cp_slowdown": 2.0, "cp_exposed": 0.9}
    assert long_step("lightseq", **ring) == long_step("lightseq")
    assert long_step("lightseq", attention="unfused") == long_step("lightseq")
    assert long_step("ring", **ring) != long_step("ring")


def test_checkpoints_behind_attention_spare_it_and_nothing_else() -> None:
    """arXiv:2310.03294, Table 5, 32K on each of 8: 76.38 s with plain checkpoints, 58.46 s with its own."""
    plain, own = long_step("lightseq", checkpointing="around-layers"), long_step("lightseq")
    assert plain / own == pytest.approx(76.38 / 58.46, rel=0.06)


@every("method", CONTEXT_METHODS)
def test_one_rank_pays_what_it_would_without_the_method(method: str) -> None:
    asked = job()
    alone, plain = (
        estimate(plan_of(asked, zero=3, recompute="full", cp_method=name), asked, any_runtime())
        for name in (method, "ring")
    )
    assert (alone.step, alone.stages) == (plain.step, plain.stages)
