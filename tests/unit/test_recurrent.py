"""Mixers that pass a state along: arithmetic against a recurrence, time against measured kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from planner.cost.case import Case, case_of
from planner.cost.estimate import estimate
from planner.cost.layer.block_cost import layer_cost, priced_layer
from planner.cost.layer.blocks import block_operators
from planner.cost.layer.communication import narrow_exchange, recurrent_exchange
from planner.cost.layer.operators import Operator, Pricer
from planner.cost.layer.recurrent import recurrent_operators, scan_operator, selective_scan
from planner.cost.legal import all_rules
from planner.formulas.recurrence import delta_rule_flops, linear_attention_flops
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.mixers.gated_delta import GatedDelta
from planner.inputs.mixers.kimi_delta import KimiDelta
from planner.inputs.mixers.mamba1 import Mamba1
from planner.inputs.mixers.mamba2 import Mamba2
from planner.inputs.mixers.short_conv import ShortConv
from planner.inputs.model import Attention, Block, DenseFfn, Experts, ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.profile.check_shapes import stage_parts
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.megatron_lm import ENTRY as MEGATRON
from planner.runtimes.megatron_lm.hybrid import hybrid_obstacles, layer_pattern
from planner.runtimes.settings import NO_CHANGES
from planner.runtimes.torchtitan.model_data import model_data
from planner.runtimes.torchtitan.reading.torchtitan_module import module_record
from tests.cases import every
from tests.cli.command import planner
from tests.unit.cost_jobs import MODELS

Matrix = NDArray[np.float64]


class Counted:
    """Matrix products that count their FLOPs."""

    def __init__(self) -> None:
        self.flops = 0

    def of(self, left: Matrix, right: Matrix) -> Matrix:
        self.flops += 2 * left.shape[0] * left.shape[1] * right.shape[1]
        return left @ right


def delta_by_token(q: Matrix, k: Matrix, v: Matrix, beta: Matrix) -> Matrix:
    """The delta rule as it is defined: one token after the other."""
    state, out = np.zeros((k.shape[1], v.shape[1])), np.zeros_like(v)
    for t in range(len(q)):
        state = state + beta[t] * np.outer(k[t], v[t] - state.T @ k[t])
        out[t] = state.T @ q[t]
    return out


def delta_by_chunk(q: Matrix, k: Matrix, v: Matrix, beta: Matrix, chunk: int) -> tuple[Matrix, int]:
    """The same by chunks, every product of which is counted but for the inverse's own."""
    products, state, out = Counted(), np.zeros((k.shape[1], v.shape[1])), np.zeros_like(v)
    for start in range(0, len(q), chunk):
        rows = slice(start, start + chunk)
        queries, keys, weight = q[rows], k[rows], beta[rows][:, None]
        met = np.tril(weight * products.of(keys, keys.T), -1)
        inverse = np.linalg.inv(np.eye(chunk) + met)
        read = products.of(inverse, weight * keys)
        new = products.of(inverse, weight * v[rows]) - products.of(read, state)
        near = products.of(np.tril(products.of(queries, keys.T)), new)
        out[rows] = products.of(queries, state) + near
        state = state + products.of(keys.T, new)
    return out, products.flops


def test_chunks_give_what_the_recurrence_gives_and_take_the_flops_of_the_formula() -> None:
    dice, tokens, chunk, key, value = np.random.default_rng(1), 32, 8, 6, 10
    q, k = (dice.normal(size=(tokens, key)) / key**0.5 for _ in range(2))
    v, beta = dice.normal(size=(tokens, value)), dice.uniform(size=tokens)
    out, flops = delta_by_chunk(q, k, v, beta, chunk)
    assert np.allclose(out, delta_by_token(q, k, v, beta))
    assert flops == tokens * delta_rule_flops(key, value, chunk)


