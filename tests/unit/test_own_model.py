"""A model of one's own: graphs folded into layers, the rest priced and told, what would be wrong refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.flops import product_weights
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.operators import Pricer
from planner.cost.legal import all_rules
from planner.errors import InputError, UnsupportedPlan
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.model_yaml import model_yaml
from planner.inputs.own_model.graph import CORE, Graph, Op
from planner.inputs.own_model.read import model_of_graph, own_model
from planner.inputs.workload import Workload
from planner.launchers import Card, Target, launch_files, launchers
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from tests.cases import every

T, D, F, V = 61, 32, 48, 100


def op(name: str, kind: str, reads: str = "", weights: str = "", **more: Any) -> Op:
    path = more.pop("path", "layers.0")
    shape = more.pop("shape", (1, T, D))
    return Op(name, kind, tuple(reads.split()), tuple(weights.split()), shape, path, **more)


PARAMS = {
    "emb": (V, D), "layers.0.n1": (D,), "layers.0.n2": (D,), "layers.0.q": (D, D), "layers.0.k": (16, D),
    "layers.0.v": (16, D), "layers.0.o": (D, D), "layers.0.g": (F, D), "layers.0.u": (F, D),
    "layers.0.d": (D, F), "n": (D,), "head": (V, D),
}  # fmt: skip

LAYER = (
    op("x", "embedding", "ids", "emb", path=""),
    op("a", "rms_norm", "x", "layers.0.n1"),
    op("q", "linear", "a", "layers.0.q"),
    op("k", "linear", "a", "layers.0.k", shape=(1, T, 16)),
    op("v", "linear", "a", "layers.0.v", shape=(1, T, 16)),
    op("qh", "transpose", "q", shape=(1, 4, T, 8)),
    op("kh", "transpose", "k", shape=(1, 2, T, 8)),
    op("vh", "transpose", "v", shape=(1, 2, T, 8)),
    op("y", CORE, "qh kh vh", causal=True, shape=(1, 4, T, 8)),
    op("o", "linear", "y", "layers.0.o"),
    op("r", "add", "x o"),
    op("b", "rms_norm", "r", "layers.0.n2"),
    op("g", "linear", "b", "layers.0.g", shape=(1, T, F)),
    op("s", "silu", "g", shape=(1, T, F)),
    op("u", "linear", "b", "layers.0.u", shape=(1, T, F)),
    op("m", "mul", "s u", shape=(1, T, F)),
    op("d", "linear", "m", "layers.0.d"),
    op("z", "add", "r d"),
)
ENDS = (op("f", "rms_norm", "z", "n", path=""), op("l", "linear", "f", "head", path="", shape=(1, T, V)))


def graph(*more: Op, params: dict[str, tuple[int, ...]] | None = None, ops: Any = LAYER) -> Graph:
    return Graph((*ops, *more, *ENDS), PARAMS | (params or {}), T, frozenset({"ids"}))


def model(*more: Op, **changed: Any) -> ModelSpec:
    return model_of_graph(graph(*more, **changed), "m.py:M", "mine")[0]


def refused(*more: Op, **changed: Any) -> str:
    with pytest.raises(InputError) as caught:
        model(*more, **changed)
    return str(caught.value)


def test_a_layer_of_known_parts_is_folded_whole() -> None:
    block = model().blocks["layer"]
    assert block.attention is not None
    assert block.ffn is not None
    assert (block.attention.heads, block.attention.kv_heads, block.attention.head_dim) == (4, 2, 8)
    assert (block.attention.rotary, block.ffn.inner, block.ffn.gated, block.norms) == (False, F, True, 2)
    assert not block.extras
    assert model().variants == ()


CONV = op("c", "conv1d", "z", "layers.0.c", flops=2 * T * D * 3)
MORE = {"layers.0.c": (D, 1, 3), "layers.0.w": (20, D)}


def test_what_is_no_known_part_is_priced_kept_and_told() -> None:
    own = model(CONV, op("w", "linear", "z", "layers.0.w", shape=(1, T, 20)), params=MORE)
    block = own.blocks["layer"]
    assert [(one.kind, one.params) for one in block.extras] == [("product", 20 * D), ("other", 3 * D)]
    assert own.params == model().params + 20 * D + 3 * D
    assert "1 linear 32 to 20, 1 conv1d" in own.note
    more = product_weights(block, D) - product_weights(model().blocks["layer"], D)
    assert more == 20 * D + 3 * D
    job = Job(own, load_hardware("dgx-h100"), 8, Workload(seq_len=2048, global_batch=8))
    plan = Plan(tp=1.0, cp=1.0, micro_batch=1.0)
    pricer = Pricer(case_of(plan, job, runtimes()["fsdp"]), plan)
    product, conv = priced_layer(pricer, "layer").operators[-2:]
    assert (float(product.flops), float(conv.flops)) == (2 * 2048 * D * 20, 2 * 2048 * D * 3)
    assert (float(product.saved), float(conv.saved)) == (2 * 2048 * D, 2 * 2048 * D)
    assert float(conv.outside_backward) == float(conv.backward) > float(conv.forward) > 0


def test_a_model_of_ones_own_comes_back_from_its_yaml(tmp_path: Any) -> None:
    own, file = model(CONV, params=MORE | {"layers.0.w": (20,)}), tmp_path / "m.yaml"
    file.write_text(model_yaml(own))
    assert load_model(str(file)) == own
    assert "parameters that no operator reads" in own.note


def test_fsdp_and_deepspeed_train_a_model_of_ones_own_and_no_file_starts_it() -> None:
    own = model(CONV, params={"layers.0.c": (D, 1, 3)})
    job = Job(own, load_hardware("dgx-h100"), 8, Workload(seq_len=2048, global_batch=8))
    plan = Plan(dp=8.0, num_microbatches=1.0, zero=2, zero_shards=8.0)

    def broken(name: str, plan: Plan) -> set[str]:
        return {one.rule for one in violations(all_rules(plan, case_of(plan, job, runtimes()[name])))}

    for name in ("fsdp", "deepspeed"):
        assert not broken(name, plan)
        assert "own-model-without-tp" in broken(name, replace(plan, tp=2.0, dp=4.0, zero_shards=4.0))
    for name in set(runtimes()) - {"fsdp", "deepspeed"}:
        assert any(rule.startswith("model-") for rule in broken(name, plan)), name
    with pytest.raises(UnsupportedPlan, match="operators of its own"):
        launch_files(plan, job, Target(runtimes()["fsdp"], launchers()["torchrun"], "1.15.0"), Card())


def test_attention_by_hand_is_attention() -> None:
    square = (1, 4, T, T)
    hand = (
        op("kt", "transpose", "kh", shape=(1, 4, 8, T)),
        op("qk", "matmul", "qh kt", shape=square, flops=2 * 4 * T * T * 8),
        op("ms", "masked_fill", "qk", shape=square),
        op("p", "softmax", "ms", shape=square),
        op("y", "matmul", "p vh", shape=(1, 4, T, 8), flops=2 * 4 * T * T * 8),
    )
    place = next(number for number, one in enumerate(LAYER) if one.name == "y")
    assert model(ops=(*LAYER[:place], *hand, *LAYER[place + 1 :])).blocks == model().blocks
    assert "(1, 4, 61, 61)" in refused(ops=(*LAYER, op("qk", "matmul", "qh kh", shape=square)))


@every(
    ("old", "new", "told"),
    [
        ("b", op("b", "rms_norm", "x", "layers.0.n2"), ("parallel-blocks",)),
        ("a", op("a", "view", "x"), ("norms-after",)),
    ],
)
def test_another_order_of_norms_and_parts_is_a_variant(old: str, new: Op, told: tuple[str, ...]) -> None:
    ops = [new if one.name == old else one for one in LAYER]
    if old == "a":
        swap = {"b": op("b", "view", "r"), "r": op("r", "add", "x n1"), "z": op("z", "add", "r n2")}
        ops = [swap.get(one.name, one) for one in ops]
        ops += [op("n1", "rms_norm", "o", "layers.0.n1"), op("n2", "rms_norm", "d", "layers.0.n2")]
    assert model(ops=tuple(ops)).variants == told


@every(
    ("more", "params", "said"),
    [
        (op("e", "bmm", "z", "layers.0.e"), {"layers.0.e": (4, F, D)}, "no experts by hand"),
        (op("y2", CORE, "qh kh vh", shape=(1, 4, T, 8)), {}, "2 attentions in a layer"),
        (op("h", "linear", "z", "other.1.h", path="other.1"), {"other.1.h": (D, D)}, "2 lists of modules"),
        (op("h", "linear", "z", "h", path=""), {"h": (D, D)}, "known layers make"),
        (op("t", "embedding", "ids", "t", path=""), {"t": (V, D)}, "2 embeddings of the token ids"),
    ],
)  # fmt: skip
def test_what_would_be_another_model_is_refused(more: Op, params: Any, said: str) -> None:
    assert said in refused(more, params=params)


def test_a_file_and_a_name_are_told_from_a_path() -> None:
    assert own_model("a/config.json") is None
    assert own_model("a/net.py") is None
    found = own_model("a/net.py:Net")
    assert found is not None
    assert (str(found[0]), found[1]) == ("a/net.py", "Net")
