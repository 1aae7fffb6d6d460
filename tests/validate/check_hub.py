"""Numbers of a model as transformers has them once it has read the ``config.json`` beside a script."""

from transformers import AutoConfig

ROPE = ("factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim")


def numbers_of(folder):
    """Return positions, norms, initialiser, router and ties."""
    config = AutoConfig.from_pretrained(folder)
    epsilon = "layer_norm_epsilon" if config.model_type == "gpt2" else "rms_norm_eps"
    found = {
        "epsilon": getattr(config, epsilon),
        "init_std": config.initializer_range,
        "tied": config.tie_word_embeddings,
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
    found["rope"] |= {name: rope[name] for name in ROPE if name in rope}
    if "original_max_position_embeddings" in rope:
        found["rope"]["original"] = rope["original_max_position_embeddings"]
    if config.model_type == "deepseek_v3":
        found["router"] = {
            "normalize": config.norm_topk_prob, "scale": config.routed_scaling_factor,
            "groups": config.n_group, "top_groups": config.topk_group,
        }  # fmt: skip
    elif hasattr(config, "router_aux_loss_coef"):
        found["router"] = {"loss": config.router_aux_loss_coef, "logits": config.output_router_logits}
    return found
