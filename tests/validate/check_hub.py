"""Numbers of a model as transformers has them once it has read the ``config.json`` beside a script."""

from transformers import AutoConfig

ROPE = (
    "factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
    "attention_factor", "truncate",
)  # fmt: skip


TANH = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
"""Two names of one function."""


def _first(config, *names):
    return next((value for name in names if (value := getattr(config, name, None)) is not None), None)


def numbers_of(folder):
    """Return positions, norms, initialiser, router and ties."""
    config = AutoConfig.from_pretrained(folder)
    activation = _first(config, "hidden_activation", "hidden_act", "activation_function")
    found = {
        "epsilon": _first(config, "rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps"),
        "init_std": config.initializer_range,
        "tied": config.tie_word_embeddings,
        "activation": TANH.get(activation, activation),
    }
    if config.model_type == "gpt2":
        return found
    if config.model_type == "granite":
        found["multipliers"] = [
            config.attention_multiplier, config.embedding_multiplier, config.residual_multiplier,
            1 / config.logits_scaling,
        ]  # fmt: skip
    rope = config.rope_parameters
    found["rope"] = {"theta": rope["rope_theta"], "kind": rope["rope_type"]}
    found["rope"]["fraction"] = rope.get("partial_rotary_factor", 1.0)
    found["rope"] |= {name: rope[name] for name in ROPE if name in rope}
    if "original_max_position_embeddings" in rope:
        found["rope"]["original"] = rope["original_max_position_embeddings"]
    if config.model_type in ("deepseek_v3", "glm4_moe"):
        found["router"] = {
            "normalize": config.norm_topk_prob, "scale": config.routed_scaling_factor,
            "groups": config.n_group, "top_groups": config.topk_group, "topk": config.num_experts_per_tok,
        }  # fmt: skip
    elif hasattr(config, "router_aux_loss_coef"):
        found["router"] = {"loss": config.router_aux_loss_coef, "topk": config.num_experts_per_tok}
        if config.model_type == "qwen3_moe":
            found["router"]["normalize"] = config.norm_topk_prob
    return found
