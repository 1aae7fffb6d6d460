"""The accuracy page in Markdown: tables by source, accelerator, runtime, model family and precision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from textwrap import fill
from typing import Any, Final

from planner.calibrate.constants import Key
from planner.calibrate.runs.defaults import without_row
from planner.calibrate.scores import GROUP_KEYS
from planner.calibrate.sites.fit import COVERED
from planner.calibrate.validate import Outcome
from planner.inputs.bands import RELEASE_RUNS, RELEASE_SITES, TENSOR_ERROR, UNSEEN_WIDER
from planner.inputs.fitted import Constant, all_constants, fitted_file
from planner.inputs.measured_bands import measured_bands, release_bands
from planner.inputs.yaml_file import read_yaml
from planner.units import percent
from tests.lab.accuracy.lines import KINDS, LINES_OF, Accuracy, Left, Line, error_of
from tests.lab.accuracy.risk import ABOUT, HEAD, risk_cells

WORST: Final = 10
"""Rows with the largest errors that the page lists. [-]"""
EACH: Final = 1
"""Of them, rows of one source and model. [-]"""
WIDTH: Final = 105
"""Characters of a line of prose. [-]"""

REMARKS: Final[Mapping[str, str]] = {
    "internevo": "ZeRO-1 alone on up to 1,024 ranks: how much of its reductions hides behind the "
    "backward pass is not fitted, and steps of few micro-batches take longer than those of many say",
    "megatron-sc21": "DeepSpeed's ZeRO-3 on 384 to 2,240 ranks: one rate of its collectives stands for all, "
    "too slow on the fewest and too fast on the most",
    "deepspeed-azure-2022": "ZeRO-3 on 1,024 ranks: how far the prefetched weights hide is not fitted",
    "megatron-bridge": "a mixture of experts: fused dispatch, its overlap and the host's work differ "
    "from one recipe to the next and are not in the table",
    "distflashattn": "other codes than the paper's own, Megatron-LM and DeepSpeed-Ulysses, whose layout it "
    "does not print",
    "dlperf-v100": "tensor parallelism across nodes of another site, whose network is not stated",
    "vtrain-single": "one of the table's 32 times for a layer that contradicts its neighbours, in every "
    "row that uses it",
    "litgpt-thunder": "unsharded runs are told by the host's clock over the last of 16 or 128 micro-batches, "
    "with what it had queued before; compilers fuse more, or less, than the one trait says",
    "torchtitan-nvfp4": "4-bit products of a preview: their rates are extrapolated",
    "torchtitan-asynctp-202506": "float8 with a scale for each row, which the table tells in its notes alone",
    "colossalai-readme": "the layout and the network are not stated in full; data-parallel costs are "
    "those of another code",
    "megatron-llama": "the network's rate and overlap are that code's own",
    "deepspeed-zeropp": "the site's network is varied on purpose, and messages are quantised",
    "bigscience-bloom-prequel": "repeats of the same layout differ by 3-11% there",
    "llm-foundry-mpt": "8,192 tokens of a 30B model, slow in two campaigns: the allocator may free blocks "
    "and ask for them again, but fuller devices of other rows do not",
    "bridge-ablations": "recompute and offload of single modules, whose memory the runtime frees in "
    "its own order",
}
"""What is probably wrong with the rows of a source that stand among the worst."""

Cells = Sequence[tuple[str, Callable[[Line], str]]]


def number(value: float | None) -> str:
    """Return a rank with two decimals, a dash where unknown."""
    return "-" if value is None else f"{value:.2f}"


def called(line: Line) -> str:
    """Return how many calls of fit or out of memory were right, where a row ran out or was thought to."""
    counts = line.outcomes
    if not counts["true_positive"] + counts["false_positive"] + counts["false_negative"]:
        total = counts["true_negative"]
        return f"all {total} fit" if total else "-"
    text = f"{percent(line.right)} of {sum(counts.values())}"
    return f"{text} ({counts['false_negative']} missed, {counts['false_positive']} false OOM)"


def memory(line: Line) -> str:
    """Return the error of peak memory and its rows."""
    return f"{percent(line.memory_error)} ({line.memory_rows})" if line.memory_rows else "-"


SCORES: Final[Cells] = (
    ("rows", lambda line: str(line.rows)),
    ("timed", lambda line: str(line.timed)),
    ("error", lambda line: percent(line.error)),
    ("bias", lambda line: percent(line.bias, signed=True)),
    ("p90", lambda line: percent(line.p90)),
    ("rule of thumb", lambda line: percent(line.naive)),
    ("rank in groups", lambda line: number(line.rank)),
    ("regret", lambda line: percent(line.regret)),
    ("picks out of memory", lambda line: str(line.picks_oom)),
    ("memory error (rows)", memory),
    ("fit or not", called),
)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [list(head), ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def scores_table(kind: str, lines: Sequence[Line], cells: Cells = SCORES) -> str:
    """Return the scores of lines as a table."""
    return table([kind, *(head for head, _ in cells)], [_scores_row(line, cells) for line in lines])


def _scores_row(line: Line, cells: Cells) -> list[str]:
    return [line.name, *(text(line) for _, text in cells)]


def source_table(found: Accuracy) -> str:
    """Return the table of sources, with the errors out of fold where they were asked for."""
    outside = {HEADS[fold]: found.fold_errors(fold) for fold in found.folds if LINES_OF[fold] == "source"}
    cells = list(SCORES)
    extra: list[tuple[str, Callable[[Line], str]]] = [
        ("rank of source", lambda line: number(line.source_rank))
    ]
    extra += [(head, _looked_up(errors)) for head, errors in outside.items()]
    return scores_table("source", found.lines("source"), [*cells[:6], *extra, *cells[6:]])


def kind_table(found: Accuracy, kind: str) -> str:
    """Return the table of another key, with the errors out of fold that were asked for."""
    own = [fold for fold in found.folds if LINES_OF[fold] == kind]
    extra = [(HEADS[fold], _looked_up(found.fold_errors(fold))) for fold in own]
    about = "".join(f"{FOLDS[fold]}\n" for fold in own)
    return about + scores_table(kind, found.lines(kind), [*SCORES[:6], *extra, *SCORES[6:]])


def _looked_up(errors: Mapping[str, float | None]) -> Callable[[Line], str]:
    return lambda line: percent(errors.get(line.name))


def constants_table(constants: Sequence[Constant], errors: Mapping[Key, float]) -> str:
    """Return every fitted constant with what it stands for."""
    rows = [
        [
            f"{entry.scope} `{entry.owner}`",
            f"`{entry.name}`",
            entry.meaning,
            f"{entry.value:.4g}",
            percent(entry.standard_error),
            str(entry.rows),
            percent(errors.get((entry.scope, entry.owner, entry.name))),
            percent(entry.without),
        ]
        for entry in constants
    ]
    return table(
        ["belongs to", "name", "meaning", "value", "standard error", "runs", "error", "error without"], rows
    )


def bands_table() -> str:
    """Return the error bands by runtime and accelerator, and how well they hold."""
    path = fitted_file("bands")
    if not path.is_file():
        return ""
    content: dict[str, Any] = read_yaml(path)
    rows = [
        [band.runtime, band.accelerator, band.regime or "-", str(band.runs), str(band.sites),
         percent(band.mean_error), f"± {percent(band.band)}",
         percent(band.calibrated_mean_error),
         "-" if band.calibrated_band is None else f"± {percent(band.calibrated_band)}",
         percent(band.extrapolated), percent(band.tensor)]
        for band in measured_bands().values()
    ]  # fmt: skip
    head = ["runtime", "accelerator", "regime", "runs", "sites", "mean error", "band",
            "mean error, calibrated", "band, calibrated", "extrapolated", "waits"]  # fmt: skip
    held = content.get("coverage", {})
    lent = content.get("lent_curves", {})
    told = [
        f"Inside the band that the other sites alone give are {percent(entry['inside'])} of the runs of the "
        f"mean site, of {entry['sites']} sites with others ({COVERAGE[name]}). Over {entry['all_sites']} "
        f"sites the mean error is {percent(entry['mean_error'])}, and 90% of runs of the mean site are "
        f"within {percent(entry['p90_error'])}."
        for name, entry in held.items()
    ]
    if lent:
        told.append(
            f"Kernels whose accelerator borrows its curves are off by {percent(lent['mean_error'])} in the "
            f"mean, and 90% by less than {percent(lent['p90_error'])}: {lent['pairs']} pairs of "
            "accelerators that have curves of their own, one priced with those of the other."
        )
    told.append(releases_told())
    return "\n".join((table(head, rows), *(f"\n{fill(line, WIDTH)}" for line in told)))


def releases_told() -> str:
    """Return in words which releases have bands of their own, what others get, and how well that holds."""
    own = ", ".join(
        f"{band.era} on {band.accelerator} ± {percent(band.band)}"
        for band in release_bands().values()
        if band.runs >= RELEASE_RUNS and band.sites >= RELEASE_SITES
    )
    held = read_yaml(fitted_file("release_bands"))["inside"]
    inside, one = percent(held["by_release"]), percent(held["one_band"])
    return (
        f"What an era with {RELEASE_RUNS} runs at {RELEASE_SITES} sites is off by counts beside its table's: "
        f"{own or 'none has'}. Its band is the root of the product of both where its own is narrower. "
        "One with fewer has the wider one of its own and that of the table. Where no run is of the release "
        f"that is asked for, the table's is {UNSEEN_WIDER:g} times as wide, and once more where none of the "
        f"core and chip has one of its settings. A step that waits more for tensor parallelism than the mean "
        f"of the runs has {TENSOR_ERROR:.0%} of what is more beside it, as independent of the rest. "
        f"So {inside} of the runs of an era are inside what the other "
        f"sites alone give it, the mean of {held['eras']} eras; with one band for all {one}. "
        f"{sources_told(held)}"
    )


def sources_told(held: Mapping[str, Any]) -> str:
    """Return in words of which sources fewer than 90% of runs are inside what the others give them."""
    shares: Mapping[str, float] = held["by_source"]
    short = ", ".join(f"{name} {share:.0%}" for name, share in sorted(shares.items(), key=lambda one: one[1])
                      if share < COVERED)  # fmt: skip
    rest = sum(share >= COVERED for share in shares.values())
    return f"By source, of {len(shares)} with others: 90% and more in {rest}; fewer of {short}."


COVERAGE: Final = {"elsewhere": "never calibrated", "calibrated": "calibrated with one run"}


def worst_table(outcomes: Sequence[Outcome]) -> str:
    """Return the worst rows and what is probably wrong with them."""
    rows = []
    for outcome in outcomes:
        row = outcome.scored
        key = dict(zip(GROUP_KEYS, row.key, strict=True))
        rows.append(
            [f"{row.id} ({row.source})", f"{key['model']} on {key['num_gpus']} {key['gpu']}",
             f"{row.measured_s:.4g}", f"{row.predicted_s:.4g}", percent(error_of(row), signed=True),
             REMARKS.get(row.source, "not looked into")]
        )  # fmt: skip
    head = ["row", "model", "measured s", "predicted s", "error", "what is probably wrong"]
    return table(head, rows)


def skipped_table(found: Accuracy) -> str:
    """Return why rows could not be priced."""
    reasons = Counter(_reason(skip.reason) for skip in found.skipped)
    return table(["rows", "reason"], [[str(count), reason] for reason, count in reasons.most_common()])


def _reason(text: str) -> str:
    """Return a reason without the row's number and, where a column clashes, without its values."""
    plain = without_row(text)
    if not plain.startswith("column "):
        return plain
    column = plain.removeprefix("column ").split(":", 1)[0]
    value = plain.split("found ", 1)[-1].split(";", 1)[0]
    return f"column {column}: blank" if value.startswith("blank") else f"column {column}: {value}"


