"""What the host launches as CUDA graphs."""

from planner.techniques.settings.family import Setting

ENTRY = Setting(
    name="cuda_graphs",
    about="what runs as CUDA graphs: nothing, each layer's router, its attention too, or all passes",
    cite="https://github.com/NVIDIA/Megatron-LM/tree/d98e8a64ddf34856e74b24714e3bedb2f5a39553, "
    "core/transformer/transformer_config.py, cuda_graph_impl and cuda_graph_modules",
    values={
        "none": {"graphed": ""},
        "router": {"graphed": "router"},
        "attention": {"graphed": "attention"},
        "passes": {"graphed": "passes"},
    },
    scanned=("attention", "passes"),
    evidence={
        "router": "recipes of Megatron-Bridge for Kimi K2 on GB200",
        "attention": "recipes of Megatron-Bridge for Qwen3 and DeepSeek-V3 on H100 and B200",
        "passes": "recipes of Megatron-Bridge since 26.06 on Blackwell",
    },
    aliases=("graphs",),
)
