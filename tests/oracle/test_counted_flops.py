"""FLOPs of the operators and of a step, against what PyTorch dispatches and what Megatron-LM prints."""

from __future__ import annotations

import csv
from collections import Counter

from planner.cost.case import case_of
from planner.cost.flops import step_flops
from planner.cost.layer.block_cost import layer_detail, priced_layer
from planner.cost.layer.operators import Pricer
from planner.inputs.load import load_model
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.runtimes.family import Job
from tests.cases import every
from tests.helpers import ROOT
from tests.unit.cost_jobs import cluster, plan_of, runtime


def rows(name: str) -> list[dict[str, str]]:
    with (ROOT / "tests" / "oracle" / "flops" / name).open(encoding="utf-8") as table:
        return list(csv.DictReader(table))


RECOMPUTED = [row for row in rows("counted.csv") if row["recompute"] == "full"]

PADDED = {"gpt3-175b": 51_200}
"""Vocabulary that the counting code took, where it is not the model's."""


ENDS_WITH_DROPOUT = {"gpt3-175b"}
"""Models whose code ends a layer with dropout, which needs the last product again."""


def model_of(row: dict[str, str]) -> ModelSpec:
    model = load_model(row["model"])
    return model.model_copy(update={"vocab": PADDED.get(row["model"], model.vocab)})


def pricer(row: dict[str, str], recompute: str = "none", kind: str = "early-stop") -> Pricer:
    batch = int(row["batch"])
    work = Workload(seq_len=int(row["seq_len"]), global_batch=batch)
    job = Job(model_of(row), cluster("dgx-h100"), 1, work)
    plan = plan_of(job, micro_batch=batch, recompute=recompute)
    return Pricer(case_of(plan, job, runtime(checkpointing=kind)), plan)


@every(
    "row",
    rows("counted.csv"),
    ids=lambda row: "-".join((row["model"], row["seq_len"], row["batch"], row["recompute"])),
)
def test_the_operators_count_the_products_that_pytorch_dispatches(row: dict[str, str]) -> None:
    """Attention doubled: the square is counted there, the half that is not masked here."""
    price, counted = pricer(row), Counter[str]()
    for name, times in (*price.case.model.layer_counts.items(), ("head", 1)):
        for operator in priced_layer(price, name).operators:
            kind = (
                "attention" if operator.module == "core_attn" else "experts" if operator.expert else "linear"
            )
            counted[kind] += times * operator.flops * (2 if kind == "attention" else 1)
    assert counted["linear"] == int(row["forward_linear"])
    assert counted["attention"] == int(row["forward_attention"])
    assert counted["experts"] == int(row["forward_experts"])


@every("row", RECOMPUTED, ids=lambda row: row["model"])
def test_full_recompute_runs_the_layers_again_but_for_the_last_product(row: dict[str, str]) -> None:
    """Experts run again whole: the gradient of their weights in the sum needs what they made."""
    price = pricer(row, "full", "reentrant" if row["model"] in ENDS_WITH_DROPOUT else "early-stop")
    products = ("linear", "experts")
    again = sum(int(row[f"backward_{kind}"]) - 2 * int(row[f"forward_{kind}"]) for kind in products)
    attention = int(row["backward_attention"]) - 2.5 * int(row["forward_attention"])
    ours = sum(
        times * layer_detail(priced_layer(price, name), price.case.recompute, price).recompute_flops
        for name, times in price.case.model.layer_counts.items()
    )
    assert attention == int(row["forward_attention"])
    assert ours == again + attention / 2


AGAIN = {
    "qwen3-0.6b": 25_769_803_776,
    "mixtral-8x22b": 1_417_439_870_976,
    "olmoe-1b-7b": 137_707_388_928,
    "qwen2-57b-a14b": 962_549_776_384,
    "deepseek-v2-lite": 158_376_919_040,
    "deepseek-v3": 1_168_633_757_696,
    "gpt-oss-120b": 258_956_328_960,
}
"""FLOPs of products, not attention's, that a layer runs again on 1,024 tokens, counted like `counted.csv`."""


@every("model", AGAIN)
def test_what_runs_again_of_a_layer(model: str) -> None:
    """A shared expert comes last and its last product is spared, unless a gate multiplies what it made."""
    price = pricer({"model": model, "seq_len": "1024", "batch": "1"}, "full")
    layer = priced_layer(price, price.case.model.layers[-1])
    again = layer_detail(layer, price.case.recompute, price).recompute_flops
    core = sum(operator.flops for operator in layer.operators if operator.module == "core_attn")
    gate = 2 * 1024 * price.case.model.hidden if model == "qwen2-57b-a14b" else 0
    assert again - core == AGAIN[model] - gate


@every("row", rows("megatron.csv"), ids=lambda row: f"{row['model']}-{row['seq_len']}")
def test_a_step_has_the_flops_that_megatron_prints(row: dict[str, str]) -> None:
    seq = int(row["seq_len"])
    assert step_flops(model_of(row), seq, float(seq * int(row["batch"]))) == int(row["flops"])
