"""What the model record cannot express: keys that say so, and model types, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.inputs import hf_masked

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
    "add_cross_attention": "cross attention",
    "use_bidirectional_attention": "attention both ways",
    "speech_lora": "adapters of its own for sound",
    "vision_lora": "adapters of its own for images",
}
"""Keys that, where they are set, mean what the model record cannot express, each with what that is."""

_BY_REASON: Final[dict[str, str]] = {
    "a decoder that reads an encoder of images in every layer": "trocr blip git",
    "sound: streams of codes beside each other": "moshi musicgen musicgen_melody kyutai_speech_to_text csm",
    "a feed-forward of its own for tokens of sound": "higgs_audio_v2",
    "speech made by a flow or by diffusion": "vibevoice vits pocket_tts gradium_phonon_tts",
    "results of attention that are scaled by a delay": "voxtral_realtime voxtral_realtime_text",
    "sound alone, turned into text": "moss_transcribe_diarize",
    "cross attention to images in some layers": "mllama mllama_text_model idefics evolla",
    "attention both ways over image and prompt": "paligemma shieldgemma2 cohere_compass cohere_compass_text",
    "experts for text and others for images": "ernie4_5_vl_moe ernie4_5_vl_moe_text ernie4_5_moe_vl",
    "an expert of actions beside the language model": "pi0",
    "text made by diffusion": "diffusion_gemma",
    "Mamba-1 heads beside one attention block that many layers share": "zamba",
    "one attention block that many layers share, each with adapters of its own": "zamba2",
    "gated linear recurrences (RG-LRU)": "recurrent_gemma",
    "matrix memories with exponential gates (mLSTM)": "xlstm",
    "time mixing of RWKV": "rwkv",
    "keys and values convolved in a latent space": "zaya",
    "Kimi delta attention whose gates are whole matrices": "bailing_hybrid",
    "gated delta nets beside attention in windows": "lara_mini",
    "the difference of two attentions": "diffllama",
    "attention masked by what its values say, and residuals with weights": "doge",
    "experts of attention heads": "jetmoe",
    "hashed attention and reversible layers": "reformer",
    "attention over permutations, relative positions": "xlnet",
    "relative positions in buckets": "cpmant",
    "positions from sines that are added": "ctrl xglm",
    "norms inside attention and feed-forward": "bitnet kosmos-2 kosmos-2.5",
    "norms with weights and biases of each head": "chameleon",
    "one bias for all of its attention, apart from the products": "gpt_neox_japanese",
    "patches of bytes that another model finds": "blt",
    "another number of heads in layers with a window, and bounded activations": "step3p5 step3p7",
    "a base of rotary positions for each layer": "granite_swa granitemoe_swa muse_glimmer",
    "a norm on the result of its experts": "axk1",
    "biases of experts that are added before the sigmoid": "kolibri1",
    "experts in a latent space, gates on residuals": "muse_spark",
    "layers that run more than once": "dory hrm_text inkling2_loop inkling2_loop_text ouro iquestloopcoder",
    "an embedding with more rows than the head": "molmo2 molmo2_text",
    "a table of extra embeddings": "beam",
    "experts beside a dense feed-forward, scores of the router that are bounded": "grok-2",
    "scores and products with constants of its own": "grok-1",
    "text made by filling in masks": "LLaDA llada llada_moe llada2_moe Dream sdar sdar_moe",
    "queries made in two products (multi-matrix factorization attention)": "step3_vl step3_text",
    "keys and values that neighbouring layers share": "hunyuan",
}
"""What the model record does not have, and the model types that need it."""

REASONS: Final[Mapping[str, str]] = {
    kind: reason
    for table in (_BY_REASON, hf_masked.REASONS)
    for reason, kinds in table.items()
    for kind in kinds.split()
}
"""Model type to the reason why it is refused."""
