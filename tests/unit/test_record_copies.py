"""A copy of a record with other fields remembers nothing of the one that it was made from."""

from __future__ import annotations

from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware


def test_what_a_model_remembers_is_worked_out_again_in_a_copy() -> None:
    model = load_model("qwen2.5-vl-7b")
    whole = model.params
    alone = model.model_copy(update={"encoder": None})
    assert whole - alone.params == model.encoder_params > 0
    assert model.params == whole
    assert model.model_copy(update={"layers": model.layers[:2]}).layer_counts != model.layer_counts


def test_fields_of_a_cluster_are_those_of_the_copy() -> None:
    cluster = load_hardware("dgx-h100")
    assert cluster.model_copy(update={"name": "mine"}).name == "mine"
    assert cluster.model_copy() == cluster
