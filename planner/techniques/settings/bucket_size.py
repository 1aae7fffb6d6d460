"""How many gradients ZeRO reduces at once, and below ZeRO-3 weights gathers."""

from planner.techniques.settings.family import Setting

ENTRY = Setting(
    name="bucket_size",
    aliases=("reduce_bucket_size", "allgather_bucket_size"),
    about="elements of the flat buckets in which gradients are reduced and, below ZeRO-3, stepped weights "
    "gathered: smaller ones take less memory and more messages",
    cite="DeepSpeed 0.19.8, runtime/zero/config.py, reduce_bucket_size and allgather_bucket_size",
    values={name: {"bucket_elements": float(name)} for name in ("5e8", "2e8", "5e7")},
)
