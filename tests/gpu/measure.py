"""Everything that is to be measured on a machine with a GPU, in order, within 25 minutes, into one folder.

Run as ``make measure-gpu``, or ``python -m tests.gpu.measure --out docs/measured``. Each part is a process
with a time of its own, so that one that fails or hangs takes nothing from the others; what was measured is
kept, and the same command goes on.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.gpu import page

STDERR = 2
"""Where parts tell what they do: the file itself, since a test may have put another object in its place."""

TINY_MODEL = """\
name: tiny
hidden: 128
vocab: 512
tied_embeddings: false
max_positions: 512
blocks:
  dense:
    mixer: {kind: attention, heads: 4, kv_heads: 2, head_dim: 32}
    ffn: {kind: dense, inner: 384}
layers: 2 dense
"""


@dataclass(frozen=True)
class Part:
    """One command, how long it may take, and the file that its output goes to.

    ``accepts`` are the exit codes of a part that did what it should: a check that finds a difference gives 1.
    """

    what: str
    command: tuple[str, ...]
    minutes: float
    into: str = ""
    accepts: tuple[int, ...] = (0,)


def parts(folder: Path, device: str, tiny: bool, scale: float) -> Iterator[Part]:
    """Yield the parts in order; ``scale`` shortens their times."""
    python, planner = (sys.executable, "-m"), (sys.executable, "-m", "planner")
    profile, plan = folder / "profile.yaml", folder / "plan.yaml"
    minutes = f"{5 * scale:g}"
    yield Part(
        "the profile",
        (*planner, "profile", "--device", device, "--minutes", minutes, "--out", str(profile)),
        6.0,
    )
    yield Part(
        "kernels that it has not seen",
        (
            *python, "tests.gpu.unseen", "--device", device, "--profile", str(profile),
            "--out", str(folder / "unseen.jsonl"), "--minutes", f"{2 * scale:g}",
        ),
        3.0,
    )  # fmt: skip
    yield Part(
        "training steps",
        (
            *python, "tests.gpu.train_step", "--device", device, "--hardware", str(profile),
            "--out", str(folder / "steps.jsonl"), "--minutes", f"{10 * scale:g}",
            *(["--tiny"] if tiny else []),
        ),
        12.0,
    )  # fmt: skip
    model, seq = ("llama3-8b", "2048") if not tiny else (str(folder / "tiny.yaml"), "128")
    job = (
        "--hardware",
        str(profile),
        "--gpus",
        "1",
        "--seq-len",
        seq,
        "--global-batch",
        "1",
        "--runtime",
        "fsdp",
    )
    yield Part(
        "a plan", (*planner, "estimate", model, *job, "--save", str(plan), "--force"), 1.0, accepts=(0, 1)
    )
    yield Part(
        "its kernels",
        (*planner, "check", str(plan), "--device", device, "--format", "json", "--tolerance", "0.1"),
        3.0,
        "check.json",
        (0, 1),
    )


def run(part: Part, folder: Path) -> str:
    """Run a part; return in one line what went wrong, empty where nothing did."""
    sys.stderr.write(f"{part.what}: {' '.join(part.command[2:])}\n")
    begin = time.monotonic()
    try:
        done = subprocess.run(
            part.command, timeout=60 * part.minutes, check=False,
            stdout=subprocess.PIPE if part.into else STDERR, text=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"{part.what}: stopped after {part.minutes:g} minutes; what was measured until then is kept"
    if part.into:
        (folder / part.into).write_text(done.stdout, encoding="utf-8")
    sys.stderr.write(f"{part.what}: {time.monotonic() - begin:.0f} s\n")
    return "" if done.returncode in part.accepts else f"{part.what}: ended with exit code {done.returncode}"


def product_of(device: str) -> str:
    """Return the product name of a device, asked in a process that leaves nothing on the device."""
    asks = "import sys; from planner.profile.device import open_device; print(open_device(sys.argv[1]).name)"
    done = subprocess.run(
        (sys.executable, "-c", asks, device), capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise SystemExit((done.stderr.splitlines() or ["the device does not open"])[-1])
    return done.stdout.strip()


def slug(product: str) -> str:
    """Return a product's name as a folder.

    Examples
    --------
    >>> slug("NVIDIA H100 80GB HBM3")
    'nvidia-h100-80gb-hbm3'
    """
    return "-".join("".join(c if c.isalnum() else " " for c in product.lower()).split())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all parts, write the page, and say what to commit."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.measure", description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("docs/measured"))
    parser.add_argument("--tiny", action="store_true", help="small cases, for a processor")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the usual time of each part")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        help="a word of the parts to run, where one session is too short",
    )
    options = parser.parse_args(arguments)
    folder = options.out / slug(product_of(options.device))
    folder.mkdir(parents=True, exist_ok=True)
    if options.tiny:
        (folder / "tiny.yaml").write_text(TINY_MODEL, encoding="utf-8")
    told = []
    for part in parts(folder, options.device, options.tiny, options.scale):
        if options.only and not any(word in part.what for word in options.only):
            continue
        if fault := run(part, folder):
            told.append(fault)
            sys.stderr.write(f"{fault}\n")
        page.write(folder, told)
    sys.stdout.write(f"{folder}: commit this folder\n")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
