"""Megatron-LM derives the positions, norms and router that the model's own record has, field by field.

Needs what `test_megatron_plans` needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.validate.megatron import cases
from tests.validate.megatron.capture import started
from tests.validate.megatron.numerics import wanted_numerics
from tests.validate.megatron.test_megatron_plans import megatron, pytestmark, recorder, script  # noqa: F401

MODELS = (
    "llama2-7b", "llama3-8b", "llama3.1-8b", "llama3-70b", "qwen2.5-7b",
    "qwen3-8b", "qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v2", "deepseek-v3", "gpt-oss-120b",
)  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_derived_configuration_is_the_models(
    name: str,
    megatron: Any,  # noqa: F811
    recorder: Path,  # noqa: F811
) -> None:
    job = cases.job(name, 8, seq_len=2048, global_batch=8)
    start = started(script(recorder, job, cases.plan(8, 8)), recorder)
    verdict = megatron.judge(start, 8, 9.0, build=False)
    assert not verdict.error
    wanted = wanted_numerics(job.model)
    assert {field: verdict.derived[field] for field in wanted} == wanted