def page(found: Accuracy, plot: str = "") -> str:
    """Return the whole page."""
    timed = [outcome for outcome in found.ordinary if outcome.scored.timed]
    parts = [
        INTRODUCTION.format(
            rows=found.rows,
            folded="\n--out-of-fold " + " ".join(found.folds) if found.folds else "",
            priced=len(found.outcomes),
            timed=len(timed),
            marked=len(found.outcomes) - len(found.ordinary),
        ),
        f"![Predicted against measured seconds per step, dashed: 10% away]({plot})\n" if plot else "",
        "## By source\n",
        *(FOLDS[fold] for fold in found.folds if LINES_OF[fold] == "source"),
        source_table(found),
        *(
            f"## By {kind}\n\n{kind_table(found, kind)}"
            for kind in KINDS
            if kind != "source"
        ),
        f"## Chance of running out of memory\n\n{ABOUT}",
        table(HEAD, risk_cells(found.ordinary)),
        "## Rows scored apart\n",
        "They contradict themselves, are mislabelled, or belong to an odd campaign.\n",
        scores_table("source: mark", found.marked(), SCORES[:5]),
        f"## Worst rows\n\n{'One' if EACH == 1 else EACH} of each source and model.\n",
        worst_table(found.worst(WORST, EACH)),
        "## Fitted constants\n",
        CONSTANTS,
        constants_table(all_constants(), found.group_errors),
        "## Error bands\n",
        BANDS,
        bands_table(),
        "## Rows that cannot be priced\n",
        skipped_table(found),
    ]  # fmt: skip
    return "\n".join(part for part in parts if part)