def test_a_state_space_takes_the_flops_of_its_chunks() -> None:
    """Linear attention by chunks equals the sum over all tokens before; two heads share queries and keys."""
    dice, tokens, chunk, key, value, heads = np.random.default_rng(2), 24, 8, 6, 10, 2
    q, k = dice.normal(size=(tokens, key)), dice.normal(size=(tokens, key))
    v, products = dice.normal(size=(heads, tokens, value)), Counted()
    states, out = np.zeros((heads, key, value)), np.zeros((heads, tokens, value))
    for start in range(0, tokens, chunk):
        rows = slice(start, start + chunk)
        scores = np.tril(products.of(q[rows], k[rows].T))
        for head in range(heads):
            out[head, rows] = products.of(scores, v[head, rows]) + products.of(q[rows], states[head])
            states[head] += products.of(k[rows].T, v[head, rows])
    for head in range(heads):
        assert np.allclose(out[head], np.tril(q @ k.T) @ v[head])
    assert products.flops == tokens * heads * linear_attention_flops(key, value, chunk, heads)


def job(model: str | ModelSpec, hardware: str = "dgx-h200", gpus: int = 8, **work: Any) -> Job:
    spec = load_model(model) if isinstance(model, str) else model
    return Job(spec, load_hardware(hardware), gpus, Workload(**({"seq_len": 8192, "global_batch": 8} | work)))


def pricer(job_: Job, **degrees: Any) -> Pricer:
    plan = replace(Plan(tp=1.0, cp=1.0, pp=1.0, micro_batch=1.0), **degrees)
    return Pricer(case_of(plan, job_, runtimes()["megatron-lm"]), plan)


MEASURED = [
    ("dgx-h200", 8192, 32, 0.466, None), ("dgx-h200", 8192, 64, 0.814, None),
    ("dgx-h200", 32768, 64, 3.331, None), ("dgx-h200", 8192, 32, None, 1.444),
    ("dgx-h200", 32768, 32, None, 5.697), ("gb200-nvl72", 8192, 64, 0.761, None),
    ("gb200-nvl72", 32768, 32, 1.815, None), ("gb200-nvl72", 32768, 32, None, 6.171),
    ("hgx-h20", 8192, 64, 2.0062, None), ("hgx-h20", 8192, 96, 3.1985, None),
]  # fmt: skip
"""Cluster, tokens, heads, ms forward and backward of flash-linear-attention's gated delta rule, heads of 128.

Qwen, FlashQLA c18a4860, ``benchmark/benchmark_results_H200.txt`` and ``..._GB200.txt``; Moonshot AI, FlashKDA
1ce47ea3, ``BENCHMARK_H20.md``, which norms queries and keys besides. Both MIT.
"""


@every(("hardware", "seq", "heads", "forward", "backward"), MEASURED)
def test_a_scan_takes_what_was_measured(
    hardware: str, seq: int, heads: int, forward: float | None, backward: float | None
) -> None:
    """Before what training holds of it, which the benchmark does not have."""
    mixer = GatedDelta(key_heads=heads, value_heads=heads, key_head_dim=128, head_dim=128)
    known = pricer(job("qwen3-next-80b-a3b", hardware, seq_len=seq))
    scan = scan_operator(known, mixer)
    # The derate slows the part that keeps the device busy; what it adds is taken off again.
    plain = [float(scan.forward), float(scan.backward)]
    found = plain[0] if forward is not None else plain[1]
    truth = 1e-3 * float(forward if forward is not None else backward or 0.0)
    slack = 1.0 / float(known.case.derate) - 1.0
    assert truth * 0.85 <= found <= truth * (1.15 + slack)


