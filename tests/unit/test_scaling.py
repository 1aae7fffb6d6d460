"""Scaling laws against what their papers print and against a search for the least loss; sizes by rule."""

from __future__ import annotations

import numpy as np
import pytest

from planner.formulas.scaling import optimal_params, scaling_loss
from planner.inputs.ladder import WIDTHS, gpt_size, llama_size
from planner.inputs.load import load_model
from planner.search.budget import LARGEST, SMALLEST, within_reach
from planner.techniques.scaling_laws import SCALING_LAWS
from tests.cases import every

CHINCHILLA_FLOPS = 5.76e23
"""The budget of Gopher and Chinchilla, arXiv:2203.15556, sec. 4."""


@every("name", ["besiroglu", "hoffmann"])
@every("flops", [1e20, 5.76e23, 1e26])
def test_no_other_size_has_less_loss(name: str, flops: float) -> None:
    law = SCALING_LAWS[name]
    assert law.fit is not None
    tried = np.geomspace(1e7, 1e14, 200_001)
    least = tried[np.argmin(scaling_loss(tried, flops / 6 / tried, law.fit))]
    assert optimal_params(flops, law.fit) == pytest.approx(least, rel=1e-3)


def test_the_refit_and_the_ratio_give_chinchilla_and_the_rounded_fit_does_not() -> None:
    """arXiv:2203.15556, table 3: 67 B on 1.5 T tokens; arXiv:2404.10102: the printed fit contradicts it."""
    assert SCALING_LAWS["besiroglu"].best_size(CHINCHILLA_FLOPS) == pytest.approx(67e9, rel=0.1)
    assert SCALING_LAWS["chinchilla"].best_size(CHINCHILLA_FLOPS) == pytest.approx(67e9, rel=0.05)
    assert SCALING_LAWS["hoffmann"].best_size(CHINCHILLA_FLOPS) < 40e9


@every(("params", "flops"), [(1e9, 1.21e20), (10e9, 1.23e22), (175e9, 3.85e24), (280e9, 9.90e24)])
def test_twenty_tokens_for_each_parameter_are_the_first_approach_of_the_paper(
    params: float, flops: float
) -> None:
    """arXiv:2203.15556, table 3."""
    assert SCALING_LAWS["chinchilla"].best_size(flops) == pytest.approx(params, rel=0.05)


def test_sizes_by_rule_are_the_models_whose_proportions_they_have() -> None:
    assert llama_size(4096).params == load_model("llama3-8b").params
    assert gpt_size(12288).params == load_model("gpt3-175b").params
    assert [llama_size(width).params for width in WIDTHS] == sorted(
        llama_size(width).params for width in WIDTHS
    )


def test_the_best_size_at_any_speed_is_among_those_in_reach() -> None:
    for law in SCALING_LAWS.values():
        for reached in (0.05, 0.3, 0.7, 1.0):
            share = law.best_size(1e24 * reached) / law.best_size(1e24)
            assert SMALLEST < share < LARGEST
    near = [one.params / 70e9 for one in within_reach(WIDTHS, llama_size, 70e9)]
    assert len(near) == 6
    assert SMALLEST < min(near) < max(near) < LARGEST
    assert [one.name for one in within_reach(WIDTHS, llama_size, 1e6)] == ["llama-0.384b"]