INTRODUCTION: Final = """# Accuracy

Predicted against measured, for public training runs: {rows} rows, of which {priced} can be priced; {timed}
have a time and no mark, {marked} are marked and scored apart. The sources are listed in
`tests/measured/runs/README.md`, where an extract of the tables lies; other sources are named as in their own
tables.

This page is made by `python -m tests.lab.accuracy RUNS_DIR --plot docs/accuracy.svg{folded}`;
`make bench` prints the first tables for the extract, or for the folder in the variable `RUNS_DIR`.

- **error**: mean of |predicted / measured - 1| of seconds per step; **bias** is the mean with its sign,
  **p90** what 90% of rows stay below. The prices are those that ship: their constants are fitted
  to these runs.
- **rule of thumb**: the same mean for 55% of the dense peak, a third more for full recompute, and the
  bubble.
- **rank in groups**: mean rank correlation in groups of three and more comparable rows; **rank of
  source**: of tokens per second and accelerator over all its rows.
- **regret**: how much slower the row predicted fastest (among those predicted to fit) was than the
  fastest of its group.
- **memory error**: of peak memory by the counter that the row names; where it names none, of what the
  device uses.
- **fit or not**: calls that were right; *missed* ran out of memory and was said to fit, *false OOM* the
  other way round.
"""

