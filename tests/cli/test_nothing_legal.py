"""Where rules refuse every plan, the answer says what is legal: another runtime, or the usual choice."""

from __future__ import annotations

from tests.cli.command import planner


def test_a_model_that_the_runtime_cannot_build_names_those_that_can() -> None:
    done = planner("search", "gpt2", "--hardware", "h100", "--gpus", "1", "--runtime", "nanotron")
    assert done.code == 1
    assert "nanotron cannot train this model: " in done.out
    assert "--runtime megatron-lm" in " ".join(done.out.split()).partition("Ask for ")[2]
    _, _, changes = done.out.partition("Any one of these changes makes it run:")
    assert "--runtime megatron-lm" in changes
    assert "--runtime fsdp" in changes


def test_an_optimizer_that_the_runtime_lacks_names_the_usual_one() -> None:
    done = planner(
        "search", "qwen3-0.6b", "--hardware", "h100", "--gpus", "8", "--runtime", "fsdp",
        "--optimizer", "lion",
    )  # fmt: skip
    assert done.code == 1
    assert "--optimizer adamw" in done.out.partition("changes makes it run")[2]


def test_one_rule_tells_that_the_way_to_the_host_is_not_known() -> None:
    """Whoever asks: an estimate, or a search, which names what would run."""
    ask = ("llama2-7b", "--hardware", "8xascend-910b", "--offload", "optimizer", "--format", "json")
    priced, found = planner("estimate", *ask), planner("search", *ask, "--tp", "1", "--pp", "1", "--cp", "1")
    assert (priced.code, found.code) == (1, 1)
    assert [one["rule"] for one in priced.json["violations"]] == ["offload-has-link"]
    assert found.json["nearest"]["breaks"]["rules"][0]["rule"] == "offload-has-link"
    assert found.json["nearest"]["remedies"]
    told = planner("estimate", *ask[:-2])
    assert "beside its copies to the host, whose time is not known" in " ".join(told.out.split())
