"""Whether layers are compiled."""

from planner.techniques.settings.family import Setting

ENTRY = Setting(
    name="compiled",
    about="whether a compiler fuses what lies between the products of a layer (torch.compile)",
    cite="https://arxiv.org/abs/2410.06511, sec. 3.3",
    values={"false": {"compiled": False}, "true": {"compiled": True}},
    evidence={"true": "torchtitan's runs with and without it, on 8 to 512 H100"},
    aliases=("compile",),
)
