"""Wrong input ends with one message that says where, what, and what would do; never with a traceback."""

from __future__ import annotations

import errno
import io
import itertools
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from planner import files
from planner.cli.app import ended, main
from planner.errors import SolverError
from tests.cases import every
from tests.cli.command import Done, planner
from tests.helpers import ROOT, hears_interrupts, run_planner, user_environment, wait_until_busy

CLUSTER = ("--hardware", "dgx-h100", "--gpus", "8")
JOB = ("llama2-7b", *CLUSTER)


def refused(done: Done) -> str:
    """Return the one message of a command that refused its input."""
    assert (done.code, done.out) == (2, "")
    assert "Traceback" not in done.err
    return done.err


@every("command", ["search", "estimate"])
@every(
    ("option", "value"),
    [
        (option, value)
        for option in (
            "--gpus",
            "--seq-len",
            "--global-batch",
            "--tp",
            "--pp",
            "--vpp",
            "--cp",
            "--ep",
            "--etp",
        )
        for value in ("0", "-1", "two", "", "1.5", "1e9999", "9" * 400)
    ]
    + [
        (option, "0")
        for option in ("--dp", "--micro-batch", "--zero-shards", "--gpus-per-node", "--memory-limit")
    ]
    + [("--tokens", value) for value in ("0", "-1T", "many", "nan", "inf", "1e999")]
    + [
        (option, f"{name}:{number}")
        for option, name in (("--recompute", "full"), ("--offload", "activations"), ("--cp-method", "usp"))
        for number in ("9" * 5000, "²", "-1")
    ]
    + [("--imbalance", value) for value in ("0.5", "nan", "inf", "x")]
    + [("--memory-limit", value) for value in ("-1", "nan", "inf", "80 GHz", "80 Gbit", "x")]
    + [("--zero", "4"), ("--stage-layers", "16,x"), ("--lora-rank", "8")]
    + [("--lora-targets", "qkv"), ("--lora-targets", "lm_head"), ("--document-tokens", "10000000")],
)
def test_counts_and_amounts_that_are_none(command: str, option: str, value: str) -> None:
    told = refused(planner(command, *without(JOB, option), f"{option}={value}"))
    assert told.startswith("error: ")
    assert option in told
    assert "expected" in told
    assert len(told) < 400


def without(words: tuple[str, ...], option: str) -> tuple[str, ...]:
    """Return a command without an option and its value, so that it is not given twice."""
    if option not in words:
        return words
    place = words.index(option)
    return words[:place] + words[place + 2 :]


@every(
    ("option", "value", "near"),
    [
        ("--hardware", "dgx-h10", "dgx-h100"),
        ("--runtime", "megatorn-lm", "megatron-lm"),
        ("--precision", "bf61", "bf16"),
        ("--optimizer", "adamv", "adamw"),
        ("--method", "qlor", "qlora"),
        ("--schedule", "1f1", "1f1b"),
        ("--cp-method", "rings", "ring"),
        ("--offload", "optimiser", "optimizer"),
        ("--recompute", "selectiv", "selective"),
        ("--recompute", "selective:mlps", "mlp"),
        ("--state-dtype", "fp23", "fp32"),
        ("--set", "atention=flash-2", "attention"),
        ("--set", "attention=flash2", "flash-2"),
        ("--zero", "4", "3"),
        ("--gpus-per-node", "3", "2"),
    ],
)
def test_unknown_names_are_told_with_the_nearest(option: str, value: str, near: str) -> None:
    told = refused(planner("estimate", "llama2-7b", "--gpus", "8", "--hardware", "dgx-h100", option, value))
    where, _, hint = told.partition("nearest: ")
    assert value.partition("=")[2] in where
    assert near in (hint or where.partition("(")[2])


def test_an_unknown_model_is_told_with_the_nearest() -> None:
    told = refused(planner("search", "lama3-8b", *CLUSTER))
    assert told.startswith("error: MODEL: found 'lama3-8b'")
    assert "nearest: llama3-8b" in told


def test_an_unknown_accelerator_never_gets_the_numbers_of_another() -> None:
    told = refused(planner("search", "llama3-8b", "--hardware", "h100-64gb", "--gpus", "8"))
    assert "expected a cluster or an accelerator that ships with the planner" in told
    assert "h100" in told.partition("nearest: ")[2]


