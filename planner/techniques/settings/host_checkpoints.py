"""Where the inputs of recomputed layers wait for backward."""

from planner.techniques.settings.family import Setting, long_sequences

ENTRY = Setting(
    name="host_checkpoints",
    aliases=("cpu_checkpointing",),
    about="whether the inputs of layers that are recomputed whole wait in host memory for their backward: "
    "down beside the forward, up before each layer's backward",
    cite="https://arxiv.org/abs/2506.13996, sec. 3.3, and DeepSpeed edaa7221, "
    "runtime/activation_checkpointing/checkpointing.py, cpu_checkpointing",
    values={
        "false": {"host_checkpoints": False},
        "true": {"host_checkpoints": True},
    },
    matters=long_sequences,
)