def test_a_layer_is_priced_alike_alone_and_in_columns() -> None:
    for name in ("qwen3-next-80b-a3b", "nemotron-3-nano-30b-a3b"):
        base = job(name, gpus=16)
        columns = pricer(
            base, tp=np.array([1.0, 2.0]), cp=np.array([2.0, 1.0]), micro_batch=np.array([1.0, 2.0])
        )
        for block in base.model.blocks:
            both = layer_cost(priced_layer(columns, block), columns.case.recompute, columns)
            for place, (tp, cp, mb) in enumerate(((1.0, 2.0, 1.0), (2.0, 1.0, 2.0))):
                one = pricer(base, tp=tp, cp=cp, micro_batch=mb)
                cost = layer_cost(priced_layer(one, block), one.case.recompute, one)
                for field in ("seconds", "held", "rebuilt", "stored"):
                    column = np.broadcast_to(getattr(both, field), (2,))
                    assert float(column[place]) == float(getattr(cost, field)), (name, block, field)


def scan_of(known: Pricer) -> Operator:
    layer = priced_layer(known, "linear-moe")
    return next(operator for operator in layer.operators if operator.name == "scan")


def test_ranks_share_heads_and_a_group_of_a_sequence_exchanges_twice() -> None:
    """16 query/key heads of 128, 32 value heads of 128: 12,352 wide into the mixer, 4,096 out of it."""
    base = job("qwen3-next-80b-a3b", gpus=16)
    whole, halves, shared = (pricer(base, **degrees) for degrees in ({}, {"tp": 2.0}, {"cp": 2.0}))
    assert float(scan_of(halves).flops) == float(scan_of(whole).flops) / 2
    assert float(scan_of(shared).flops) == float(scan_of(whole).flops) / 2
    mixer = base.model.blocks["linear-moe"].recurrent
    assert mixer is not None
    found = recurrent_exchange(shared, mixer)
    assert float(found.forward_sent) == 2 * (8192 / 2) * (12352 + 4096) / 2
    assert float(recurrent_exchange(whole, mixer).forward) == 0.0


def test_there_is_no_attention_to_compute_again() -> None:
    base = job("qwen3-next-80b-a3b")

    def held(recompute: str, block: str) -> float:
        plan = Plan(tp=1.0, cp=1.0, micro_batch=1.0, recompute=recompute)
        known = Pricer(case_of(plan, base, runtimes()["megatron-lm"]), plan)
        return float(layer_cost(priced_layer(known, block), known.case.recompute, known).held)

    assert held("selective", "linear-moe") == held("none", "linear-moe")
    assert held("selective", "full-moe") < held("none", "full-moe")
    assert held("full", "linear-moe") < held("none", "linear-moe")


def test_what_is_kept_of_a_gated_delta_net_by_hand() -> None:
    """Of a token: first product 12,352, keys 2 x 2,048 and copied 2 x 4,096, values 5 x 4,096, inverse."""
    layer = priced_layer(pricer(job("qwen3-next-80b-a3b")), "linear-moe")
    kept = sum(float(op.saved) for op in layer.operators if op.module in ("mixer", "linear_attn"))
    inverse = 32 * (64 + 6)
    assert kept == 2 * 8192 * (12352 + 4096 + 8192 + 5 * 4096 + inverse)


@every(("norms", "kept"), [("none", 2 + 1), ("bare", 2 + 1), ("weights", 2 + 1 + 3)])
def test_what_mamba_1_keeps_and_sends_by_hand(norms: Any, kept: int) -> None:
    """4,096 channels of 16: what the first product wrote, steps and states' inputs, and the scan's result.

    Jamba keeps the scan's input, steps and gated result too. Two ranks of a tensor-parallel group sum 160
    numbers a token, forward and backward.
    """
    base, mixer = job("qwen3-next-80b-a3b"), Mamba1(inner=4096, step_rank=128, norms=norms)
    saved = sum(float(one.saved) for one in recurrent_operators(pricer(base), mixer))
    assert saved == 2 * 8192 * (kept * 4096 + 128 + 2 * 16)
    split, block = pricer(base, tp=2.0), Block(mixer=mixer)
    half = sum(float(one.saved) for one in recurrent_operators(split, mixer))
    assert half == 2 * 8192 * (kept * 4096 / 2 + 128 + 2 * 16)
    assert float(narrow_exchange(split, block).forward_sent) == 2 * 2 * 8192 * 160 / 2


