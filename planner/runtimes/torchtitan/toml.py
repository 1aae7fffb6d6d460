"""Files for torchtitan up to 0.2.2: a TOML job config, and a module that registers the model."""

from __future__ import annotations

import json

from planner.errors import UnsupportedPlan
from planner.inputs.model import DenseFfn, Experts
from planner.plan import Plan
from planner.runtimes.family import GROWING_SEGMENTS, Command, Job
from planner.runtimes.torchtitan.choice import RECIPES, STEP_LINE, WHERE_SET, TitanChoice
from planner.runtimes.torchtitan.current import MODULE, resharding
from planner.runtimes.torchtitan.model_data import family, literal, model_data, part_names
from planner.runtimes.torchtitan.numerics import old_unsaid
from planner.runtimes.torchtitan.releases import layers_again
from planner.runtimes.torchtitan.rules import training_dtype
from planner.runtimes.torchtitan.schedules import SCHEDULES
from planner.runtimes.torchtitan.table import degree_keys, shard_keys
from planner.runtimes.training_run import SMOKE_STEPS, TrainingRun, run_of

HEAD = '''"""The model of one plan, registered for torchtitan {version}; titan_plan.toml imports it."""

import dataclasses
import importlib
import os

import torch
from torchtitan.protocols.train_spec import register_train_spec

'''

BODY = '''

def sizes():
    """Return what every family calls by the same name."""
    first = MODEL["runs"][0][1]
    return {
        "dim": MODEL["dim"],
        "vocab_size": MODEL["vocab_size"],
        "n_layers": sum(count for count, _ in MODEL["runs"]),
        "n_heads": first["n_heads"],
        "max_seq_len": MODEL["max_context_length"],
        "rope_theta": MODEL["rope"]["theta"],
        "norm_eps": MODEL["norm_eps"],
    }


def experts(block):
    """Return the experts of a sparse block; shared experts are counted in units of one expert."""
    from torchtitan.models.moe import MoEArgs

    return MoEArgs(
        num_experts=block["num_experts"],
        num_shared_experts=block["shared_hidden_dim"] // block["moe_hidden_dim"],
        **MODEL["router"],
        top_k=block["top_k"],
        score_before_experts=False,  # its default weights what goes in, and models weight what comes out
    )


def llama3(block):
    """Return the arguments of a dense model; its width is the first multiple of ``multiple_of``."""
    from torchtitan.models.llama3.model.args import RoPEScalingArgs

    width, rope = block["hidden_dim"], MODEL["rope"]
    names = ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    known = {name: rope[name] for name in names if name in rope}
    return {
        "rope_scaling_args": RoPEScalingArgs(scaling_factor=rope.get("scaling_factor", 1.0), **known),
        "n_kv_heads": block["n_kv_heads"],
        "multiple_of": width,
        "ffn_dim_multiplier": 3 * width / (16 * MODEL["dim"]),
    }


def qwen3(block):
    """Return the arguments of a dense or sparse model."""
    shared = {"n_kv_heads": block["n_kv_heads"], "head_dim": block["head_dim"], "qk_norm": block["qk_norm"]}
    shared["enable_weight_tying"] = MODEL["tied"]
    if "hidden_dim" in block:
        return shared | {"hidden_dim": block["hidden_dim"]}
    sparse = {"moe_enabled": True, "moe_inter_dim": block["moe_hidden_dim"]}
    return shared | sparse | {"moe_args": experts(block)}


def deepseek_v3(block):
    """Return the arguments of a model with latent attention, dense layers first."""
    dense = [(count, kind) for count, kind in MODEL["runs"] if "hidden_dim" in kind]
    last = MODEL["runs"][-1][1]
    names = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    return {name: block[name] for name in names} | {
        "n_dense_layers": sum(count for count, _ in dense),
        "inter_dim": dense[0][1]["hidden_dim"] if dense else last["moe_hidden_dim"],
        "moe_inter_dim": last["moe_hidden_dim"],
        "moe_args": experts(last),
        "rope_factor": MODEL["rope"].get("rope_factor", 1.0),
        "beta_fast": int(MODEL["rope"].get("beta_fast", 32)),
        "beta_slow": int(MODEL["rope"].get("beta_slow", 1)),
        "original_seq_len": MODEL["rope"].get("original_seq_len", 4096),
        "mscale": MODEL.get("mscale", 1.0),
    }


class MadeUp:
    """Batches of random tokens, for smoke runs."""

    def __init__(self, dp_rank, job_config, **_):
        training = job_config.training
        self.seed, self.shape = dp_rank, (training.local_batch_size, training.seq_len + 1)

    def __iter__(self):
        numbers = torch.Generator().manual_seed(self.seed)
        while True:
            tokens = torch.randint(MODEL["vocab_size"], self.shape, generator=numbers)
            yield {"input": tokens[:, :-1].contiguous()}, tokens[:, 1:].contiguous()

    def state_dict(self):
        return {}

    def load_state_dict(self, state_dict):
        pass


class NoTokenizer:
    """Stands where made-up tokens need none."""

    eos_id = 0


def register():
    """Add the plan's flavor to a copy of the family's own train spec."""
    module = importlib.import_module(f"torchtitan.models.{FAMILY}")
    spec = module.get_train_spec()
    kind = type(next(iter(spec.model_args.values())))
    special = {"llama3": llama3, "qwen3": qwen3, "deepseek_v3": deepseek_v3}[FAMILY]
    arguments = kind(**sizes(), **special(MODEL["runs"][0][1]))
    smoke = {"build_dataloader_fn": MadeUp, "build_tokenizer_fn": lambda job_config: NoTokenizer()}
    changes = smoke if os.environ.get("SMOKE", "0") not in ("", "0") else {}
    register_train_spec("titan_plan", dataclasses.replace(spec, model_args={"plan": arguments}, **changes))


register()
'''


