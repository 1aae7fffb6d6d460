"""Files that a script writes before it starts: from here-documents and with ``echo``."""

from __future__ import annotations

import json
from pathlib import Path

from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.imports.shell import read_script
from tests.cases import every

JSON = """{
  "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
  "zero_optimization": {"stage": $STAGE},
  "bf16": {"enabled": true}
}"""
START = "deepspeed --num_gpus 8 --num_nodes 1 train.py --deepspeed_config ds.json"
WRITTEN = f"STAGE=3\ncat <<EOT > ds.json\n{JSON}\nEOT\n{START}\n"
"""A script that writes what it reads."""


@every(
    "writes",
    [
        f"cat <<EOT > ds.json\n{JSON}\nEOT",
        f"cat > ds.json <<EOT\n{JSON}\nEOT",
        f"cat <<-EOT >ds.json\n{JSON}\n\tEOT",
        f"tee ds.json <<EOT\n{JSON}\nEOT",
        f'echo "{JSON.replace(chr(34), chr(92) + chr(34))}" > ds.json',
        f'CONFIG=ds.json\ncat <<EOT > "$CONFIG"\n{JSON}\nEOT',
    ],
)
def test_a_json_that_the_script_writes_is_read(writes: str, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(f"STAGE=3\n{writes}\n{START}\n", encoding="utf-8")
    found = read_runner_file(script)
    assert (found.options["zero"], found.options["micro_batch"], found.options["gpus"]) == ("3", "2", "8")
    assert [path.name for path in tmp_path.iterdir()] == ["run.sh"]


def test_a_quoted_mark_keeps_variables_as_they_are() -> None:
    written = read_script("A=1\ncat <<'E' > one\n$A${A}\nE\ncat <<E > two\n$A${A}\\$A\nE\n", "run.sh").written
    assert written == {"one": "$A${A}\n", "two": "11$A\n"}


def test_the_bracket_after_a_variable_stays() -> None:
    assert read_script("A=1\ncat <<E > one\n{$A}$B}\nE\n", "run.sh").written == {"one": "{1}$B}\n"}


def test_what_is_written_goes_before_a_file_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(JSON.replace("$STAGE", "1"), encoding="utf-8")
    script = tmp_path / "run.sh"
    script.write_text(f"cat <<E > ds.json\n{JSON.replace('$STAGE', '2')}\nE\n{START}\n", encoding="utf-8")
    assert read_runner_file(script).options["zero"] == "2"


def test_a_written_json_of_transformers_and_a_yaml_of_accelerate(tmp_path: Path) -> None:
    program = (
        "run_clm.py --model_name_or_path meta-llama/Llama-2-7b-hf --per_device_train_batch_size 4 --bf16 "
        "--block_size 2048 --output_dir x"
    )
    yaml = "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\nnum_processes: 16\nmixed_precision: bf16"
    (tmp_path / "one.sh").write_text(
        f"cat <<E > conf/z.json\n{JSON.replace('$STAGE', '2').replace('2, ', '4, ', 1)}\nE\n"
        f"torchrun --nproc_per_node 8 {program} --gradient_accumulation_steps 4 --deepspeed conf/z.json\n"
    )
    (tmp_path / "two.sh").write_text(
        f"cat <<E > a.yaml\n{yaml}\nE\naccelerate launch --config_file a.yaml {program}\n"
    )
    assert read_runner_file(tmp_path / "one.sh").options["zero"] == "2"
    found = read_runner_file(tmp_path / "two.sh").options
    assert (found["zero"], found["gpus"]) == ("3", "16")


@every(("stage", "hosted", "zero"), [(1, "none", "1"), (2, "cpu", "2"), (0, "none", "1")])
def test_megatron_deepspeed_shards_as_its_json_says(
    stage: int, hosted: str, zero: str, tmp_path: Path
) -> None:
    shape = "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --vocab-size 32000"
    batch = "--micro-batch-size 1 --global-batch-size 64 --max-position-embeddings 2048 --bf16"
    zero_section = {"stage": stage, "offload_optimizer": {"device": hosted}}
    text = json.dumps({"train_batch_size": 64, "zero_optimization": zero_section})
    script = tmp_path / "run.sh"
    script.write_text(
        f"cat <<E > ds.json\n{text}\nE\ndeepspeed --num_gpus 8 pretrain_gpt.py {shape} {batch} --deepspeed "
        "--deepspeed_config ds.json\n"
    )
    found = read_runner_file(script)
    assert found.options["zero"] == zero
    assert found.options.get("offload") == ("optimizer" if hosted == "cpu" else None)


def test_arithmetic_on_what_a_command_prints_stays_as_it_is_written() -> None:
    (words,) = read_script("N=$(($(nvidia-smi --list-gpus | wc -l)-2))\nrun --gpus $N\n", "run.sh").commands
    assert words[-1] == "$(($(nvidia-smi --list-gpus | wc -l)-2))"


@every("name", ["/", "", "..", "a\\b", "$X/", "-", ".", "x" * 300])
def test_a_document_without_a_name_of_a_file_is_passed_over(name: str, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(f'cat <<E > "{name}"\n{{}}\nE\n{START}\n', encoding="utf-8")
    assert "no such file" in {problem.found for _, problem in read_runner_file(script).faults}
