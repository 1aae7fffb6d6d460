"""Read command lines with torchtitan's own config and mesh code; run beside a checkout of torchtitan.

Takes lines of JSON on stdin, each with ``folder``, ``gpus`` and ``arguments``, and answers each with a line
of JSON: what torchtitan refused, or what it derived. The model is built without memory and cut into stages
by torchtitan, but not sharded: that takes ten seconds a plan. TORCHTITAN is the checkout's folder.
"""

import importlib
import os
import sys

import torch

sys.path.insert(0, os.environ["TORCHTITAN"])
os.environ.setdefault("DATA_PATH", "data")

from answering import answer_lines
from torch.distributed.pipelining.schedules import get_schedule_class
from torchtitan.config import ConfigManager
from torchtitan.distributed import ParallelDims
from torchtitan.distributed.pipeline_parallel import _get_pp_rank_to_stage_indices_mapping
from torchtitan.distributed.pipeline_parallel import _split_module as stage_module

for name in ("AUTOENCODER_PATH", "T5_PATH", "CLIP_PATH"):
    os.environ.setdefault(name, "data")
torch.cuda.get_device_capability = lambda *_, **__: (9, 0)
for name in ("float8", "mx", "nvfp4"):  # their converters ask for a device that no machine here has
    module = importlib.import_module(f"torchtitan.components.quantization.{name}")
    module.has_cuda_capability = lambda *_: True


def config_of(case):
    """Return torchtitan's config of the folder's own module and the arguments."""
    sys.modules.pop("titan_plan", None)
    importlib.invalidate_caches()
    sys.path.insert(0, case["folder"])
    sys.dont_write_bytecode = True
    try:
        return ConfigManager().parse_args(case["arguments"][1:])
    finally:
        sys.path.remove(case["folder"])


def stages_of(model, parts, parallelism):
    """Return the parameters of each stage, and the stages of each rank."""
    ranks = range(parallelism.pipeline_parallel_degree)
    counts = [sum(p.numel() for p in stage_module(model, part).parameters()) for part in parts]
    name = parallelism.pipeline_parallel_schedule
    places = [_get_pp_rank_to_stage_indices_mapping(rank, len(ranks), name, len(parts)) for rank in ranks]
    return {"stage_params": counts, "stages_of_rank": [list(place) for place in places]}


def run_of(config):
    """Return what the config says of a run beside its plan."""
    optimizer = config.optimizer.param_groups[0].optimizer_kwargs
    rates, saves = config.lr_scheduler, config.checkpoint
    return {
        "steps": config.training.steps, "rate": optimizer["lr"], "betas": list(optimizer["betas"]),
        "weight_decay": optimizer["weight_decay"], "clip": config.training.max_norm,
        "warmup": rates.warmup_steps, "decay": rates.total_steps, "decay_style": rates.decay_type,
        "lowest": rates.min_lr_factor, "saves": saves.enable, "save_interval": saves.interval,
        "seed": config.debug.seed, "timeout": config.comm.train_timeout_seconds,
    }  # fmt: skip


def numbers_of(layer, model):
    """Return a layer's positions, norms, initialiser and router as torchtitan has them."""
    rope, norm = getattr(layer.attention, "rope", None), layer.attention_norm
    found = {name: getattr(rope, name) for name in ROPE if hasattr(rope, name)}
    epsilons = {norm.eps, layer.ffn_norm.eps, model.norm.eps}
    if getattr(layer, "delta_net", None) is not None:
        epsilons.add(layer.delta_net.norm.eps)
    if len(epsilons) == 1:
        found["norm_eps"] = epsilons.pop()
    found |= {"rope": type(rope).__qualname__, "turned": getattr(layer.attention, "rotary_dim", None)}
    found["init_std"] = model.lm_head.param_init["weight"].keywords["std"]
    found["mscale"] = getattr(layer.attention, "mscale", None)
    if layer.moe is not None:
        router = layer.moe.router
        found |= {name: getattr(router, name) for name in ROUTER}
        found["load_balance_coeff"] = layer.moe.load_balance_coeff
    return found


ROPE = (
    "theta", "scaling", "scaling_factor", "low_freq_factor", "high_freq_factor",
    "original_max_position_embeddings", "rope_factor", "beta_fast", "beta_slow", "original_seq_len",
    "truncate",
)  # fmt: skip
ROUTER = ("score_func", "route_norm", "route_scale", "num_expert_groups", "num_limited_groups", "top_k")


def images_of(config):
    """Return a side of the images of FLUX.1, its text, and the tokens that its own registry makes of them."""
    from torchtitan.models.flux.config_registry import _flux_seq_len

    side, text = config.dataloader.dataset.processor.img_size, config.tokenizer.max_t5_encoding_len
    return {"image": side, "text": text, "tokens": _flux_seq_len(side, text)}


def derive(case):
    """Return what torchtitan makes of one folder."""
    config = config_of(case)
    smoke = config_of(case | {"arguments": case["smoke"]}) if case.get("smoke") else None
    dims = ParallelDims.from_config(config.parallelism, case["gpus"])
    config.model_spec.model.update_from_config(config=config)
    with torch.device("meta"):
        model = config.model_spec.model.build()
    answer = {
        "dp_replicate": dims.dp_replicate, "dp_shard": dims.dp_shard, "tp": dims.tp, "cp": dims.cp,
        "pp": dims.pp, "ep": dims.ep, "params": sum(p.numel() for p in model.parameters()),
        "tokens_per_microbatch": config.training.num_tokens_per_microbatch_per_dp_rank,
        "tokens_per_step": config.training.num_tokens_per_train_step,
        "pp_microbatches": config.parallelism.num_pp_microbatches,
        "recompute": type(config.activation_checkpoint).__qualname__,
        "sequence_parallel": config.parallelism.enable_sequence_parallel,
        "run": run_of(config), "dtype": config.training.dtype,
        "context": config.training.max_context_length,
    }  # fmt: skip
    if config.model_spec.name == "flux":
        return answer | images_of(config)
    answer |= {
        "tied": config.model_spec.model.enable_weight_tying,
        "numerics": [numbers_of(layer, config.model_spec.model) for layer in config.model_spec.model.layers],
    }
    if smoke is not None:
        answer["smoke"] = {**run_of(smoke), "loader": type(smoke.dataloader).__qualname__}
    if dims.pp > 1:
        answer["schedule"] = get_schedule_class(config.parallelism.pipeline_parallel_schedule).__name__
        parts = config.parallelism.module_fqns_per_model_part
        answer |= stages_of(model, parts, config.parallelism)
    return answer


if __name__ == "__main__":
    answer_lines(derive)
