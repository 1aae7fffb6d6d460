"""In how many tiles a sequence passes through a dense feed-forward."""

from planner.techniques.settings.family import TILE_COUNTS, Setting, long_and_dense

ENTRY = Setting(
    name="mlp_tiles",
    aliases=("tiled_mlp",),
    about="tiles of a rank's tokens that pass through each dense feed-forward one after another, so that the "
    "inside of one is there at a time; its forward runs again in backward",
    cite="https://arxiv.org/abs/2506.13996, sec. 3.1, and DeepSpeed, "
    "runtime/sequence_parallel/ulysses_sp.py, TiledMLP",
    values={str(tiles): {"mlp_tiles": float(tiles)} for tiles in TILE_COUNTS},
    matters=long_and_dense,
)
