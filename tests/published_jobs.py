"""Published training jobs beside what the planner makes of them; rewrites the tables of the document.

``python -m tests.published_jobs`` prices each published layout, searches for a plan of the same job, and puts
both into ``docs/published-jobs.md``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from tests.cli.command import planner
from tests.helpers import ROOT

DOCUMENT: Final = ROOT / "docs" / "published-jobs.md"
START, END = "<!-- tables: python -m tests.published_jobs -->", "<!-- end of tables -->"
PUBLISHED_FOR: Final = "megatron-bridge"
RUNTIMES: Final = (PUBLISHED_FOR, "megatron-lm")
TITLES: Final = {"megatron-bridge": "Megatron-Bridge", "megatron-lm": "Megatron-LM"}


@dataclass(frozen=True)
class Published:
    """One row of Megatron-Bridge's performance summary, DGX H100, fp8 with per-tensor current scaling.

    Parameters
    ----------
    model : str
        Its name in the zoo.
    gpus, seq_len, global_batch : int
        The job.
    layout : tuple of str
        The published layout, as options of ``estimate``.
    settings : tuple of str
        Traits of the software that ran it, for ``estimate`` and ``search`` alike.
    measured : float
        Seconds of a step, from the tokens per second that the table states.
    row : str
        Where in the table.
    """

    model: str
    gpus: int
    seq_len: int
    global_batch: int
    layout: tuple[str, ...]
    measured: float
    row: str
    settings: tuple[str, ...] = ()

    @property
    def job(self) -> tuple[str, ...]:
        """Model, cluster and workload as arguments of the command line."""
        sizes = {"gpus": self.gpus, "seq-len": self.seq_len, "global-batch": self.global_batch}
        options = [part for name, size in sizes.items() for part in (f"--{name}", str(size))]
        return (self.model, "--hardware", "dgx-h100", *options, "--precision", "fp8", *self.settings)


def options(text: str) -> tuple[str, ...]:
    """Return the words of a command line."""
    return tuple(text.split())


RECIPE: Final = options("--set reduce_dtype=bf16 --set message_multiprocessors=0")
"""The performance recipes reduce gradients in bf16 and tune the buffers of tensor-parallel messages."""

JOBS: Final = (
    Published(
        "llama3-8b", 8, 8192, 128, options("--zero 3 --recompute full:5"), 9.0701,
        "container 25.11, pre-training LLAMA3_8B, DGX-H100", RECIPE,
    ),
    Published(
        "llama3-70b", 64, 8192, 256, options("--tp 4 --pp 8 --vpp 5 --sequence-parallel --zero 1"), 19.6923,
        "container 26.04.01, pre-training LLAMA3_70B, DGX-H100", RECIPE,
    ),
    Published(
        "deepseek-v3", 1024, 4096, 8192,
        options(
            "--tp 2 --pp 8 --vpp 4 --ep 64 --etp 1 --sequence-parallel --zero 1"
            " --recompute selective:mla_up_proj+mlp"
        ),
        25.2645, "container 25.09, pre-training DeepSeekV3 (dropless), DGX-H100",
        (*RECIPE, *options("--set dispatcher=fused --set overlaps_experts=true")),
    ),
    Published(
        "qwen3-30b-a3b", 16, 4096, 1024, options("--ep 16 --zero 1"), 29.2571,
        "container 26.04.01, pre-training Qwen3_30B_a3B, DGX-H100",
        (*RECIPE, *options("--set dispatcher=fused")),
    ),
)  # fmt: skip


def priced(job: Published) -> dict[str, Any]:
    """Return the estimate of a published layout."""
    arguments = ("estimate", *job.job, *job.layout, "--runtime", PUBLISHED_FOR, "--format", "json")
    answer: dict[str, Any] = planner(*arguments).json
    return answer


def found(job: Published, runtime: str) -> dict[str, Any]:
    """Return the best plan that the search finds for a published job."""
    arguments = ("search", *job.job, "--runtime", runtime, "--top", "1", "--quiet", "--format", "json")
    answer: dict[str, Any] = planner(*arguments).json["plans"][0]
    return answer


def layout(plan: dict[str, Any]) -> str:
    """Return a plan in short words."""
    degrees = [f"{name}{plan[name]}" for name in ("tp", "pp", "vpp", "cp", "ep", "etp") if plan[name] > 1]
    words = [*degrees, f"dp{plan['dp']}", f"mb{plan['micro_batch']}", f"zero{plan['zero']}"]
    words += ["sp"] * plan["sequence_parallel"]
    words += [plan["recompute"]] if plan["recompute"] != "none" else []
    return " ".join(words)


def line(name: str, answer: dict[str, Any], measured: str = "") -> str:
    """Return one line of a table."""
    time, memory = answer["time_s"], answer["memory"]
    sent = sum(time[f"{kind}_comm"] for kind in ("tp", "cp", "ep", "pp", "dp"))
    cells = (
        name, f"`{layout(answer['plan'])}`", measured, f"{answer['step_time_s']:.2f}",
        f"{time['compute']:.2f}", f"{sent:.2f}", f"{time['bubble']:.2f}", f"{memory['peak_gib']:.0f}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def table(job: Published) -> str:
    """Return the section of one job."""
    published = priced(job)
    off = published["step_time_s"] / job.measured - 1
    heads = ("layout of", "plan", "measured s", "priced s", "compute", "messages", "bubble", "GiB")
    lines = [
        f"### {job.model} on {job.gpus:,} H100",
        "",
        f"{job.global_batch:,} sequences of {job.seq_len:,} tokens; {job.row}. "
        f"The price of the published layout is off by {off:+.0%}.",
        "",
        f"| {' | '.join(heads)} |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        line("the authors", published, f"{job.measured:.2f}"),
        *(line(f"search, {TITLES[runtime]}", found(job, runtime)) for runtime in RUNTIMES),
    ]
    return "\n".join(lines)


def main() -> None:
    """Rewrite the tables of the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    tables = "\n\n".join(table(job) for job in JOBS)
    pattern = f"{re.escape(START)}.*{re.escape(END)}"
    fresh = re.sub(pattern, lambda _: f"{START}\n\n{tables}\n\n{END}", text, flags=re.DOTALL)
    DOCUMENT.write_text(fresh, encoding="utf-8")


if __name__ == "__main__":
    main()