def test_the_scan_of_mamba_2_is_two_to_eight_times_as_fast() -> None:
    """T. Dao, A. Gu, arXiv:2405.21060, abstract; fig. 10: that of Mamba-1 is linear in the state."""
    times = {}
    for state in (32, 64, 128):
        known = pricer(job("qwen3-next-80b-a3b", "dgx-a100-80gb", seq_len=16384))
        old = float(selective_scan(known, Mamba1(inner=4096, state=state, step_rank=128)).forward)
        new = float(scan_operator(known, Mamba2(heads=64, head_dim=64, state=state)).forward)
        assert 2.0 < old / new < 8.0
        times[state] = old
    assert times[128] - times[64] == pytest.approx(2 * (times[64] - times[32]))


def test_a_short_convolution_passes_no_state_on() -> None:
    """2,048 channels: two gates and what they gate, and three tensors more; no scan, and no state to send."""
    base, mixer = job("qwen3-next-80b-a3b"), ShortConv(width=2048)
    found = recurrent_operators(pricer(base), mixer)
    assert [one.name for one in found] == ["mixer_in", "short_conv", "scan_gates", "mixer_out"]
    assert sum(float(one.saved) for one in found) == 2 * 8192 * (3 + 3) * 2048
    assert float(found[0].flops) == 2 * 8192 * 2048 * 3 * 2048
    assert mixer.params(2048) == 4 * 2048 * 2048 + 3 * 2048


@every("runner", ["fsdp", "deepspeed"])
@every("degrees", [{"tp": 2.0}, {"cp": 2.0}, {"pp": 2.0}])
def test_transformers_splits_no_convolution(runner: str, degrees: dict[str, float]) -> None:
    block = {"ffn": DenseFfn(inner=5632), "norms": 2}
    attention = Attention(heads=16, kv_heads=4, head_dim=64, qk_norm="head")
    model = ModelSpec(
        name="lfm", hidden=1024, vocab=65536, tied_embeddings=True, layers=("conv", "full") * 4,
        blocks={"conv": Block(mixer=ShortConv(width=1024), **block), "full": Block(mixer=attention, **block)},
    )  # fmt: skip

    def broken(**more: float) -> set[str]:
        plan = replace(Plan(dp=8.0, num_microbatches=1.0, zero=2, zero_shards=8.0), **more)  # type: ignore[arg-type]
        case = case_of(plan, job(model, "dgx-h100"), runtimes()[runner])
        return {one.rule for one in violations(all_rules(plan, case))}

    assert not broken()
    name, degree = next(iter(degrees.items()))
    assert f"scan-without-{name}" in broken(dp=8.0 / degree, num_microbatches=degree, **degrees)


def test_parameters_by_hand() -> None:
    """Mamba-2 of Nemotron 3 Nano: 64 heads of 64, 8 groups, state 128; Kimi's delta attention: 32 of 128."""
    inner, conv = 64 * 64, 64 * 64 + 2 * 8 * 128
    mamba = Mamba2(heads=64, head_dim=64, groups=8, state=128)
    assert mamba.params(2688) == 2688 * (inner + conv + 64) + conv * 5 + 3 * 64 + inner + inner * 2688
    kimi, wide = KimiDelta(heads=32, head_dim=128), 32 * 128
    gates = 2 * (2304 * 128 + 128 * wide)
    own = 3 * wide * 4 + wide + 32 + 128
    assert kimi.params(2304) == 2304 * (3 * wide + 32) + gates + own + wide * 2304


