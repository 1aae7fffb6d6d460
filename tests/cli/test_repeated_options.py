"""Options that take one value are given once; what a default says is held to what the user may say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from planner.cli.commands import COMMANDS, LazyCommands
from tests.cases import every
from tests.cli.command import planner

ASK = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "8")


def refused(*words: str) -> str:
    """Return what a command says that refuses its input."""
    done = planner(*words)
    assert done.code == 2
    return done.err


def leaves() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with its words."""
    known = LazyCommands()
    for name in COMMANDS:
        command = known[name]
        for inner, leaf in getattr(command, "commands", {"": command}).items():
            yield tuple(filter(None, (name, inner))), leaf


LEAVES = dict(leaves())


@every("words", LEAVES, ids=" ".join)
def test_each_option_of_each_command_that_takes_one_value_is_refused_twice(words: tuple[str, ...]) -> None:
    command = LEAVES[words]
    # With the command's own settings: an option for help is made once, for whoever asks first.
    context = command.context_class(command, **command.context_settings)
    for option in command.params:
        if option.param_type_name != "option" or option.multiple or "--help" in option.opts:
            continue
        twice = [option.opts[0]] * 2 if option.is_flag else [option.opts[0], "1", option.opts[0], "2"]
        if option.is_flag and option.secondary_opts:
            twice = [option.opts[0], option.secondary_opts[0]]
        elif option.is_flag:
            continue
        with pytest.raises(Exception, match="more than once") as caught:
            command.parse_args(context, twice)
        assert option.opts[0] in str(caught.value)


def test_a_repeated_option_is_one_sentence_and_exit_2() -> None:
    assert refused("estimate", *ASK, "--tp", "2", "--tp", "4") == (
        "error: planner estimate: option '--tp' is given more than once, and takes one value; see planner "
        "estimate --help\n"
    )
    refused("search", *ASK, "--sequence-parallel", "--no-sequence-parallel")
    refused("models", "show", "llama3-8b", "--format", "json", "--format", "table")


def test_lists_may_be_repeated() -> None:
    more = ("--hardware", "dgx-a100-80gb", "--runtime", "fsdp", "--runtime", "megatron-lm", "--tp", "1")
    assert planner("search", *ASK, "--global-batch", "8", "--seq-len", "512", *more).code == 0


def test_fewer_tokens_than_a_step_has_are_told() -> None:
    told = planner("estimate", *ASK, "--tp", "8", "--tokens", "100")
    assert "note: --tokens 100 is less than the 2,097,152 tokens of one step" in told.err
    assert "tokens of one step" not in planner("estimate", *ASK, "--tp", "8", "--tokens", "2097152").err


def test_a_default_batch_is_one_that_could_be_given() -> None:
    long = ("--tp", "8", "--seq-len", "128Mi")
    default = planner("estimate", *ASK, *long)
    assert "1 sequence of 134,217,728" in " ".join(default.out.split())
    given = refused("estimate", *ASK, *long, "--global-batch", "512")
    assert "512 sequences of 134217728 tokens" in given