def module_text(job: Job, version: str) -> str:
    """Return the Python module that registers the model."""
    data = literal("MODEL", model_data(job.model, job.workload.seq_len))
    return HEAD.format(version=version) + literal("FAMILY", family(job.model)) + data + BODY


def refusals(plan: Plan, job: Job, version: str) -> list[str]:
    """Return what the older releases cannot run beside torchtitan's rules."""
    ranks = plan.tp * plan.cp * plan.pp
    shared = plan.tp * (2 * plan.cp if plan.cp > 1 else 1)
    kinds = {ffn.kind for ffn in _ffns(job)}
    found = [f"{field} of the model" for field in old_unsaid(job.model, version, family(job.model))]
    if plan.zero == 0 and plan.dp > 1 and ranks > 1:
        found.append("plain data parallelism beside another degree; nearest: zero 3")
    if plan.tp * plan.pp > 1 and (plan.zero_shards if plan.zero else plan.cp) <= 1:
        # distributed/utils.py, maybe_enable_amp: without FSDP there is no mixed precision beside these.
        found.append("tensor or pipeline parallelism without sharding, in fp32; nearest: zero 3, dp 2")
    if job.workload.seq_len % shared:
        found.append(f"sequences that {shared:g} ranks cannot share; nearest: tp 1")
    if plan.tp > 1 and not plan.sequence_parallel:
        found.append("tensor parallelism without sequence parallelism; nearest: sequence parallelism")
    if family(job.model) == "qwen3" and len(kinds) > 1:
        found.append("dense and sparse layers in one grouped-query model")
    if job.model.tied_embeddings and family(job.model) == "llama3":
        found.append("tied embeddings in a Llama model")
    if family(job.model) == "llama3" and any(
        mixer.heads * mixer.qk_head_dim != job.model.hidden for mixer in job.model.attentions
    ):
        found.append("heads that do not add up to the hidden size in a Llama model")
    if any(isinstance(ffn, Experts) and ffn.shared_inner % ffn.inner for ffn in _ffns(job)):
        found.append("shared experts that are not a multiple of one expert")
    if version == "0.2.0" and plan.ep > 1 and plan.ep % (plan.cp * plan.tp):
        found.append("experts over fewer ranks than context and tensor parallelism; nearest: ep of cp · tp")
    return found


def _ffns(job: Job) -> list[DenseFfn | Experts]:
    return list(job.model.ffns)


def _optimizer(run: TrainingRun) -> dict[str, dict[str, object]]:
    """Return the tables of the optimizer and of its rate."""
    return {
        "optimizer": {
            "name": "AdamW",
            "lr": run.learning_rate,
            "beta1": run.beta1,
            "beta2": run.beta2,
            "weight_decay": run.weight_decay,
            "implementation": "fused",
        },
        "lr_scheduler": {
            "warmup_steps": run.warmup_steps,
            "decay_type": run.decay_style,
            "min_lr_factor": run.min_learning_rate / run.learning_rate,
        },
    }


def job_config(plan: Plan, job: Job, choice: TitanChoice) -> dict[str, dict[str, object]]:
    """Return the tables of the TOML, every degree said."""
    work, run = job.workload, run_of(job)
    piped = bool(plan.pp > 1)
    schedule = SCHEDULES[plan.schedule] if piped else None
    local = plan.micro_batch * (plan.num_microbatches if piped else 1)
    parallelism: dict[str, object] = {
        **shard_keys(plan),
        **degree_keys(plan, "tp", "cp"),
        "context_parallel_rotate_method": (
            "alltoall" if plan.cp > 1 and plan.cp_method == "ring" else "allgather"
        ),
        **degree_keys(plan, "pp", "ep", "etp"),
        "fsdp_reshard_after_forward": resharding(plan),
        "pipeline_parallel_microbatch_size": int(plan.micro_batch),
    }
    if choice.async_tp:
        parallelism["enable_async_tensor_parallel"] = True
    if schedule is not None:
        parallelism["pipeline_parallel_schedule"] = schedule.name
        parallelism["module_fqns_per_model_part"] = part_names(plan, job.model, "output")
    return {
        "job": {"description": f"{job.model.name} {plan.slug}"},
        "model": {"name": "titan_plan", "flavor": "plan", **_converters(job)},
        **_quantised(job, choice),
        "experimental": {"custom_import": MODULE},
        **_optimizer(run),
        "training": {
            "dataset": "c4_test",
            "local_batch_size": int(local),
            "global_batch_size": work.global_batch,
            "seq_len": work.seq_len,
            "max_norm": run.clip,
            "steps": run.train_steps,
            "dtype": training_dtype(work),
            "mixed_precision_param": "bfloat16",
            "mixed_precision_reduce": "float32",
            **({"enable_cpu_offload": True} if plan.offload == "weights" else {}),
        },
        "parallelism": parallelism,
        "activation_checkpoint": _recompute(plan, job),
        "compile": {"enable": choice.compiled},
        "checkpoint": {"enable": True, "interval": run.save_interval, "last_save_model_only": False},
        "comm": dict.fromkeys(TIMEOUTS, 60 * run.timeout_minutes),
        "metrics": {"log_freq": run.log_interval},
    }