def test_scans_count_as_extrapolated_and_widen_the_band() -> None:
    """36 layers and two micro-batches on each rank, both passes."""
    plan = Plan(tp=2.0, dp=4.0, ep=8.0, num_microbatches=2.0, zero=1, zero_shards=4.0, sequence_parallel=True)
    base, bridge = job("qwen3-next-80b-a3b", "dgx-h100"), runtimes()["megatron-bridge"]
    answer = estimate(plan, base, bridge)
    scan = scan_of(Pricer(case_of(plan, base, bridge), plan))
    scans = 36 * 2 * float(scan.forward + scan.backward)
    assert answer.extrapolated_share * answer.step >= scans > 0
    plan, base = replace(plan, tp=1.0, dp=8.0, zero_shards=8.0), job("nemotron-3-nano-30b-a3b", "dgx-h100")
    mamba = estimate(plan, base, runtimes()["megatron-lm"])
    assert "wider since more of this step is extrapolated" in mamba.band_basis


@every(
    ("degrees", "work", "rule"),
    [
        ({"tp": 32.0}, {}, "state-heads-divide"),
        ({"tp": 8.0, "cp": 4.0}, {}, "state-heads-divide"),
        ({}, {"method": "lora"}, "states-train-whole"),
    ],
)
def test_what_has_no_price_is_refused(degrees: dict[str, Any], work: dict[str, Any], rule: str) -> None:
    base = job("qwen3-next-80b-a3b", gpus=32, global_batch=32, **work)
    plan = replace(Plan(tp=1.0, cp=1.0), **degrees)
    case: Case = case_of(plan, base, runtimes()["megatron-bridge"])
    assert rule in {broken.rule for broken in violations(all_rules(plan, case))}


BUILD: Final = {"megatron-lm", "megatron-bridge", "fsdp", "deepspeed", "torchtitan"}
"""Runtimes whose files say gated delta nets."""


@pytest.mark.parametrize("name", sorted(set(runtimes()) - BUILD))
def test_runtimes_that_cannot_build_such_layers_say_so(name: str) -> None:
    plan = Plan(dp=8.0, num_microbatches=1.0)
    case = case_of(plan, job("qwen3-next-80b-a3b"), runtimes()[name])
    told = [broken for broken in violations(all_rules(plan, case)) if broken.rule.startswith("model-in-")]
    assert told


@every("name", ["delta", "parts"])
def test_every_operator_of_a_plan_can_be_checked_on_a_device(name: str) -> None:
    """A scan, which no bench runs, is told so; the others have the sizes that they are run with."""
    plan = Plan(dp=8.0, ep=8.0, zero=1, zero_shards=8.0)
    parts = stage_parts(case_of(plan, job(MODELS[name], "dgx-h100"), runtimes()["megatron-lm"]), plan)
    shapes = [part.shapes[operator.name] for part in parts for operator in part.layer.operators]
    assert {shape.kind for shape in shapes} == {"linear", "elementwise", "attention", "grouped", "scan"}


def emitted(name: str, **fields: Any) -> list[str]:
    """Return the words of Megatron-LM's program for 64 accelerators, 8,192 tokens and 256 sequences."""
    base = job(name, "dgx-h100", gpus=64, global_batch=256)
    dp = 64.0 / (fields.get("tp", 1.0) * fields.get("pp", 1.0))
    plan = Plan(dp=dp, num_microbatches=256.0 / dp, zero=1, zero_shards=dp, **fields)
    assert MEGATRON.command is not None
    return list(MEGATRON.command(plan, base, MEGATRON.versions[0], NO_CHANGES).program)


