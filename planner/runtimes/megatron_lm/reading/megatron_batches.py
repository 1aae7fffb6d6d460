"""Batches of Megatron-LM that grow in a training."""

from __future__ import annotations

import re

from planner.runtimes.imports.sheet import Sheet


def last_batch(sheet: Sheet) -> int | None:
    """Return the global batch that a schedule such as ``0:768 250B:1536`` ends with, and note it.

    ``StepBatchsizeNumMicroBatchesCalculator`` of Megatron-core's num_microbatches_calculator.py.
    """
    key, scales = "--step-batch-size-schedule", {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
    pairs: list[tuple[float, int]] = []
    for entry in str(sheet.values[key]).replace(",", " ").split():
        match = re.fullmatch(r"([\d.]{1,18})([KMBT]?):(\d{1,9})", entry.upper())
        if match is None or match[1].count(".") > 1:
            sheet.fault(key, repr(entry[:60]), "THRESHOLD:BATCH, such as 0:768 250B:1536")
            return None
        pairs.append((float(match[1]) * scales.get(match[2], 1), int(match[3])))
    batch = max(pairs)[1] if pairs else None
    sheet.notes.append(f"{key}: priced at its last batch, {batch} sequences")
    return batch