def test_all_faults_are_told_at_once() -> None:
    told = refused(
        planner(
            *(
                "search",
                "lama3-8b",
                "--hardware",
                "dgx-h10",
                "--gpus",
                "0",
                "--tp",
                "x",
                "--precision",
                "bf61",
            ),
            *("--set", "dropout=maybe", "--objective", "speed", "--top", "-1", "--oom-risk", "2"),
        )
    )
    first, *faults = told.splitlines()
    assert first == f"error: {len(faults)} faults"
    places = ["MODEL", "--hardware", "--gpus", "--tp", "--precision", "--set dropout", "--objective", "--top"]
    assert all(any(fault.startswith(f"  {place}: ") for fault in faults) for place in places)


@every("command", ["search", "estimate"])
def test_degrees_are_checked_though_another_option_is_wrong(command: str) -> None:
    told = refused(planner(command, "llama3-8b", *CLUSTER, "--zero", "5", "--tp", "7"))
    assert "--zero: found '5'" in told
    assert "tp 7" in told
    assert "a divisor of 8 accelerators; nearest: --tp 8" in told


def test_a_degree_that_is_no_number_is_not_taken_for_one() -> None:
    told = refused(planner("estimate", "llama3-8b", *CLUSTER, "--tp", "x", "--dp", "4", "--zero", "5"))
    assert told.splitlines()[0] == "error: 2 faults"


def test_missing_parts_are_asked_for() -> None:
    told = refused(planner("search", "llama3-8b"))
    assert "--hardware: found nothing" in told
    assert "--gpus: found nothing" in refused(planner("search", "llama3-8b", "--hardware", "dgx-h100"))
    assert "MODEL" in refused(planner("search"))


@every("sequences", ["4194304", "4000000"])
def test_a_batch_in_tokens_given_as_sequences_is_refused(sequences: str) -> None:
    told = refused(planner("search", *JOB, "--global-batch", sequences))
    assert f"nearest: --global-batch-tokens {sequences}" in told


def test_a_batch_in_tokens_is_whole_sequences() -> None:
    told = refused(planner("search", *JOB, "--global-batch-tokens", "4e6"))
    assert "nearest: 3997696 or 4001792" in told
    both = ("--global-batch", "64", "--global-batch-tokens", "262144")
    assert "one of the two" in refused(planner("search", *JOB, *both))


@every(
    ("degrees", "near"),
    [
        (("--tp", "3"), "--tp 2"),
        (("--tp", "2", "--pp", "2", "--dp", "3"), "--dp 2"),
        (("--tp", "16"), "--tp 8"),
        (("--tp", "8", "--dp", "8"), "--dp 1"),
    ],
)
@every("command", ["estimate", "search"])
def test_degrees_that_do_not_multiply_to_the_accelerators(
    command: str, degrees: tuple[str, ...], near: str
) -> None:
    told = refused(planner(command, *JOB, *degrees))
    assert "8 accelerators" in told
    assert near in told


def test_accelerators_that_no_product_of_degrees_reaches() -> None:
    """1009 is prime: no head, sequence or batch divides by it; 992 is 31 stages of 32. No experts."""
    told = refused(planner("search", "llama2-7b", "--hardware", "dgx-h100", "--gpus", "1009", "--ep", "8"))
    assert "--gpus: found 1009" in told
    assert "nearest: 992 or 1024" in told


def test_files_are_written_for_whole_nodes_and_names_are_read_before_anything_is_searched(
    tmp_path: Path,
) -> None:
    out = str(tmp_path / "out")
    ask = ("search", "llama2-7b", "--hardware", "dgx-h100", "--gpus", "17", "--emit", out)
    assert "torchrun" in refused(planner(*ask, "--launcher", "torchrnu"))
    done = planner(*ask, "--top", "1", "--uniform")
    assert done.code == 0
    assert "1 accelerator sits idle" in done.out
    assert "--nnodes 2" in (tmp_path / "out" / "train.sh").read_text()


def test_more_accelerators_than_a_cluster_has(tmp_path: Path) -> None:
    alone = tmp_path / "box.yaml"
    alone.write_text("name: box\npools:\n  - {accelerator: h100, node: dgx-h100}\n")
    told = refused(planner("search", "llama2-7b", "--hardware", str(alone), "--gpus", "64"))
    assert "--gpus: found 64; expected at most 8" in told


def test_a_range_is_read_from_the_smaller_end() -> None:
    told = refused(planner("search", "llama2-7b", "--hardware", "dgx-h100", "--gpus", "64..8"))
    assert "nearest: 8..64" in told
    told = refused(planner("estimate", "llama2-7b", "--hardware", "dgx-h100", "--gpus", "8..64"))
    assert "one number" in told


def test_a_precision_that_the_accelerator_has_not() -> None:
    told = refused(
        planner("search", "llama2-7b", "--hardware", "dgx-a100-80gb", "--gpus", "8", "--precision", "fp8")
    )
    assert "expected one of bf16, fp16" in told


