"""Layouts that Megatron-LM's continuous integration and Megatron-Bridge's recipes run break no rule.

Degrees alone, transcribed: ``legal_megatron_lm.csv`` from Megatron-LM d98e8a64, tests/functional_tests/
test_cases/CASE/model_config.yaml, ``legal_megatron_bridge.csv`` from Megatron-Bridge 067f987d,
src/megatron/bridge/perf_recipes/FILE.py. Whether they fit in memory is another question.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from planner.api import estimate_plan, load_hardware, load_model
from planner.cli.estimate import read
from planner.cli.from_file import asked_of
from planner.cli.options import JobOptions, PlanOptions
from planner.inputs.workload import Workload
from planner.runtimes.family import Job
from tests.cases import every
from tests.validate.megatron.plans import broken

DATA = Path(__file__).parent / "data"
SHAPE = "--ffn-hidden-size 4096 --swiglu --normalization RMSNorm --untie-embeddings-and-output-weights --bf16"
EXPERTS = (
    "--num-experts {} --moe-ffn-hidden-size 1024 --moe-grouped-gemm --moe-token-dispatcher-type alltoall"
)

Row = dict[str, str]


def rows(name: str) -> list[Row]:
    return list(csv.DictReader((DATA / name).read_text(encoding="utf-8").splitlines()))


model = cache(load_model)


def script(row: Row) -> str:
    degrees = {"tensor-model": "tp", "pipeline-model": "pp", "context": "cp", "expert-model": "ep"}
    numbers = {f"--{words}-parallel-size": row[name] for words, name in degrees.items()} | {
        "--num-layers": row["layers"],
        "--num-attention-heads": row["heads"],
        "--hidden-size": row["hidden"],
        "--seq-length": row["seq"],
        "--max-position-embeddings": row["seq"],
        "--micro-batch-size": row["micro"],
        "--global-batch-size": row["batch"],
        "--vocab-size": "50304",
    }
    numbers |= {"--expert-tensor-parallel-size": row["etp"]} if row["etp"] else {}
    flags = " ".join(f"{key} {value}" for key, value in numbers.items())
    experts = EXPERTS.format(row["experts"]) if row["experts"] else ""
    biased = "--disable-bias-linear" in row["more"] or not row["experts"]
    whole = f"{SHAPE} {experts} {'' if biased else '--expert-tensor-parallel-size 1'} {row['more']}"
    return f"torchrun --nnodes 1 --nproc-per-node {row['gpus']} pretrain_gpt.py {flags} {whole}\n"


@every("row", rows("legal_megatron_lm.csv"), ids=lambda row: row["case"])
def test_megatron_lm(row: Row, tmp_path: Path) -> None:
    path = tmp_path / "train.sh"
    path.write_text(script(row), encoding="utf-8")
    request = asked_of(path, JobOptions("", hardware=["gb300-nvl72"]), PlanOptions())
    job, plan, runtime, _, _ = request.read(read)
    assert broken(job, plan, runtime) == ()
    assert plan.gpus == int(row["gpus"])


@every("row", rows("legal_megatron_bridge.csv"), ids=lambda row: row["recipe"])
def test_megatron_bridge(row: Row) -> None:
    degrees = {name: int(row[name]) for name in ("tp", "pp", "vpp", "cp", "ep", "etp")}
    work = Workload(seq_len=int(row["seq"]), global_batch=int(row["batch"]), precision=row["precision"])
    job = Job(model(row["model"]), load_hardware(row["hardware"]), int(row["gpus"]), work)
    runs = [part.partition("x") for part in row["split"].split()]
    split = tuple(int(size) for size, _, count in runs for _ in range(int(count or 1)))
    known = estimate_plan(
        job,
        "megatron-bridge",
        **degrees,
        micro_batch=int(row["micro"]),
        sequence_parallel=row["sp"] == "yes",
        zero=int(row["zero"]),
        cp_method=row["cp_method"] or "ring",
        schedule="interleaved-1f1b" if degrees["vpp"] > 1 else "1f1b",
        stage_layers=split or None,
    )
    assert known.violations == ()