def after(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def test_a_hybrid_is_cut_by_its_pattern() -> None:
    """Nemotron 3 Nano's own pattern, 52 layers, with a border after those that the plan gives each stage."""
    split = (14, 14, 15, 9)
    words = emitted(
        "nemotron-3-nano-30b-a3b", pp=2.0, vpp=2.0, stage_layers=split, schedule="interleaved-1f1b", ep=8.0
    )
    whole = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
    pattern = after(words, "--hybrid-layer-pattern")
    assert words[0] == "pretrain_hybrid.py"
    assert pattern.replace("|", "") == whole
    assert tuple(map(len, pattern.split("|"))) == split
    assert not {"--num-layers", "--moe-layer-freq", "--pipeline-model-parallel-layout"} & set(words)
    assert after(words, "--mamba-num-groups") == "8"


def test_gated_delta_nets_are_written_where_the_pattern_has_them() -> None:
    words = emitted("qwen3-next-80b-a3b", ep=8.0)
    assert words[0] == "pretrain_gpt.py"
    assert after(words, "--linear-attention-freq") == f"({'+'.join(['[1]*3+[0]*1'] * 12)})"
    assert "--attention-output-gate" in words
    assert "--moe-shared-expert-gate" in words


def test_a_block_of_two_parts_is_two_layers_of_a_hybrid() -> None:
    mixer, full = Mamba2(heads=16, head_dim=64), Attention(heads=16, kv_heads=4, head_dim=64)
    blocks = {
        "m": Block(mixer=mixer, ffn=DenseFfn(inner=2048)),
        "t": Block(mixer=full, ffn=Experts(experts=8, topk=2, inner=512)),
    }
    spec = ModelSpec(
        name="h", hidden=1024, vocab=1000, tied_embeddings=False, blocks=blocks, layers=("m", "t", "m", "m")
    )
    assert layer_pattern(Plan(pp=2.0, stage_layers=(2, 2)), spec) == "M-*E|M-M-"
    assert hybrid_obstacles(spec) == ()


@every(
    ("name", "release", "plan", "wanted"),
    [
        ("megatron-lm", "0.19", Plan(dp=8.0), "release-has-hybrids"),
        ("megatron-lm", "", Plan(dp=8.0, offload="activations:4"), "activation-offload-without-hybrid"),
        ("megatron-bridge", "", Plan(pp=2.0, vpp=2.0, dp=4.0), "hybrid-without-virtual-stages"),
    ],
)
def test_hybrids_are_written_where_a_runner_has_them(
    name: str, release: str, plan: Plan, wanted: str
) -> None:
    base = job("nemotron-h-56b", "dgx-h100", gpus=8)
    runtime = replace(runtimes()[name], release=release)
    assert wanted in {broken.rule for broken in violations(all_rules(plan, case_of(plan, base, runtime)))}


def test_no_messages_of_experts_run_beside_compute_in_a_hybrid() -> None:
    """HybridModel has no schedule of two micro-batches (Megatron-LM d98e8a64)."""
    runtime = runtimes()["megatron-bridge"].with_traits(overlaps_experts=True)
    plan, base = Plan(ep=8.0, dp=8.0), job("nemotron-3-nano-30b-a3b", "dgx-h100", gpus=8)
    broken = {one.rule for one in violations(all_rules(plan, case_of(plan, base, runtime)))}
    assert "expert-overlap-without-hybrid" in broken


def test_a_hybrid_that_is_written_for_bridge_is_read_back(tmp_path: Path) -> None:
    base = job("nemotron-3-nano-30b-a3b", "dgx-h100", gpus=16)
    plan = Plan(pp=2.0, ep=8.0, dp=8.0, zero=1, zero_shards=8.0, micro_batch=1.0, num_microbatches=4.0)
    runtime = runtimes()["megatron-bridge"]
    assert runtime.command is not None
    files = runtime.command(plan, base, runtime.versions[0]).files or {}
    assert "HybridModelProvider(" in files["train.py"]
    (tmp_path / "train.py").write_text(files["train.py"])
    done = planner(
        "estimate", "--from", str(tmp_path / "train.py"), "--hardware", "dgx-h100", "--gpus", "16",
        "--format", "json",
    )  # fmt: skip
    assert "not understood" not in done.err
    assert (done.json["model"]["name"], done.json["plan"]["stage_layers"]) == (base.model.name, [26, 26])


def test_kimi_linear_is_priced_and_no_runtime_builds_it() -> None:
    mixer = KimiDelta(heads=16, head_dim=128)
    block = Block(mixer=mixer, ffn=DenseFfn(inner=4096))
    full = Block(mixer=Attention(heads=16, kv_heads=4, head_dim=128), ffn=DenseFfn(inner=4096))
    spec = ModelSpec(
        name="k", hidden=2048, vocab=1000, tied_embeddings=False, blocks={"l": block, "f": full},
        layers=("l", "l", "l", "f"),
    )  # fmt: skip
    plan = Plan(dp=8.0)
    for name, runtime in runtimes().items():
        answer = estimate(plan, job(spec, "dgx-h100", gpus=8), runtime)
        assert answer.step > 0
        assert any("kimi-delta" in broken.found for broken in answer.violations) or name in (
            "fsdp",
            "deepspeed",
        )
        assert answer.violations


def one_sided(model: ModelSpec, mixer: object) -> ModelSpec:
    """The model with one of its two mixers alone."""
    alone = model.blocks["a"].model_copy(update={"mixer": mixer, "beside": None})
    return model.model_copy(update={"blocks": {"a": alone}})


@every("plan", [Plan(), Plan(tp=2), Plan(cp=2)], ids=lambda plan: plan.slug)
def test_two_mixers_side_by_side_cost_what_each_of_them_does(plan: Plan) -> None:
    """Parameters, FLOPs, seconds and what is kept of both, and both messages; norm and residual once."""
    both = MODELS["two-sided"]
    block = both.blocks["a"]
    found = []
    for model in (both, one_sided(both, block.mixer), one_sided(both, block.beside)):
        pricer = Pricer(case_of(plan, job(model, gpus=2), MEGATRON), plan)
        layer = priced_layer(pricer, "a")
        inner = [
            one for one in layer.operators if one.module not in ("mlp", "norm", "norm_in_product", "residual")
        ]
        sums = [sum(getattr(one, name) for one in inner) for name in ("params", "flops", "forward", "saved")]
        found.append([*map(float, sums), float(layer.exchanges.cp.forward)])
        added = [one.name for one in layer.operators if one.module == "residual"]
        assert added == ["sum_of_mixers"] * (model is both) + ["residual_attention", "residual_mlp"]
    whole, one, other = found
    assert whole == pytest.approx([a + b for a, b in zip(one, other, strict=True)])
    sizes = [one_sided(both, mixer).block_params("a") for mixer in block.mixers]
    assert both.block_params("a") == sum(sizes) - one_sided(both, None).block_params("a")


def test_a_second_mixer_stands_beside_attention_and_only_who_has_such_layers_takes_it() -> None:
    both = MODELS["two-sided"]
    with pytest.raises(ValueError, match="attention as the mixer that another stands beside"):
        Block(mixer=Mamba2(heads=8, head_dim=8), beside=Mamba2(heads=8, head_dim=8))
    assert "a state space beside attention in one layer" in hybrid_obstacles(both)
    for name, runtime in runtimes().items():
        broken = violations(all_rules(Plan(), case_of(Plan(), job(both, gpus=1), runtime)))
        said = " ".join(str(one) for one in broken)
        assert ("beside attention in one layer" in said) == (name not in ("fsdp", "deepspeed", "any")), (
            name,
            said,
        )


@every(
    ("changes", "work", "rule"),
    [
        ({"cp": 2.0, "dp": 4.0, "zero": 3, "zero_shards": 8.0}, {}, "delta-sees-whole-sequences"),
        ({"recompute": "selective"}, {}, "delta-recomputed-whole"),
        ({}, {"precision": "fp8"}, "delta-in-16-bit"),
        ({"pp": 2.0, "vpp": 2.0, "dp": 4.0, "schedule": "zb-v"}, {}, "delta-backward-whole"),
    ],
)
def test_torchtitan_says_what_its_nets_cannot(
    changes: dict[str, Any], work: dict[str, Any], rule: str
) -> None:
    plan, asked = replace(Plan(dp=8.0, num_microbatches=4.0), **changes), job("qwen3.5-27b", **work)
    runtime = runtimes()["torchtitan"].for_model(asked.model)
    assert rule in {broken.rule for broken in violations(all_rules(plan, case_of(plan, asked, runtime)))}


def test_torchtitan_compiles_no_net_and_says_so() -> None:
    plan, runtime = Plan(dp=8.0, num_microbatches=4.0, zero=3, zero_shards=8.0), runtimes()["torchtitan"]
    asked = job("qwen3.5-27b")
    asked = replace(asked, model=runtime.trained(asked.model))
    runtime = runtime.for_model(asked.model)
    assert not violations(runtime.rules(plan, asked))
    compiled = runtime.with_traits(compiled=True)
    assert "delta-uncompiled" in {broken.rule for broken in violations(compiled.rules(plan, asked))}
    assert runtime.command is not None
    command = runtime.command(plan, asked, runtime.versions[0])
    assert "--compile.no-enable" in command.program


@every("name", ["qwen3.5-27b", "qwen3.5-35b-a3b"])
def test_what_is_written_for_torchtitan_is_read_as_the_same_layers(name: str) -> None:
    model = runtimes()["torchtitan"].trained(load_model(name))
    record = module_record(model_data(model, 4096))
    again = ModelSpec.model_validate({"name": "again", **(record or {})})
    assert [again.blocks[one] for one in again.layers] == [model.blocks[one] for one in model.layers]
    assert (again.params, again.numerics.rope_fraction) == (model.params, 0.25)


def test_adapters_of_a_net_stand_beside_five_products() -> None:
    """PEFT's, of rank 16: four read the stream, one ends the mixer; a net of 16 key and 48 value heads."""
    hidden, keys, values = 5120, 16 * 128, 48 * 128
    asked = job("qwen3.5-27b", method="lora", lora_rank=16)
    runtime = runtimes()["fsdp"]
    asked = replace(asked, model=runtime.trained(asked.model))
    plan = Plan(dp=8.0, num_microbatches=1.0, zero=3, zero_shards=8.0)
    case = case_of(plan, asked, runtime.for_model(asked.model))
    assert not {broken.rule for broken in violations(all_rules(plan, case))}
    layer = block_operators(Pricer(case, plan), asked.model.blocks["linear-dense"])
    learned = {one.name: float(one.trained) for one in layer if one.trained}
    assert learned["mixer_in"] == 16 * (4 * hidden + 2 * keys + 2 * values + 2 * 48)
    assert learned["mixer_out"] == 16 * (values + hidden)
    assert {*learned} == {"mixer_in", "mixer_out", "mlp_in", "mlp_out"}


def test_adapters_beside_mamba_layers_are_those_of_both_products() -> None:
    """Megatron-Bridge, peft/lora.py: beside ``in_proj`` and ``out_proj``, 16 numbers an input and output."""
    asked, bridge = job("nemotron-h-8b", method="lora", lora_rank=16), runtimes()["megatron-bridge"]
    plan = Plan(dp=8.0, num_microbatches=1.0)
    case = case_of(plan, asked, bridge)
    assert not {broken.rule for broken in violations(all_rules(plan, case))}
    layer = block_operators(Pricer(case, plan), next(b for b in asked.model.blocks.values() if b.recurrent))
    learned = {one.name: float(one.trained) for one in layer if one.trained}
    inner, state, heads = 128 * 64, 8 * 128, 128
    assert learned["mixer_in"] == 16 * (4096 + 2 * inner + 2 * state + heads)
    assert learned["mixer_out"] == 16 * (inner + 4096)


@every(("runtime", "name"), [("fsdp", "qwen3.5-35b-a3b"), ("megatron-bridge", "qwen3.5-27b")])
def test_adapters_beside_other_layers_with_states_are_refused(runtime: str, name: str) -> None:
    asked, plan = job(name, method="lora", lora_rank=16), Plan(dp=8.0, num_microbatches=4.0)
    case = case_of(plan, asked, runtimes()[runtime].for_model(asked.model))
    assert "states-train-whole" in {broken.rule for broken in violations(all_rules(plan, case))}
