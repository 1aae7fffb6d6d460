"""Which ranks are neighbours: replicas of a stage, or the stages of a pipeline."""

from planner.techniques.settings.family import Setting

ENTRY = Setting(
    name="rank_order",
    aliases=("use_tp_pp_dp_mapping",),
    about="whether replicas of a stage lie side by side and stages apart, or the stages of a pipeline side "
    "by side and its replicas apart, so that data parallelism is what crosses slow links",
    cite="https://github.com/NVIDIA/Megatron-LM/tree/d98e8a64ddf34856e74b24714e3bedb2f5a39553, "
    "megatron/training/initialize.py, use_tp_pp_dp_mapping",
    values={"data-inside": {"stages_inside": False}, "stages-inside": {"stages_inside": True}},
)