def test_unknown_options_and_commands_are_told_with_the_nearest() -> None:
    told = refused(planner("search", *JOB, "--hardwear", "x"))
    assert "--hardware" in told
    assert "search" in refused(planner("serch"))
    assert "json" in refused(planner("search", *JOB, "--format", "xml"))


@every(
    ("text", "words"),
    [
        ("name: x\nhidden: 12\n", "vocab"),
        ("name: x\nname: y\n", "name"),
        ("name:\tx\n", "hidden: found nothing"),
        ("name: x\nblocks:\n\tfirst: 1\n", "a tab in the indentation"),
        ("a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
            f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
        ), "model.yaml"),
        ("[1, 2]\n", "mapping"),
        ("name: x\nhiden: 12\n", "hidden"),
        ("name: x\nhidden: .nan\n", "model.yaml"),
        ("x" * 3_000_000, "model.yaml"),
        ("!!python/object/apply:os.system ['true']", "model.yaml"),
    ],
    ids=["missing", "duplicate", "tab", "indented", "bomb", "list", "unknown", "nan", "huge", "code"],
)  # fmt: skip
def test_broken_model_files(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(text)
    told = refused(planner("search", str(path), *CLUSTER))
    assert str(path) in told
    assert words in told


@every(
    ("text", "words"),
    [
        ("pools: []\nname: x\n", "at least one pool"),
        ("name: x\npools:\n  - {accelerator: {memory: 80}, node: hgx-h100}\n", "no unit"),
        ("name: x\npools:\n  - {accelerator: {memory: 80 parsec}, node: hgx-h100}\n", "unit 'parsec'"),
        ("name: x\npools:\n  - {accelerator: h1000, node: hgx-h100}\n", "nearest"),
    ],
)
def test_broken_profiles(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    told = refused(planner("search", "llama2-7b", "--hardware", str(path), "--gpus", "8"))
    assert str(path) in told
    assert words in told


@every(
    "text",
    [
        "not json",
        "{}",
        "[]",
        '{"model_type": "llama", "hidden_size": "4096"}',
        '{"model_type": "llama", "hidden_size": NaN}',
        '{"model_type": "my-own", "auto_map": {"AutoConfig": "code.py"}}',
    ],
)
def test_broken_configs(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    for command in (("search", str(path), *CLUSTER), ("models", "import", str(path))):
        assert "config.json" in refused(planner(*command))


@every(
    "words",
    [
        ("search", *JOB, "--synthesize", "--top", "3"),
        ("search", "--gpus", "--top", "3", *JOB),
        ("estimate", *JOB, "--tp", "--save=plan.yaml"),
        ("simulate", "--pp", "--schedule", "1f1b"),
        ("hardware", "diff", "dgx-h100", "--format", "--quiet"),
    ],
)
def test_an_option_does_not_take_the_next_one_as_its_value(words: tuple[str, ...]) -> None:
    told = refused(planner(*words))
    found = next(pair for pair in itertools.pairwise(words) if all(word.startswith("--") for word in pair))
    assert f"'{found[0]}' requires an argument" in told
    assert f"'{found[1]}'" in told


def test_existing_files_are_kept_without_force(tmp_path: Path) -> None:
    taken = tmp_path / "plan.yaml"
    taken.write_text("mine")
    for command in ("estimate", "search"):
        assert "--force" in refused(planner(command, *JOB, "--save", str(taken)))
    assert taken.read_text() == "mine"
    assert planner("estimate", *JOB, "--save", str(taken), "--force").code == 0
    assert taken.read_text().startswith("format:")
    out = tmp_path / "out"
    emit = ("emit", str(taken), "--out", str(out))
    assert planner(*emit).code == 0
    (out / "train.sh").write_text("mine")
    assert "--force" in refused(planner(*emit))
    assert (out / "train.sh").read_text() == "mine"
    assert planner(*emit, "--force").code == 0
    assert "torchrun" in (out / "train.sh").read_text()


def refused_after(done: Done) -> str:
    """Return the message of a command that has answered, and then could not write."""
    assert done.code == 2
    assert "Traceback" not in done.err
    return done.err


@every("place", ["missing/plan.yaml", "a-file/plan.yaml", "."])
def test_folders_that_cannot_be_written(tmp_path: Path, place: str) -> None:
    (tmp_path / "a-file").write_text("")
    for command in ("estimate", "search"):
        told = refused(planner(command, *JOB, "--save", str(tmp_path / place), "--force"))
        assert "--save" in told
        assert "can be written" in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-file"]


def test_an_interrupt_in_the_middle_of_writing_leaves_nothing(tmp_path: Path) -> None:
    saved = tmp_path / "plan.yaml"
    with mock.patch.object(files.Path, "replace", side_effect=KeyboardInterrupt):
        done = planner("estimate", *JOB, "--save", str(saved))
    assert done.code == 130
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    saved = tmp_path / "plan.yaml"
    saved.write_text("old")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with mock.patch.object(files.Path, "replace", side_effect=full):
        told = refused_after(planner("estimate", *JOB, "--save", str(saved), "--force"))
    assert "No space left" in told
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_ctrl_c_exits_with_130(tmp_path: Path) -> None:
    ask = [
        sys.executable,
        "-m",
        "planner",
        "search",
        "llama3-8b",
        "--hardware",
        "dgx-h100",
        "--gpus",
        "8..4096",
    ]
    process = subprocess.Popen(
        ask,
        cwd=tmp_path,
        env=user_environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hears_interrupts,
    )
    wait_until_busy(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert err == "interrupted\n"


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    ask = f"{sys.executable} -m planner models list | head -n 1"
    done = subprocess.run(
        ["sh", "-c", ask],
        cwd=tmp_path,
        env=user_environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


def test_what_nobody_foresaw_is_one_line_with_code_70(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(ZeroDivisionError("division by zero")) == 70
    told = capsys.readouterr().err
    assert told.startswith("internal error (ZeroDivisionError: division by zero)")
    assert len(told.splitlines()) == 1
    assert ended(SolverError("no solver")) == 70


def test_a_traceback_is_shown_to_those_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_DEBUG", "1")
    stream = io.StringIO()
    with mock.patch.object(sys, "stderr", stream):
        assert ended(ZeroDivisionError("here")) == 70
    assert "ZeroDivisionError: here\ninternal error" in stream.getvalue()


def test_an_internal_error_anywhere_ends_with_70(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.cost.price.price", mock.Mock(side_effect=ZeroDivisionError("deep")))
    done = planner("estimate", *JOB)
    assert done.code == 70
    assert "internal error (ZeroDivisionError: deep)" in done.err


@every(
    ("words", "told"),
    [
        ("serch llama3-8b", "planner: no such command 'serch'; nearest: search"),
        ("models sho", "planner models: no such command 'sho'; nearest: show"),
        ("search --toop 3", "planner search: no such option: --toop; nearest: --"),
        ("search --lr 1e-4", "planner search: no such option: --lr; see"),
        ("search llama3-8b dgx-h100", "argument(s) (dgx-h100); nearest: --hardware dgx-h100; see"),
        ("estimate llama3-8b --format xml", "'xml' is not one of 'table', 'json', 'csv', 'markdown'"),
        ("compare", "planner compare: missing argument 'PLAN...'"),
        ("search llama3-8b --tp --pp 2", "'--tp' requires an argument; what follows it is '--pp'"),
        ("report x --out", "'--out' requires an argument"),
        ("explain a b", "unexpected extra argument"),
        ("--bad", "no such option: --bad"),
    ],
)
def test_words_that_no_command_knows_are_told_in_one_line(words: str, told: str) -> None:
    done = planner(*words.split())
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert re.match(r"error: planner.*; see planner.* --help\n", done.err)
    assert told in done.err


@every(("words", "first"), [((), "search"), (("models",), "list")])
def test_no_words_at_all_are_answered_with_the_help(words: tuple[str, ...], first: str) -> None:
    done = planner(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Usage: planner")
    assert f"  {first}" in done.err


def test_the_version_and_the_help(tmp_path: Path) -> None:
    for arguments in (["--version"], ["--help"], ["search", "--help"]):
        done = run_planner(*arguments, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(("planner ", "Usage: planner"))
    assert ROOT.name
    assert callable(main)


def test_odd_encodings_are_no_fault(tmp_path: Path) -> None:
    environment = user_environment(tmp_path) | {"PYTHONIOENCODING": "ascii"}
    ask = [sys.executable, "-m", "planner", "estimate", *JOB, "--tp", "3", "--dp", "2"]
    done = subprocess.run(ask, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    odd = [sys.executable, "-m", "planner", "estimate", b"\xff\xfe", *CLUSTER]
    done = subprocess.run(odd, cwd=tmp_path, env=user_environment(tmp_path), capture_output=True, check=False)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_a_plan_in_the_place_of_a_model_is_said_to_be_one(tmp_path: Path) -> None:
    plan = tmp_path / "best.yaml"
    job = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "8")
    assert planner("search", *job, "--save", str(plan), "--quiet").code == 0
    done = planner("estimate", str(plan), "--hardware", "dgx-h100")
    assert done.code == 2
    assert "expected a model; this is a plan, for `planner explain`" in done.err
    assert len(done.err.splitlines()) == 1
