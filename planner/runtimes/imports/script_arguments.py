"""Arguments of training scripts: those that decide no price, and a note on those that nobody reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

WITHOUT_EFFECT: Final = re.compile(
    r"output_dir|overwrite_.*|do_(?:train|eval|predict|test)|eval.*|.*_eval_.*|val_.*|test_.*|predict_.*"
    r"|learning_rate|.*_learning_rate|min_lr.*|weight_decay|adam_.*|max_grad_norm|num_train_epochs|num_epochs"
    r"|max_steps|lr_.*|warmup.*|log.*|logging.*|save.*|seed|data_seed|dataset.*|data_.*|.*_dataset|dataloader_.*"
    r"|train_(?:file|dataset|on_.*|path|data)|validation_.*|max_(?:train|eval)?_?samples|streaming|shuffle.*"
    r"|preprocessing_.*|report_to|run_name|push_to_hub|hub_.*|resume.*|ignore_data_skip|ddp_(?:timeout|find.*"
    r"|backend|broadcast.*)|load_best.*|metric_for.*|greater_is.*|disable_tqdm|remove_unused_columns|label_.*"
    r"|trust_remote_code|use_auth_token|token|cache_dir|use_fast_tokenizer|tokenizer.*|tokenized_path|template|plot_loss"
    r"|chat_template.*|system.*|stage|wandb.*|swanlab.*|mlflow.*|tensorboard.*|use_wandb|tf32|local_rank|full_determinism"
    r"|neftune_.*|lora_(?:alpha|dropout|fan_in_fan_out|bias|lr|mlp_kernel|qkv_kernel|o_kernel)|use_rslora"
    r"|lora_task_type|bnb_4bit_.*|use_bnb_nested_quant|double_quantization|quantization_(?:type|method)|bf16_full_eval|include_.*"
    r"|attn_impl.*|flash_attn.*|flash_attention|xformers_attention|sdp_attention|sdpa_attention|eager_attention"
    r"|low_cpu_mem_usage|config_name|model_revision|revision|.*kwargs(?:\..*)?|project|entity|num_proc|n_gpu"
    r"|ddp_bucket_cap_mb|length_column_name|past_index|jit_mode_eval|prediction_loss_only|group_by_length"
    r"|train_on_inputs|special_tokens(?:\..*)?|tokens|cosine_.*|loraplus_.*|use_(?:dft|eaft)_loss|use_v1_kernels|train_dataset_dir|checkpoint_dir|_comment|(?:comms_config|monitor_config)\..*|beta[12]|epsilon|adam_beta.*"
    r"|hf_hub_token|hub_token|model_(?:name|author|type)|acc_strategy|early_stopping_.*|strict|debug|profile.*"
    r"|add_special_tokens|append_concat_token|splits|use_reentrant|use_nested_quant|use_flash_attn.*|lazy_preprocess"
    r"|train_data_path|torch_empty_cache_steps|use_slow_tokenizer|with_tracking|add_bos|try_launch_.*|pissa_.*"
    r"|checkpointing_steps|keep_last_n_checkpoints|timeout(?:_minutes)?|(?:max_)?train_steps|decay_steps|hf_entity|wandb_entity|push_to_hub|reduce_loss"
    r"|auto_find_batch_size|auto_resume_from_checkpoints|packing_strategy|skip_.*|ray_.*|callbacks|is_.*_derived_model|.*_loss_coef|ddp|world_size"
)
"""Arguments that decide neither layout nor what is kept in memory."""

_OF_LAUNCH: Final = ("--deepspeed", "--deepspeed_config", "--deepspeed-config", "--config-file", "--smoke")
"""Arguments that name the configuration which is read."""


def unread_arguments(flags: Iterable[str], known: Iterable[str] = ()) -> list[str]:
    """Return a note on the arguments of a script that nobody reads and that may decide a price.

    ``known``: those that are read.
    """
    names = {*known, *_OF_LAUNCH}
    others = [
        flag
        for flag in flags
        if flag.startswith("-") and flag not in names
        and not WITHOUT_EFFECT.fullmatch(flag.lstrip("-").replace("-", "_"))
    ]  # fmt: skip
    if not others:
        return []
    told = f"arguments of the script that are not read: {', '.join(others)[:160]}"
    return [f"{told}; --seq-len, --micro-batch and --global-batch say what they decide"]
