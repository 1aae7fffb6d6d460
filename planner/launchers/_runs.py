"""Shell text of the two kinds of run that one script starts: the real one, and a smoke run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Final

from planner.launchers._shell import argument_lines, placed
from planner.launchers.card import PLAN
from planner.launchers.family import LauncherSettings
from planner.runtimes.family import Command, StepLine
from planner.runtimes.variables import SPREAD, VARIABLES, without_effect

SMOKE: Final = '[[ -n "${SMOKE}" ]]'
REAL: Final = '[[ -z "${SMOKE}" ]]'
LOGGED: Final = '2>&1 | tee "${log}"'

WORDS: Final = """\
array=("${NAME}")
if [[ ! -e "${NAME}" && ! -e "${NAME}.bin" ]]; then
  read -ra array <<< "${NAME//$'\\n'/ }"
fi
"""
"""The words of a variable; one where it is the path of something that exists, or the prefix of a data set."""


def variable_block(
    command: Command, settings: LauncherSettings, needs: Iterable[str], optional: Iterable[str]
) -> str:
    """Return the head of a script: the user's variables, and one sentence where a needed one is unset.

    ``command``: its variables come first; those of a real run alone are not asked for in a smoke run;
    ``settings``: says which kind of run is meant where the user says nothing; ``needs`` and ``optional``: the
    launcher's own, asked for in either kind of run, and those that may be unset.
    """
    always = dict.fromkeys((*command.needs, *needs))
    real = [name for name in dict.fromkeys(command.production_needs) if name not in always]
    unset = [name for name in dict.fromkeys((*command.where_set, *optional)) if name not in always]
    lines = [_exported("SMOKE", "1" if settings.smoke else "", VARIABLES["SMOKE"], "-"), _off(command)]
    lines += [_exported(name, "", VARIABLES[name]) for name in (*command.needs, *real)]
    lines += [_exported(name, "", VARIABLES[name]) for name in always if name not in command.needs]
    lines += [_exported(name, "", f"{VARIABLES[name]}, if any") for name in unset if name not in real]
    return "".join(lines) + default_block(command) + _check(tuple(always), tuple(real)) + _idle(command)


def _idle(command: Command) -> str:
    """Return the lines that warn of variables that are set and have no effect."""
    idle = without_effect(command.variables)
    if not idle:
        return ""
    return (
        f"for name in {' '.join(idle)}; do\n"
        '  if [[ -n "${!name:-}" ]]; then echo "${name} has no effect here; README.md says why." >&2; fi\n'
        "done\n"
    )


def default_block(command: Command) -> str:
    """Return the lines that give the variables that may be unset their defaults."""
    return "".join(_exported(name, value, VARIABLES[name]) for name, value in command.defaults.items())


def _exported(name: str, value: str, meaning: str, sign: str = ":-") -> str:
    return f"export {name}=${{{name}{sign}{value}}}  # {meaning}\n"


def _off(command: Command) -> str:
    """Return what SMOKE=0 means, and the sentence of a runtime without a smoke run."""
    off = 'if [[ "${SMOKE}" == 0 ]]; then SMOKE=; fi\n'
    if command.smoke is not None:
        return off
    sentence = shlex.quote(f"There is no smoke run: {command.no_smoke}.")
    return f"{off}if {SMOKE}; then\n  echo {sentence} >&2\n  exit 2\nfi\n"


def _check(always: tuple[str, ...], real: tuple[str, ...]) -> str:
    names = (*real, *always)
    if not names:
        return ""
    meanings = "".join(f"    {name}) meaning={shlex.quote(VARIABLES[name])} ;;\n" for name in names)
    return (
        f"needed=({' '.join(always)})\n"
        + (f'if [[ -z "${{SMOKE}}" ]]; then needed=({" ".join(names)}); fi\n' if real else "")
        + 'for name in "${needed[@]}"; do\n'
        '  if [[ -n "${!name}" ]]; then continue; fi\n'
        f'  case "${{name}}" in\n{meanings}  esac\n'
        '  echo "Set the variable ${name} to ${meaning} before starting this script." >&2\n'
        "  exit 2\n"
        "done\n"
    )


def spread_block(parts: Iterable[str], indent: str = "") -> str:
    """Return the lines that make an array of each variable whose words are among ``parts``."""
    names = dict.fromkeys(found[1] for part in parts if (found := SPREAD.fullmatch(part)))
    text = "".join(WORDS.replace("array", f"{name.lower()}_words").replace("NAME", name) for name in names)
    return "".join(f"{indent}{line}" for line in text.splitlines(keepends=True))


def training_block(command: Command) -> str:
    """Return the array ``training``: the program and its arguments, by the kind of run."""
    text = f"{spread_block(command.program)}training=(\n{argument_lines(placed(command))})\n"
    smoke, real = _added(command, command.smoke or ()), _added(command, command.production)
    real += "".join(
        f'  if [[ -n "${{{name}}}" ]]; then\n{_indented(_added(command, parts))}  fi\n'
        for name, parts in command.where_set.items()
        if parts
    )
    if command.smoke is None:
        text += "".join(line.removeprefix("  ") for line in real.splitlines(keepends=True))
    elif smoke and real:
        text += f"if {SMOKE}; then\n{smoke}else\n{real}fi\n"
    elif smoke or real:
        text += f"if {SMOKE if smoke else REAL}; then\n{smoke or real}fi\n"
    if command.closing:
        text += f"training+=(\n{argument_lines(placed(command, command.closing))})\n"
    return text


def _added(command: Command, parts: tuple[str, ...]) -> str:
    """Return the indented lines that add arguments to the array."""
    if not parts:
        return ""
    lines = argument_lines(placed(command, parts), "    ")
    return f"{spread_block(parts, '  ')}  training+=(\n{lines}  )\n"


def _indented(text: str) -> str:
    return "".join(f"  {line}" for line in text.splitlines(keepends=True))


def start_block(command: Command, start: str, folder: str = "", ends: bool = True) -> str:
    """Return the lines that start the program, and after a smoke run say how to hold it against the plan.

    ``folder``: where the plan file is, as shell text with a slash at its end; ``ends``: whether the script
    becomes the program in a real run, so that signals reach it.
    """
    real = f"exec {start}\n" if ends else f"{start}\n"
    if command.smoke is None:
        return real
    line = command.step_line or StepLine("")
    word = "SECONDS" if line.option == "--step-time" else "TOKENS"
    measured = f"planner mfu {folder}{PLAN} {line.option} ${{value:-{word}}}"
    return (
        f"if {SMOKE}; then\n  log=$(mktemp -t smoke.XXXXXX)\n  {start} {LOGGED}\n{_value(line)}"
        f'  echo "Hold it against the estimate: {measured}"\n  rm "${{log}}"\n  exit\nfi\n{real}'
    )


def _value(line: StepLine) -> str:
    """Return the lines that take the middle one of the log's last ten numbers."""
    if not line.pattern:
        return "  value=\n"
    command = shlex.quote(f"s/.*{line.pattern}.*/\\1/p")
    plain = "sed 's/,//g; s/K$/e3/'" if line.thousands else "tr -d ,"
    middle = f"{{ v[NR] = $1 }} END {{ if (NR) print v[int((NR + 1) / 2)] / {line.divisor:g} }}"
    return (
        f"  value=$(sed -nE {command} \"${{log}}\" | tail -n 10 | {plain} | sort -g |\n    awk '{middle}')\n"
    )
