"""Read YAML files with nanotron's own config loader and process groups; run beside a checkout of nanotron.

Takes lines of JSON on stdin, each with ``folder``, ``gpus`` and ``environment``, and answers each with a
line of JSON: what nanotron refused, or what it derived, its own cut of the layers and the parameters that it
builds on a rank of every pipeline stage included. NANOTRON is the checkout's folder.
"""

import os
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path
from unittest import mock

import numpy as np
import torch
import torch.distributed as dist
import yaml
from answering import answer_lines
from torch.testing._internal.distributed.fake_pg import FakeStore

ABSENT = (
    "flash_attn", "grouped_gemm", "functorch", "torchtyping", "apex", "datasets", "datatrove", "boto3",
    "s3fs", "wandb", "numba", "einops", "transformers", "huggingface_hub", "triton", "transformer_engine",
    "psutil", "torchdata", "lighteval", "tqdm",
)  # fmt: skip


class Empty(type):
    """A class that serves as a base, as an annotation, and as a decorator that changes nothing."""

    def __call__(cls, *values, **_):
        """Return the decorated function, or a decorator."""
        return values[0] if len(values) == 1 and callable(values[0]) else lambda function: function


class Absent(types.ModuleType):
    """A package that this check does not need; whatever is asked of it is an `Empty` class."""

    __path__ = ()
    __version__ = "9.9.9"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Empty(name, (torch.nn.Module,), {})


class Finder:
    """Finds the absent packages and every module below them."""

    def find_spec(self, name, path=None, target=None):
        """Return a spec for an absent package."""
        if name.split(".")[0] in ABSENT:
            return ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        """Make the stand-in."""
        return Absent(spec.name)

    def exec_module(self, module):
        """Leave it empty."""


sys.meta_path.insert(0, Finder())
sys.path.insert(0, str(Path(os.environ["NANOTRON"]) / "src"))


def load():
    """Import what is checked, late, since the checkout is found through the environment."""
    from nanotron.config import get_config_from_file
    from nanotron.parallel import ParallelContext

    return get_config_from_file, ParallelContext


def blocks_of(config):
    """Return the costs of the blocks that nanotron's Qwen2 model cuts, by its own formula."""
    from nanotron.models.qwen import Qwen2DecoderLayer, Qwen2Model, TensorParallelColumnLinear

    costs = Qwen2Model.get_block_compute_costs(types.SimpleNamespace(config=config))
    layers = [costs[Qwen2DecoderLayer]] * config.num_hidden_layers
    return [0, *layers, 0, costs[TensorParallelColumnLinear], 0, 0]


def stage_params(config, context):
    """Build the model without storage as a rank of each pipeline stage would, and return its parameters.

    Rotary embeddings have none, and their tables want a GPU, as messages do.
    """
    from nanotron import distributed
    from nanotron.models import build_model
    from nanotron.models.qwen import Qwen2ForTraining
    from nanotron.trainer import mark_tied_parameters

    plain, random = distributed.get_rank, torch.randn
    counts = []
    for stage in range(config.parallelism.pp):
        places = {context.pp_pg: stage, context.world_pg: int(context.world_rank_matrix[0, stage, 0, 0, 0])}

        def rank_of(group=None, places=places):
            return places[group] if group in places else plain(group)

        with (
            torch.device("meta"),
            mock.patch.object(distributed, "get_rank", rank_of),
            mock.patch("nanotron.models.qwen.RotaryEmbedding", torch.nn.Identity),
            mock.patch("nanotron.models.qwen.P2P", lambda group, **_: types.SimpleNamespace(pg=group)),
            mock.patch("nanotron.trainer.create_pg_for_tied_weights"),
            mock.patch.object(
                torch, "randn", lambda *sizes, **more: random(*sizes, **more | {"device": "meta"})
            ),
        ):
            model = build_model(
                lambda: Qwen2ForTraining(config.model.model_config, context, config.parallelism),
                context, torch.bfloat16, device=torch.device("meta"),
            )  # fmt: skip
            mark_tied_parameters(model, context, config.parallelism)
        counts.append(sum(parameter.numel() for parameter in model.parameters()))
    return counts


