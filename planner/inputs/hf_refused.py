"""What the model record cannot express: keys that say so, and model types, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REFUSED: Final[Mapping[str, str]] = {
    "attn_output_gate": "an output gate in its attention",
    "attention_output_gate": "an output gate in its attention",
    "attn_res_block_size": "attention over the residuals of blocks",
    "attention_k_eq_v": "keys that are also values",
    "block_configs": "a block of its own for each layer, found by architecture search",
    "compress_ratios": "compressed keys and values",
    "enable_moe_block": "experts beside a dense feed-forward",
    "full_attention_interval": "linear attention",
    "global_head_dim": "heads of several widths",
    "hc_mult": "hyper-connections",
    "hybrid_override_pattern": "state-space layers",
    "hidden_size_per_layer_input": "embeddings for each layer",
    "index_head_dim": "an indexer that picks the keys",
    "index_topk": "an indexer that picks the keys",
    "layers_block_type": "state-space layers",
    "linear_attn_config": "linear attention",
    "linear_num_key_heads": "linear attention",
    "mamba_num_heads": "state-space layers",
    "moe_latent_size": "experts in a latent space",
    "num_kv_shared_layers": "keys and values shared between layers",
    "routed_expert_hidden_size": "experts in a latent space",
    "sparse_attention_config": "an indexer that picks the keys",
    "ssm_state_size": "state-space layers",
    "zero_expert_num": "experts that compute nothing",
    "use_head_wise_attn_gate": "an output gate in its attention",
    "is_encoder_decoder": "an encoder",
}
"""Keys that, where they are set, mean what the model record cannot express, each with what that is."""

REASONS: Final[Mapping[str, str]] = {}
