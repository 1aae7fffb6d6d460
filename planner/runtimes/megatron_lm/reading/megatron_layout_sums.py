"""What Megatron-LM checks of layers over stages: divisors, ends of their own, and layouts.

Read in Megatron-LM d98e8a64: megatron/training/arguments.py, ``validate_args``; megatron/core/transformer/
transformer_config.py, ``__post_init__``; pipeline_parallel_layer_layout.py, ``validate_layer_layout``.
"""

from __future__ import annotations

from typing import Final

from planner.plan import prediction_stage
from planner.runtimes.imports.sheet import Sheet
from planner.runtimes.imports.sums import number_of
from planner.runtimes.megatron_lm.layout import layout_stages
from planner.runtimes.megatron_lm.reading.megatron_hybrid import PATTERNS
from planner.units import is_whole

LAYOUT: Final = "--pipeline-model-parallel-layout"
PER_STAGE: Final = "--num-layers-per-virtual-pipeline-stage"
CHUNKS: Final = "--num-virtual-stages-per-pipeline-rank"
FIRST: Final = "--decoder-first-pipeline-num-layers"
LAST: Final = "--decoder-last-pipeline-num-layers"
PARTITION: Final = "--pp-partition-method"
WITH_ENDS: Final = "type:transformer|embedding"
"""Megatron-DeepSpeed's partition that counts embedding and head as layers."""

COUNTED: Final = ("--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split")
GROUP: Final = "--microbatch-group-size-per-virtual-pipeline-stage"


def layer_sums(sheet: Sheet, layers: int | None) -> None:
    """Check how the model's layers, None where they are not known, are cut into stages."""
    pp = number_of(sheet, "--pipeline-model-parallel-size") or 1
    given = [key for key in (PER_STAGE, CHUNKS, LAYOUT) if sheet.values.get(key) is not None]
    if len(given) > 1:
        sheet.fault(given[0], f"with {given[1]}", "one of them")
        return
    ends = [key for key in (FIRST, LAST) if sheet.values.get(key) is not None]
    counted = [key for key in COUNTED if sheet.values.get(key) is not None]
    if ends and (counted or LAYOUT in given):
        sheet.fault(ends[0], f"with {(counted or [LAYOUT])[0]}", "one of them")
    elif counted and LAYOUT in given:
        sheet.fault(counted[0], f"with {LAYOUT}", "one of them")
    elif LAYOUT in given:
        _layout(sheet, layers, pp)
    elif layers is not None and not any("|" in str(sheet.values.get(key)) for key in PATTERNS):
        ends_count = str(sheet.values.get(PARTITION)) == WITH_ENDS
        _divided(sheet, layers, pp, 2 if ends_count else len(counted))
    _interleaved(sheet, pp, bool(given))


def _divided(sheet: Sheet, layers: int, pp: int, counted: int) -> None:
    """Check that layers divide over stages and virtual stages."""
    said = [count for count in (number_of(sheet, key) for key in (FIRST, LAST)) if count is not None]
    for key in (FIRST, LAST):
        if (count := number_of(sheet, key)) is not None and count < 1:
            sheet.fault(key, str(count), "1 or more")
            return
    rest, middle = layers + counted - sum(said), pp - len(said)
    if rest < 0 or middle < 0 or (middle and rest % middle) or (not middle and rest) or (middle and not rest):
        expected = f"stages that divide {rest} layers, or a layout"
        sheet.fault("--pipeline-model-parallel-size", str(pp), expected)
        return
    share = rest // middle if middle else 0
    size, count = number_of(sheet, PER_STAGE), number_of(sheet, CHUNKS)
    if size is not None and (said or size < 1 or share % size):
        sheet.fault(PER_STAGE, str(size), "a divisor of the layers of a stage, without first or last stages")
    if count is not None and (count < 1 or any(part % count for part in (share, *said))):
        sheet.fault(CHUNKS, str(count), "a divisor of the layers of every stage")


def _interleaved(sheet: Sheet, pp: int, given: bool) -> None:
    """Check what virtual stages need of the pipeline and its messages."""
    chunks, size = sheet.options.get("vpp"), number_of(sheet, PER_STAGE)
    several = chunks is not None and chunks != "1"
    if pp == 1 and (several or size or (number_of(sheet, CHUNKS) or 1) > 1):
        key = next(key for key in (PER_STAGE, CHUNKS, LAYOUT) if sheet.values.get(key) is not None)
        sheet.fault(key, "without pipeline stages", "--pipeline-model-parallel-size 2 or more")
    group, batch = number_of(sheet, GROUP), number_of(sheet, "--global-batch-size")
    model = [sheet.options.get(name, "1") for name in ("tp", "pp", "cp", "micro_batch")]
    gpus = sheet.options.get("gpus", "")
    if several and group is not None and batch and is_whole(gpus) and all(is_whole(one) for one in model):
        tp, _, cp, micro = map(int, model)
        passes = batch * tp * pp * cp // max(1, micro * int(gpus))
        if group < pp or group > passes or 0 < passes % group < pp:
            expected = f"rounds of pp ({pp}) to all {passes} micro-batches, none of them shorter than pp"
            sheet.fault(GROUP, str(group), expected)
    if pp == 2 and given and several and sheet.values.get("--no-overlap-p2p-communication") is not None:
        sheet.fault("--no-overlap-p2p-communication", "with virtual stages on 2 ranks", "3 stages or more")


def _layout(sheet: Sheet, layers: int | None, pp: int) -> None:
    """Check the letters of a layout, stage by stage."""
    stages = layout_stages(str(sheet.values[LAYOUT]))
    letters, wanted = "".join(stages), number_of(sheet, "--mtp-num-layers") or 0
    split = [stage.count("t") for stage in stages]
    holds = [at for at, stage in enumerate(stages) if "m" in stage]
    foreign = sorted(set(letters) - set("EtmL"))
    chunks = len(stages) // pp if pp > 0 else 0
    checks = [
        (bool(foreign), f"the letters {' '.join(foreign)}", "E, t, m, L and | between stages"),
        (pp < 1 or len(stages) % max(pp, 1) != 0, f"{len(stages)} stages", f"a multiple of {pp} ranks"),
        (letters[:1] != "E" or letters.count("E") != 1, "no one E in front", "E first, and once"),
        (letters[-1:] != "L" or letters.count("L") != 1, "no one L at the end", "L last, and once"),
        (layers is not None and sum(split) != layers, f"{sum(split)} layers (t)", f"{layers} layers"),
        (letters.count("m") != wanted, f"{letters.count('m')} prediction layers (m)", f"{wanted}"),
        ("t" in letters.partition("m")[2], "layers (t) after prediction layers", "m behind every t"),
        (len(holds) > 1, "prediction layers in several stages", "all m in one stage"),
        (
            bool(holds) and holds[0] // max(pp, 1) != chunks - 1,
            "m in an early chunk",
            "m in a rank's last chunk",
        ),
    ]
    for broken, found, expected in checks:
        if broken:
            sheet.fault(LAYOUT, found, expected)
            return
    if holds and holds[0] not in {prediction_stage(split, True, apart) for apart in (False, True)}:
        expected = "a price: m beside L, or in the stage before an L alone"
        sheet.fault(LAYOUT, f"m in stage {holds[0] + 1} of {len(stages)}, which has none", expected)
