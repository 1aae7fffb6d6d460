"""Branches that a script's own text decides: the other one is not read."""

from __future__ import annotations

import subprocess

from planner.launchers.family import LauncherSettings
from planner.runtimes.family import Command
from planner.runtimes.imports.shell import read_script
from tests.cases import every
from tests.unit.test_launchers import LAUNCHERS
from tests.validate.megatron import cases

SCRIPTS = {
    "unset with a default": 'if [[ -n "${A:-}" ]]; then x=(1); else x=(2); fi',
    "said": 'A=1\nif [[ -n "${A}" ]]; then x=(1); else x=(2); fi',
    "empty": 'A=\nif [[ -z "${A}" ]]; then x=(1); else x=(2); fi',
    "extended": 'x=(0)\nif [[ -n "${A:-}" ]]; then x+=(1)\nelse x+=(2)\nfi',
    "nested": 'x=()\nif [[ -z "${A:-}" ]]; then if [[ -n b ]]; then x+=(3); else x+=(4); fi; else x=(5); fi',
    "equal": 'A=fp8\nif [[ "$A" == "fp8" ]]; then x=(1); else x=(2); fi',
    "unequal": 'A=fp8\nif [ "$A" != fp8 ]; then x=(1); else x=(2); fi',
    "numbers": "A=3\nif [ $A -gt 2 ]; then x=(1); else x=(2); fi",
    "the second": "A=b\nif [ $A = a ]; then x=(1); elif [ $A = b ]; then x=(2); else x=(3); fi",
    "the last": "A=c\nif [ $A = a ]; then x=(1); elif [ $A = b ]; then x=(2); else x=(3); fi",
    "the first of two": "A=a\nx=()\nif [ $A = a ]; then x+=(1); elif [ -n b ]; then x+=(2); else x+=(3); fi",
    "after": "A=a\nx=()\nif [ $A = a ]; then x+=(1); else x+=(2); fi\nif [ $A = b ]; then x+=(3); fi\nx+=(4)",
    "left out with its own": 'x=(0)\nif [[ -n "${A:-}" ]]; then if [[ -n "b" ]]; then x+=(3); fi; fi',
}


@every("name", SCRIPTS)
def test_the_branch_is_the_one_that_bash_takes(name: str) -> None:
    text = SCRIPTS[name] + '\necho "${x[@]}"'
    said = subprocess.check_output(["bash", "-c", text], text=True).split()
    script = read_script(text, "it")
    assert script.commands[-1] == ("echo", *said)
    assert script.doubts[-1] == ()


@every(
    "condition",
    [
        '[[ -n "${A}" ]]',
        '[[ -n "$(id)" ]]',
        '[[ -f "b" ]]',
        '[[ -n "" || -f "b" ]]',
        "true",
        "! [[ -n x ]]",
        "[[ a == b* ]]",
        "[ a = b -o c = c ]",
    ],
)
def test_a_condition_that_nobody_knows_is_a_doubt(condition: str) -> None:
    script = read_script(f'x=(0)\nif {condition}; then x+=(1); else x+=(2); fi\necho "${{x[@]}}"', "it")
    assert script.commands[-1] == ("echo", "0", "1"), "one of two parts is run, not both"
    assert script.doubts[-1] == ("x",)


def test_a_second_condition_is_not_decided_by_the_first() -> None:
    text = 'x=(0)\nif [[ -n "" ]]; then x+=(1); elif [[ -f b ]]; then x+=(2); fi\necho "${x[@]}"'
    script = read_script(text, "it")
    assert script.doubts[-1] == ("x",)


@every(("smoke", "words"), [(False, ("--data",)), (True, ("--mock",))])
@every("launcher", ["torchrun", "slurm"])
def test_what_the_launchers_write_is_read_as_one_run(
    launcher: str, smoke: bool, words: tuple[str, ...]
) -> None:
    own = Command(("pretrain_gpt.py", "--a"), {}, production=("--data",), smoke=("--mock",))
    job = cases.job("llama3-8b", 16, seq_len=8192, global_batch=64)
    said = LauncherSettings("Runtime", "title", "name", smoke=smoke)
    text = next(iter(LAUNCHERS[launcher].files(own, job, said).values()))
    script = read_script(text, "it")
    starts = [number for number, one in enumerate(script.commands) if "pretrain_gpt.py" in one]
    assert script.commands[starts[-1]][-3:] == ("pretrain_gpt.py", "--a", *words)
    assert all("training" not in script.doubts[number] for number in starts)


def test_a_word_as_input_is_no_text_until_a_mark() -> None:
    """``<<<`` hands the next word to a command's input; what follows is read on."""
    script = 'read -ra words <<< "${DATA_PATH}"\ntorchrun pretrain_gpt.py --num-layers 2\n'
    assert read_script(script, "x").commands[-1][1] == "pretrain_gpt.py"


def test_a_here_string_ends_with_its_word() -> None:
    text = "read -ra x <<< \"${A//$'\\n'/ }\"\necho 3<<<b c\ncat <<-END\n\tno\n\tEND\necho d"
    assert read_script(text, "it").commands == (("read", "-ra", "x"), ("echo", "c"), ("cat",), ("echo", "d"))