def _recompute(plan: Plan, job: Job) -> dict[str, object]:
    """Return the table of what runs again: operators, every nth layer, or all."""
    if (count := layers_again(plan.recompute)) is not None:
        return {"mode": "selective", "selective_ac_option": str(job.model.num_layers // count)}
    if plan.recompute == "selective":
        return {"mode": "selective", "selective_ac_option": "op"}
    return {"mode": plan.recompute}


TIMEOUTS = ("init_timeout_seconds", "train_timeout_seconds")
VARIABLES = ("TRAIN_STEPS", "LEARNING_RATE", "WARMUP_STEPS", "SEED", "LOG_INTERVAL", "SAVE_INTERVAL")


def production(version: str) -> dict[str, str]:
    """Return the options of a real run, each a variable of the user's, for a release."""
    seed = "training.seed" if version == "0.2.0" else "debug.seed"
    options = {
        "job.dump_folder": "OUTPUT_DIR",
        "model.hf_assets_path": "TOKENIZER_PATH",
        "training.dataset_path": "DATA_PATH",
        "training.steps": "TRAIN_STEPS",
        "optimizer.lr": "LEARNING_RATE",
        "lr_scheduler.warmup_steps": "WARMUP_STEPS",
        "checkpoint.interval": "SAVE_INTERVAL",
        "metrics.log_freq": "LOG_INTERVAL",
        seed: "SEED",
    }
    return options | ({"lr_scheduler.total_steps": "DECAY_STEPS"} if version == "0.2.2" else {})


LOW = {"linear": "quantize.linear.float8", "experts": "quantize.grouped_mm.float8"}
BLOCKS = "quantize.linear.mx"
"""Converters of releases with TOML."""


def _converters(job: Job) -> dict[str, object]:
    if job.workload.precision == "mxfp8":
        return {"converters": [BLOCKS]}
    if job.workload.precision != "fp8":
        return {}
    return {"converters": [LOW["linear"], *((LOW["experts"],) if job.model.expert_kinds else ())]}


def _quantised(job: Job, choice: TitanChoice) -> dict[str, dict[str, object]]:
    """Return the tables on low bits: the output layer and routers stay in 16 bit."""
    if job.workload.precision == "mxfp8":
        return {BLOCKS: {"recipe_name": "mxfp8_cublas", "filter_fqns": ["output"]}}
    if job.workload.precision != "fp8":
        return {}
    recipe = RECIPES[choice.float8_scales]
    tables: dict[str, dict[str, object]] = {
        LOW["linear"]: {"recipe_name": recipe, "filter_fqns": ["output", "router.gate"]}
    }
    return tables | ({LOW["experts"]: {"fqns": ["experts"]}} if job.model.expert_kinds else {})


def toml_text(tables: dict[str, dict[str, object]]) -> str:
    """Return the TOML of tables of plain values; JSON's strings, lists and numbers are TOML's."""
    lines = []
    for table, values in tables.items():
        lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items()), ""]
    return "\n".join(lines)


def toml_command(plan: Plan, job: Job, version: str, choice: TitanChoice) -> Command:
    """Return what starts the plan on a release that reads TOML.

    Raises `UnsupportedPlan` if the release cannot run what the newest can.
    """
    found = refusals(plan, job, version)
    if found:
        raise UnsupportedPlan(f"torchtitan {version} does not run " + "; nor ".join(found))
    options = production(version)
    known = (*VARIABLES, *(name for name in options.values() if name == "DECAY_STEPS"))
    header = f"# torchtitan {version}\n"
    return Command(
        program=("torchtitan.train", "--job.config_file", f"{MODULE}.toml"),
        environment=GROWING_SEGMENTS,
        production=tuple(
            part for name, variable in options.items() for part in (f"--{name}", f"${{{variable}}}")
        ),
        smoke=("--training.steps", str(SMOKE_STEPS), "--checkpoint.no-enable"),
        production_needs=("DATA_PATH", "TOKENIZER_PATH", "OUTPUT_DIR"),
        defaults=run_of(job).defaults(*known),
        where_set=WHERE_SET,
        step_line=STEP_LINE,
        module=True,
        files={
            f"{MODULE}.toml": header + toml_text(job_config(plan, job, choice)),
            f"{MODULE}.py": module_text(job, version),
        },
    )
