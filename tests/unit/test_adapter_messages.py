"""What adapters send beside the layers that they sit on, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.layer.block_cost import layer_cost, priced_layer
from planner.cost.layer.communication import block_exchanges
from planner.cost.layer.exchange import Exchange
from planner.cost.layer.operators import Pricer
from planner.cost.step.layout import NOTHING_AGAIN
from planner.inputs.load import load_model
from tests.unit.cost_jobs import job, plan_of, runtime

SEQ, HIDDEN, RANK, TP = 8192, 8192, 16, 4
WHOLE = 2 * SEQ * HIDDEN * (TP - 1) / TP
"""What one rank sends where all its ranks gather a layer's input. [byte]"""
THIN = 2 * SEQ * RANK * (TP - 1) / TP


def sent(targets: tuple[str, ...], parallel: bool = True, **traits: Any) -> Exchange:
    """What tensor parallelism sends for a layer of Llama 2 70B with adapters, over that of one without."""

    def exchange(method: str) -> Exchange:
        work = job(
            load_model("llama2-70b"), 8, "dgx-h100", seq_len=SEQ, global_batch=2, precision="bf16",
            method=method, lora_rank=RANK, lora_targets=targets if method == "lora" else (),
        )  # fmt: skip
        plan = plan_of(work, tp=TP, sequence_parallel=parallel)
        price = Pricer(case_of(plan, work, runtime("megatron-bridge", **traits)), plan)
        block = next(iter(work.model.blocks.values()))
        operators = priced_layer(price, next(iter(work.model.blocks))).operators
        return block_exchanges(price, block, list(operators)).tp

    whole, alone = exchange("lora"), exchange("full")
    return Exchange(
        whole.forward - alone.forward,
        whole.backward - alone.backward,
        whole.forward_sent - alone.forward_sent,
        whole.backward_sent - alone.backward_sent,
    )


REGATHERED = 2 * WHOLE
"""What a trained layer gathers once more for its two weight gradients; a frozen one does not. [byte]"""


def test_an_adapter_before_a_hidden_gather_gathers_for_itself() -> None:
    """Once forward; backward once more and a reduce-scatter, where each rank keeps its part alone."""
    found = sent(("qkv",), adapter_regathers_input=True)
    assert found.forward_sent == pytest.approx(WHOLE + THIN)
    assert found.backward_sent == pytest.approx(2 * WHOLE + 2 * THIN - REGATHERED)
    kept = sent(("qkv",), adapter_regathers_input=False)
    assert kept.backward_sent == pytest.approx(WHOLE + 2 * THIN - REGATHERED)
    open_ = sent(("qkv",), adapter_gathers_input=False)
    assert (open_.forward_sent, open_.backward_sent) == pytest.approx((THIN, 2 * THIN - REGATHERED))
    assert open_.forward > 0


def test_without_overlap_the_layers_gather_serves_both() -> None:
    found = sent(("qkv",), adapter_regathers_input=False, tp_exposed=1.0)
    assert (found.forward_sent, found.backward_sent) == pytest.approx((THIN, 2 * THIN - REGATHERED))


def test_an_adapter_of_a_row_split_layer_gathers_its_result_or_sends_its_part_of_it() -> None:
    found = sent(("proj",))
    assert found.forward_sent == pytest.approx(WHOLE + 2 * THIN)
    assert found.backward_sent == pytest.approx(WHOLE + 2 * THIN - REGATHERED)
    parts = sent(("proj",), adapter_all_to_all=True)
    assert parts.forward_sent == pytest.approx(WHOLE / TP + 2 * THIN)


def test_without_sequence_parallelism_gradients_of_inputs_are_summed() -> None:
    found = sent(("qkv", "proj"), parallel=False)
    assert found.forward_sent == pytest.approx(WHOLE + 3 * THIN)
    assert found.backward_sent == pytest.approx(2 * WHOLE + 4 * THIN)


def test_one_rank_sends_nothing() -> None:
    work = job(load_model("llama2-70b"), 8, "dgx-h100", seq_len=SEQ, global_batch=8, method="lora")
    plan = plan_of(work, tp=1)
    price = Pricer(case_of(plan, work, runtime("megatron-bridge")), plan)
    block = next(iter(work.model.blocks.values()))
    operators = priced_layer(price, next(iter(work.model.blocks))).operators
    assert block_exchanges(price, block, list(operators)).tp == Exchange()


def test_an_input_that_is_not_gathered_again_is_kept_whole() -> None:
    """The norm keeps its part, the adapter what all gathered; CUDA graphs rule the second gather out."""

    def kept(precision: str, parallel: bool = True, **traits: Any) -> float:
        work = job(
            load_model("llama2-70b"), 8, "dgx-h100", seq_len=SEQ, global_batch=2, precision=precision,
            method="lora", lora_rank=RANK, lora_targets=("qkv",),
        )  # fmt: skip
        plan = plan_of(work, tp=TP, sequence_parallel=parallel)
        price = Pricer(case_of(plan, work, runtime("megatron-bridge", **traits)), plan)
        layer = priced_layer(price, next(iter(work.model.blocks)))
        return float(layer_cost(layer, NOTHING_AGAIN, price).held)

    part = 2 * SEQ * HIDDEN / TP
    again, whole = kept("fp8"), kept("fp8", adapter_regathers_input=False)
    assert whole - again == pytest.approx(2 * SEQ * HIDDEN - part)
    assert kept("fp8", graphed="attention") == pytest.approx(whole)
    own = kept("bf16", adapter_regathers_input=False) - kept("bf16")
    assert own == pytest.approx(2 * SEQ * HIDDEN), "in 16 bit the norm's part was the adapter's too"
    assert kept("fp8", parallel=False, adapter_regathers_input=False) == kept("fp8", parallel=False)