def numbers_of(config):
    """Return positions, norms, initialiser and ties as nanotron has them."""
    model = config.model.model_config
    return {
        "theta": model.rope_theta,
        "interpolation": model.rope_seq_len_interpolation_factor or 1.0,
        "epsilon": model.rms_norm_eps,
        "init_std": config.model.init_method.std,
        "tied": model.tie_word_embeddings,
        "activation": model.hidden_act,
        "topk": model.moe_config.top_k if model.moe_config else None,
        "bare": model.no_rope_layer,
    }


def smoke_of(folder, read):
    """Return what nanotron makes of the configuration that the start script resolves for a smoke run."""
    path = Path(folder) / "start.py"
    scope = {"__name__": "start", "__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    config = yaml.safe_load((Path(folder) / "nanotron.yaml").read_text())
    scope["schedule"](config)
    scope["made_up"](config, 20, folder)
    resolved = Path(folder) / "resolved.yaml"
    resolved.write_text(yaml.safe_dump(config))
    found = read(str(resolved))
    saves = found.checkpoints.save_final_state or found.checkpoints.checkpoint_interval <= 20
    return {"steps": found.tokens.train_steps, "data": found.data_stages[0].data.dataset, "saves": saves}


def run_of(config):
    """Return what the config says of a run beside its plan."""
    rates, optimizer = config.optimizer.learning_rate_scheduler, config.optimizer
    start, decay = rates.lr_decay_starting_step, rates.lr_decay_steps
    if decay is None:  # as nanotron/helpers.py, ``lr_scheduler_builder``
        decay = config.tokens.train_steps - rates.lr_warmup_steps - (start or 0)
    return {
        "steps": config.tokens.train_steps, "rate": rates.learning_rate, "lowest": rates.min_decay_lr,
        "warmup": rates.lr_warmup_steps, "end": (rates.lr_warmup_steps if start is None else start) + decay,
        "decay_style": rates.lr_decay_style, "weight_decay": optimizer.weight_decay,
        "clip": optimizer.clip_grad, "seed": config.general.seed,
        "save_interval": config.checkpoints.checkpoint_interval,
    }  # fmt: skip


def derive(case, get_config_from_file, context):
    """Return what nanotron makes of one folder."""
    config = get_config_from_file(str(Path(case["folder"]) / "nanotron.yaml"))
    degrees, tokens = config.parallelism, config.tokens
    gpus = case["gpus"]
    os.environ.update(
        case["environment"],
        RANK="0",
        WORLD_SIZE=str(gpus),
        LOCAL_RANK="0",
        LOCAL_WORLD_SIZE=str(min(case.get("node", 8), gpus)),
    )
    torch.cuda.set_device = lambda *_: None
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=gpus)
    try:
        groups = context(
            data_parallel_size=degrees.dp, pipeline_parallel_size=degrees.pp, tensor_parallel_size=degrees.tp,
            context_parallel_size=degrees.context_parallel_size,
            expert_parallel_size=degrees.expert_parallel_size,
        )  # fmt: skip
        params = stage_params(config, groups)
    finally:
        dist.destroy_process_group()
    return {
        "dp": degrees.dp, "pp": degrees.pp, "tp": degrees.tp, "cp": degrees.context_parallel_size,
        "ep": degrees.expert_parallel_size, "engine": type(degrees.pp_engine).__name__,
        "sequence_parallel": degrees.tp_mode.name == "REDUCE_SCATTER", "recompute": degrees.recompute_layer,
        "micro_batch": tokens.micro_batch_size, "num_microbatches": tokens.batch_accumulation_per_replica,
        "global_batch": config.global_batch_size, "zero": config.optimizer.zero_stage,
        "costs": np.cumsum(blocks_of(config.model.model_config)).tolist(),
        "numbers": numbers_of(config), "run": run_of(config),
        "smoke": smoke_of(case["folder"], get_config_from_file) if case.get("smoke", True) else None,
        "model": type(config.model.model_config).__name__, "stage_params": params,
    }  # fmt: skip


if __name__ == "__main__":
    answer_lines(derive, load)
