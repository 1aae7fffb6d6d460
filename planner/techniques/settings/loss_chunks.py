"""In how many parts a micro-batch passes through head and loss."""

from planner.techniques.settings.family import Setting

ENTRY = Setting(
    name="loss_chunks",
    about="parts of a micro-batch that pass through head and loss one after another, so that the logits of "
    "one are there at a time",
    cite="https://github.com/pytorch/torchtitan, torchtitan/components/loss.py, ChunkedLossWrapper",
    values={str(parts): {"loss_chunks": float(parts)} for parts in (1, 2, 4, 16, 8)},
    evidence={"8": "torchtitan's runs of 2026, whose configurations all have it"},
)
