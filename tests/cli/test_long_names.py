"""Names that no file system takes are wrong input, wherever a file may be named."""

from __future__ import annotations

from pathlib import Path

from tests.cases import every
from tests.cli.command import planner

LONG = "a" * 300
JOB = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "8")


@every("name", [LONG, f"{LONG}.yaml", f"{LONG}.json", "b/" * 3000])
@every(
    "words",
    [
        ("estimate", "{}"),
        ("estimate", *JOB, "--seq-lens", "{}"),
        ("estimate", "llama3-8b", "--hardware", "{}"),
        ("estimate", "--from", "{}", "--hardware", "dgx-h100"),
        ("estimate", *JOB, "--save", "{}"),
        ("models", "import", "{}"),
        ("models", "show", "{}"),
        ("hardware", "show", "{}"),
        ("explain", "{}"),
        ("emit", "{}", "--out", "x"),
        ("search", *JOB, "--near", "{}"),
        ("validate", "{}"),
        ("partition", "{}", "--stages", "2"),
    ],
    ids=lambda words: " ".join(word for word in words if word not in JOB),
)
def test_an_option(words: tuple[str, ...], name: str) -> None:
    done = planner(*(word.format(name) for word in words))
    assert done.code == 2, done.err
    assert done.err.startswith("error: ")


def test_a_file_that_names_one(tmp_path: Path) -> None:
    part = f"{LONG}.yaml"
    texts = {
        "train.sh": f"accelerate launch --config_file {LONG}.yaml x.py --model_name_or_path {LONG}"
        " --per_device_train_batch_size 1",
        "ds.sh": f"deepspeed --num_gpus 8 x.py --deepspeed_config {LONG}.json",
        "megatron.sh": f"torchrun pretrain_gpt.py --yaml-cfg {LONG}.yaml",
        "source.sh": f"source {LONG}.sh\ntorchrun pretrain_gpt.py --num-layers 2",
        "cluster.yaml": f"name: x\npools:\n  - accelerator: {part}\n    node: {part}\n    network: ib\n",
        "sites.yaml": f"sites:\n  - {{name: a, cluster: {LONG}.yaml, gpus: 8}}\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        read = ("--hardware",) if name.endswith(".yaml") else ("--hardware", "dgx-h100", "--from")
        model = ("llama3-8b",) if name.endswith(".yaml") else ()
        done = planner("estimate", *model, *read, str(tmp_path / name))
        assert done.code == 2, (name, done.err)
