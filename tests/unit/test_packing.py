"""Runs on packed short documents: attention alone costs less."""

from __future__ import annotations

from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.packing import DOCUMENT, packed
from planner.inputs.model import Attention


def test_only_what_attention_sees_is_cut() -> None:
    model = shipped_catalogue().model("llama2-7b")
    assert model is not None
    cut = packed(model)
    mixers = [block.mixer for block in cut.blocks.values()]
    assert all(isinstance(mixer, Attention) and mixer.chunked for mixer in mixers)
    assert {mixer.window for mixer in mixers} == {DOCUMENT}
    assert cut.params == model.params
    assert all(block.ffn == model.blocks[name].ffn for name, block in cut.blocks.items())


def test_the_same_model_is_packed_once_so_that_its_runs_stay_one_batch() -> None:
    model = shipped_catalogue().model("llama2-7b")
    assert model is not None
    assert packed(model) is packed(model)
