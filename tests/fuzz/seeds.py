"""Good inputs that are then broken: files of every kind that is read, and the commands that read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cli.command import Done
from tests.fuzz.others import FOLLOW, JOB, others
from tests.helpers import ROOT

Run = Callable[..., Done]

DENSE: Final = ("estimate", "llama3-8b", *JOB, "--tp", "2")
SPARSE: Final = ("estimate", "qwen3-30b-a3b", "--hardware", "dgx-b200", *JOB[2:], "--ep", "8")
RUNTIMES: Final = ("megatron-lm", "megatron-bridge", "torchtitan", "deepspeed", "fsdp", "nanotron")
GRID: Final = """models: llama3-8b
hardware: dgx-h100
gpus: 8
seq_len: 2048
global_batch: 16
tp: 1
runtime: fsdp
"""
NCCL: Final = """# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20
#  Rank  0 Group  0 Pid   1 on a device  0 [0x00] NVIDIA H100
#  Rank  1 Group  0 Pid   2 on a device  1 [0x01] NVIDIA H100
#   size   count  type redop root  time  algbw  busbw #wrong  time  algbw  busbw #wrong
  1048576  262144 float   sum   -1 28.4  36.94  64.64      0  28.1   37.0  65.45      0
"""


@dataclass(frozen=True)
class Seed:
    """A good file with its folder, and the commands that read it."""

    path: Path
    commands: tuple[tuple[str, ...], ...]


def make_seeds(folder: Path, run: Run) -> list[Seed]:
    """Write good files of every kind into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    plan, sparse = folder / "plan.yaml", folder / "sparse.yaml"
    answer = run(*DENSE, "--runtime", "megatron-lm", "--save", str(plan), "--format", "json")
    run(*SPARSE, "--runtime", "megatron-lm", "--save", str(sparse))
    searched = run("search", "llama3-8b", *JOB, "--runtime", "fsdp", "--top", "2", "--format", "json")
    known = {
        "estimate.json": answer.out,
        "search.json": searched.out,
        "grid.yaml": GRID,
        "all_reduce_perf.log": NCCL,
    }
    for name, text in known.items():
        (folder / name).write_text(text, encoding="utf-8")
    one, other = ("estimate", "--from", FOLLOW, "--hardware", "dgx-h100"), ("--gpus", "8")
    times = ("--checkpoint-time", "30s", "--restart-time", "10min")
    plans = (
        *(("explain", FOLLOW), ("compare", FOLLOW, "--hardware", "dgx-h200"), ("goodput", FOLLOW, *times)),
        *(("emit", FOLLOW, "--out", "OUT"), ("report", FOLLOW, "--out", "OUT.html"), ("simulate", FOLLOW)),
    )
    pages = (("report", FOLLOW, "--out", "OUT.html"),)
    seeds = [
        Seed(plan, plans),
        Seed(sparse, plans),
        Seed(folder / "search.json", pages),
        Seed(folder / "grid.yaml", (("sweep", FOLLOW, "--out", "OUT.jsonl", "--jobs", "1"),)),
        Seed(
            folder / "all_reduce_perf.log",
            (("hardware", "import", FOLLOW, "--base", "dgx-h100", "--out", "OUT.yaml"),),
        ),
        Seed(
            ROOT / "models_zoo" / "llama3-8b.yaml", (("models", "show", FOLLOW), ("estimate", FOLLOW, *JOB))
        ),
        Seed(ROOT / "models_zoo" / "deepseek-v3.yaml", (("models", "show", FOLLOW),)),
        Seed(
            _table(folder),
            (("validate", FOLLOW), ("calibrate", FOLLOW, "--hardware", "dgx-h100", "--out", "OUT.yaml")),
        ),
        Seed(
            ROOT / "hardware_profiles" / "dgx-h100.yaml",
            (("hardware", "show", FOLLOW), ("estimate", "llama3-8b", "--gpus", "8", "--hardware", FOLLOW)),
        ),
        Seed(_config(folder), (("models", "import", FOLLOW), ("estimate", FOLLOW, *JOB))),
    ]
    seeds += [Seed(path, commands) for path, commands in others(folder, run)]
    for runtime in RUNTIMES:
        out, kept = folder / runtime, folder / f"{runtime}.yaml"
        run(*DENSE[:-2], "--runtime", runtime, "--save", str(kept))
        run("emit", str(kept), "--out", str(out), "--unfit")
        seeds += [
            Seed(path, (one, (*one, *other)))
            for path in sorted(out.rglob("*"))
            if path.suffix in (".sh", ".py", ".yaml", ".json", ".toml")
            and path.name not in ("plan.yaml", "config.json")
        ]
    return seeds


def _table(folder: Path) -> Path:
    """Write a table of a few measured runs."""
    path = folder / "bridge.csv"
    whole = (ROOT / "tests" / "measured" / "runs" / "bridge.csv").read_text(encoding="utf-8")
    path.write_text("\n".join(whole.splitlines()[:5]) + "\n", encoding="utf-8")
    return path


def _config(folder: Path) -> Path:
    """Write a config.json of a small Llama."""
    path = folder / "config.json"
    path.write_text(
        '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, '
        '"intermediate_size": 5632, "num_attention_heads": 32, "num_hidden_layers": 22, '
        '"num_key_value_heads": 4, '
        '"vocab_size": 32000, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false, '
        '"max_position_embeddings": 2048, "hidden_act": "silu", "torch_dtype": "bfloat16"}',
        encoding="utf-8",
    )
    return path
