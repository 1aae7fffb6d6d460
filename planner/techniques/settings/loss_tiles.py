"""In how many tiles a long sequence passes through head and loss, forward again in backward."""

from planner.techniques.settings.family import TILE_COUNTS, Setting, long_sequences

ENTRY = Setting(
    name="loss_tiles",
    aliases=("tiled_loss",),
    about="tiles of a rank's tokens that pass through head and loss one after another, so that the logits of "
    "one are there at a time; their forward runs again in backward",
    cite="https://arxiv.org/abs/2506.13996, sec. 3.1, and DeepSpeed, "
    "runtime/sequence_parallel/ulysses_sp.py, sequence_tiled_compute",
    values={str(tiles): {"loss_chunks": float(tiles)} for tiles in TILE_COUNTS},
    matters=long_sequences,
)
