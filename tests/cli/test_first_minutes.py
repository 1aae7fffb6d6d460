"""What a newcomer types first: help, words, flags, clusters by what they are like."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from planner.cli.commands import COMMANDS, LazyCommands
from planner.cli.glossary import entries, looked_up, meaning
from planner.cli.help import COMMAND_GROUPS, EXAMPLES, GROUPS
from planner.errors import InputError
from planner.inputs.load_hardware import load_hardware
from planner.techniques.context import CONTEXT_METHODS
from planner.techniques.offload import OFFLOADS
from planner.techniques.schedules import SCHEDULES
from planner.techniques.settings import SETTINGS
from tests.cases import every
from tests.cli.command import planner

SMALL = (
    "llama3.2-1b",
    "--hardware",
    "8xh100",
    "--seq-len",
    "2048",
    "--global-batch",
    "32",
    "--quiet",
    "--top",
    "1",
)


def test_every_command_stands_in_one_group() -> None:
    grouped = [name for names in COMMAND_GROUPS.values() for name in names.split()]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) <= set(COMMANDS)
    told = planner("--help").out
    assert all(f"\n  {name} " in told for name in COMMANDS)


def test_every_grouped_option_is_one_of_a_command() -> None:
    commands = [LazyCommands()[name] for name in COMMANDS]
    known = {one.name for command in commands for one in command.params} | {"help"}
    grouped = [name for names in GROUPS.values() for name in names.split()]
    assert set(grouped) <= known
    assert len(grouped) == len(set(grouped))


@every("name", ["search", "estimate"])
def test_grouped_help_leaves_no_option_out(name: str) -> None:
    told = planner(name, "--help").out
    command = LazyCommands()[name]
    for option in command.params:
        if option.param_type_name == "option":
            assert re.search(rf"(?m)^  .*{option.opts[0]}\b", told), option.name
    assert told.rstrip().splitlines()[-4:] == ["Examples:", *(f"  {line}" for line in EXAMPLES[name])]


@every("line", [line for lines in EXAMPLES.values() for line in lines])
def test_examples_name_options_and_things_that_exist(line: str) -> None:
    words = shlex.split(line)[1:]
    options = {opt for one in LazyCommands()[words[0]].params for opt in one.opts}
    assert {word for word in words if word.startswith("--")} <= options
    assert len(line) < 78


def test_the_help_of_the_program_fits_one_screen() -> None:
    lines = planner("--help").out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[-4:] == ["Examples:", *(f"  {line}" for line in EXAMPLES[""])]


@every(
    ("word", "names"),
    [
        ("tp4", ["tp"]),
        ("mb2", ["mb", "micro_batch"]),
        ("zero1", ["zero"]),
        ("GiB/96", ["GiB/80"]),
        ("mfu", ["MFU"]),
        ("sp", ["sp", "sequence_parallel"]),
        ("cp-method", ["cp_method"]),
        ("offload-activations:63", ["offload-optimizer", "offload"]),
        ("FSDP", ["fsdp"]),
        ("QLoRA", ["qlora"]),
        ("expert_dispatcher", ["expert_dispatcher"]),
        ("global batch", ["--global-batch"]),
        ("dp link", ["tp link"]),
        ("rule of thumb", ["rule of thumb"]),
    ],
)
def test_a_word_is_found_as_answers_write_it(word: str, names: list[str]) -> None:
    done = planner("glossary", word, "--format", "json")
    assert [entry["names"][0] for entry in json.loads(done.out)] == names


def test_every_word_of_the_glossary_is_found() -> None:
    assert len(entries()) > 100
    for entry in entries():
        for name in entry.names:
            assert entry in meaning(name)


def test_every_word_that_a_layout_may_have_is_explained() -> None:
    recomputes = {"selective", "selective:mlp+core_attn", "full", "full:2", "stream:16"}
    offloads = {f"offload-{name}" for name in OFFLOADS if name != "none"} | {"offload-optimizer:88%"}
    offloads |= {"offload-activations:33", "offload-modules:mlp"}
    words = {*recomputes, *offloads, *SCHEDULES, *CONTEXT_METHODS, *SETTINGS, "shards8", "sp"}
    assert [word for word in sorted(words) if not looked_up(word)] == []


def test_unknown_words_are_told_at_once() -> None:
    done = planner("glossary", "zerro", "MFU", "bubbel")
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 3
    assert "nearest: zero" in done.err
    assert "nearest: bubble" in done.err


@pytest.mark.parametrize(
    ("runtime", "words"),
    [
        ("megatron-lm", ["--tensor-model-parallel-size 2", "--micro-batch-size 4"]),
        ("torchtitan", ["--parallelism.tensor_parallel_degree 2"]),
        ("fsdp", ["PARALLELISM_CONFIG_TP_SIZE=2", "# accelerate.yaml"]),
        ("nanotron", ["  tp: 2", "# nanotron.yaml"]),
        ("deepspeed", ['"train_micro_batch_size_per_gpu": 4', "# ds_config.json"]),
    ],
)
def test_flags_are_those_of_the_first_plan(runtime: str, words: list[str]) -> None:
    degrees = ("--tp", "1") if runtime == "deepspeed" else ("--tp", "2")
    job = ("llama2-7b", *SMALL[1:]) if runtime == "nanotron" else SMALL
    done = planner("search", *job, "--runtime", runtime, *degrees, "--micro-batch", "4", "--flags")
    assert done.code == 0, done.err
    _, _, flags = done.out.partition("Flags of plan 1 for ")
    for word in words:
        assert word in flags


def test_flags_are_those_that_emit_writes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = planner("search", *SMALL, "--flags", "--emit", str(out), "--format", "json")
    told = json.loads(done.out)["flags"]
    script = (out / "train.sh").read_text(encoding="utf-8")
    written = " ".join(script.replace("\\\n", " ").split())
    assert len([word for word in told["words"] if word.startswith("--")]) > 20
    for word in told["words"]:
        assert word in written
    for name, value in told["environment"].items():
        assert f"{name}={value}" in written


def test_nothing_fits_has_no_flags() -> None:
    done = planner("search", "llama3-70b", "--hardware", "rtx3090-2-nvlink", "--flags", "--quiet")
    assert done.code == 1
    assert "Flags" not in done.out


def test_the_list_of_clusters_narrows() -> None:
    rows = json.loads(planner("hardware", "list", "NVIDIA", "h100", "--price", "3.2", "--format", "json").out)
    assert rows
    assert all("h100" in row["accelerator"] and row["price_usd_per_h"] <= 3.2 for row in rows)
    large = json.loads(planner("hardware", "list", "--memory", "250", "--node", "8", "--format", "json").out)
    assert {row["name"] for row in large} >= {"mi325x-8", "dgx-b300"}
    assert all(row["memory_gib"] >= 250 and row["gpus_per_node"] == 8 for row in large)
    none = planner("hardware", "list", "--accelerators", "h100", "--memory", "500")
    assert (none.code, none.out) == (1, "")


def test_filters_that_are_no_numbers_are_told_at_once() -> None:
    done = planner("hardware", "list", "--memory", "x", "--node", "0", "--price", "-1")
    assert done.code == 2
    assert done.err.startswith("error: 3 faults\n")


def test_a_cluster_is_another_but_for_some_fields(tmp_path: Path) -> None:
    path = tmp_path / "ours.yaml"
    path.write_text("base: dgx-h100\nnetwork: roce\nprice: 2 USD/h\nnode: {nics: 4}\n", encoding="utf-8")
    (tmp_path / "more.yaml").write_text("base: ours.yaml\nname: more\ngpus: 16\n", encoding="utf-8")
    plain, ours, more = (
        load_hardware("dgx-h100").pool,
        load_hardware(str(path)),
        load_hardware(str(tmp_path / "more.yaml")),
    )
    assert (ours.name, more.name) == ("ours", "more")
    assert ours.pool.accelerator.memory_visible == plain.accelerator.memory_visible
    assert (ours.pool.node.nics, plain.node.nics) == (4, 8)
    assert ours.pool.nic_bandwidth == pytest.approx((plain.nic_bandwidth or 0) / 2)
    assert ours.pool.network is not None
    assert ours.pool.network.name == "roce"
    assert (ours.pool.price, ours.pool.price_seller) == (2.0, "")
    assert more.pool.model_copy(update={"gpus": None}) == ours.pool
    assert more.pool.gpus == 16


@every(
    ("text", "told"),
    [
        ("base: dgx-h101\n", "nearest: dgx-h100"),
        ("base: [dgx-h100]\n", "expected the name or path of a cluster"),
        ("base: dgx-h100\npools: []\n", "in the place of pools"),
        ("base: dgx-h100\nnics: 4\nnodes: 2\n", "nodes: found no field of a pool"),
        ("base: self.yaml\n", "does not lead back"),
        ("base: dgx-h100\nnode: {nics: x}\n", "nics"),
    ],
)
def test_a_wrong_base_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "self.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(str(path))) as caught:
        load_hardware(str(path))
    assert told in str(caught.value)


@every(("name", "gpus", "pair"), [("rtx3090-2-nvlink", 2, 56.25e9), ("dgx-station-a100", 4, 100e9)])
def test_workstations_have_no_network_and_say_how_many(name: str, gpus: int, pair: float) -> None:
    pool = load_hardware(name).pool
    assert (pool.gpus, pool.gpus_per_node, pool.network) == (gpus, gpus, None)
    assert pool.node.scaleup.pair_bandwidth == pair


def test_a_library_may_be_named_as_the_runtime(tmp_path: Path) -> None:
    asked = ("search", *SMALL[:-3], "--method", "lora", "--top", "1", "--emit")
    first = planner(*asked, str(tmp_path / "a"), "--runtime", "trl")
    second = planner(*asked, str(tmp_path / "b"), "--target", "trl")
    assert (first.code, first.out) == (0, second.out)
    assert "--runtime trl is taken as --target trl" in first.err
    assert (tmp_path / "a" / "trl.yaml").read_bytes() == (tmp_path / "b" / "trl.yaml").read_bytes()


@every("name", ["", *COMMANDS])
def test_help_is_asked_for_in_two_ways_and_is_plain(name: str) -> None:
    """No marks of the parser's own, no sentence cut short, no promise of several values that are refused."""
    long, short = planner(*name.split(), "--help"), planner(*name.split(), "-h")
    assert long == short
    assert (long.code, long.err) == (0, "")
    usage, *lines = long.out.splitlines()
    assert not re.search(r"\[\[|\{|\.\.\.\.|\]\.\.\.\]", usage)
    told = "\n".join(line for line in lines if "table|json" not in line)
    assert not re.search(r"<(?:path|str|int|float|list|bool)|(?m:\.\.\.$)", told)
    assert "several are" not in told or name in {"search", "budget"}
