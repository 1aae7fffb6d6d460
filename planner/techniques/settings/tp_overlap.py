"""Messages of tensor parallelism beside the products that they feed."""

from planner.techniques.settings.family import Setting

ENTRY = Setting(
    name="tp_overlap",
    about="whether messages of tensor parallelism run in parts beside the products that they feed "
    "(user buffers of Transformer Engine)",
    cite="https://github.com/NVIDIA/TransformerEngine/blob/v2.9/transformer_engine/pytorch/module/base.py, "
    "initialize_ub",
    values={"off": {"tp_exposed": 1.0}, "on": {"tp_exposed": 0.25}},
    evidence={"on": "recipes of Megatron-Bridge with tensor parallelism, all of which have it"},
)
