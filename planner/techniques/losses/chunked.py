"""torchtitan's: compiled, a part of the tokens after another, whose gradients are gathered in fp32."""

from planner.techniques.losses.family import Loss

ENTRY = Loss(
    name="chunked",
    cite="torchtitan b5bcd76c: torchtitan/components/loss.py, ChunkedLossWrapper, GradAccumulator and "
    "_maybe_compile, which its file has compiled",
    logit_bytes=6.0,
    traffic=6.0,
    split_bytes=4.0,
)