HEADS: Final[Mapping[Left, str]] = {
    "source": "error without this source",
    "model": "error, each model left out",
    "accelerator": "error without this accelerator",
    "family": "error without this family",
}
"""How the error is called where something is left out."""

FOLDS: Final[Mapping[Left, str]] = {
    "source": "*Error without this source* prices a source with constants that are fitted to the others\n"
    "alone; its own site is then unknown, and codes that nobody else has run keep the starts of\n"
    "their factors.\n",
    "model": "*Error, each model left out* prices each model with constants that are fitted to the others.\n",
    "accelerator": "*Error without this accelerator* prices one with constants fitted to the others:\n"
    "its kernels are known, and the share of them that training reaches is that of its kin. Codes that\n"
    "were run on it alone keep the starts of their factors.\n",
    "family": "*Error without this family* prices its models with constants that are fitted to the others.\n",
}

CONSTANTS: Final = """Each is a property of an accelerator, a runtime, its era or a site. *Standard error*
is that of the logarithm. *Error* is that of step time out of group, of memory where the constant is one of
memory, and of runs that may have run out the mean chance given to what did not happen: each of these runs
priced with constants fitted without its group; *error without* is the same, over the same two folds, where
this constant keeps its plain value.
"""

BANDS: Final = """What an estimate prints as its error band, where no runs of the user's own say it better:
90% of runs of that runtime and accelerator stay below, times the root of 1 + 1/*sites*, for a site that
is none of them. Each source of runs counts as a site and is priced with constants that are fitted to the
others alone (*band*); the same where one other run of the source has been given to `planner calibrate`
(*band, calibrated*). *Extrapolated* is the mean share of their steps
outside the fitted range of kernel curves, *waits* the one in which they wait for messages of tensor
parallelism: a step with more of either has a wider band. *Regime*: `host` where
steps wait for their host for more than a quarter of their time, `crowded` on four nodes and more of a
network whose rate falls with their number.
"""
