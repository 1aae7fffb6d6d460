"""Files for torchtitan since its configs became Python: a module with the model, and the command line."""

from __future__ import annotations

import math

from planner.plan import Plan
from planner.runtimes._family import GROWING_SEGMENTS, Command, Job
from planner.runtimes._offered import train_steps
from planner.runtimes.torchtitan.choice import Choice
from planner.runtimes.torchtitan.model_data import family, literal, model_data, part_names
from planner.runtimes.torchtitan.rules import training_dtype
from planner.runtimes.torchtitan.schedules import SCHEDULES

MODULE = "titan_plan"

HEAD = '''"""Model and defaults of one plan, for torchtitan at commit b5bcd76c (2026-08-21).

Start it with: -m torchtitan.train --module titan_plan --config train ...
"""

import os
from functools import partial

from torch import nn
from torchtitan.components.checkpointer import CheckpointManager
from torchtitan.components.data import (
    ConcatThenSplitPackingConfig,
    GrainDataLoader,
    HuggingFaceRandomAccessSource,
    SingleDatasetConfig,
)
from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss
from torchtitan.components.metrics import MetricsProcessor
from torchtitan.components.optimizer import (
    LRSchedulersContainer,
    default_adamw,
    register_moe_load_balancing_hook,
)
from torchtitan.config import ParallelismConfig
from torchtitan.distributed.pipeline_parallel import pipeline_llm
from torchtitan.hf_datasets.text_datasets import TextProcessor
from torchtitan.models.common import CosSinRoPE, ComplexRoPE, Embedding, Linear, RMSNorm
from torchtitan.models.common.config_utils import (
    get_attention_config,
    make_ffn_config,
    make_gqa_config,
    make_moe_config,
    make_routed_experts_config,
    make_router_config,
)
from torchtitan.models.common.param_init import skip_param_init
from torchtitan.protocols.model_spec import ModelSpec
from torchtitan.trainer import Trainer

'''

BODY = """
LINEAR = {"weight": partial(nn.init.trunc_normal_, std=MODEL["init_std"]), "bias": nn.init.zeros_}
EXPERTS = {name: LINEAR["weight"] for name in ("w1_EFD", "w2_EDF", "w3_EFD")}


def norm(width):
    return RMSNorm.Config(
        normalized_shape=width, eps=MODEL["norm_eps"], param_init={"weight": nn.init.ones_}
    )


def feed_forward(width):
    return make_ffn_config(
        dim=MODEL["dim"], hidden_dim=width, w1_param_init=LINEAR, w2w3_param_init=LINEAR
    )


def experts(block):
    count, topk, shared = block["num_experts"], block["top_k"], block["shared_hidden_dim"]
    return make_moe_config(
        num_experts=count,
        router=make_router_config(
            dim=MODEL["dim"],
            num_experts=count,
            gate_param_init=LINEAR,
            top_k=topk,
            **MODEL["router"],
        ),
        routed_experts=make_routed_experts_config(
            dim=MODEL["dim"],
            hidden_dim=block["moe_hidden_dim"],
            num_experts=count,
            top_k=topk,
            param_init=EXPERTS,
            comm_backend="standard",
        ),
        shared_experts=feed_forward(shared) if shared else None,
    )


def layer(kind, attention, block):
    dense = "hidden_dim" in block
    return kind.Config(
        attention=attention,
        attention_norm=norm(MODEL["dim"]),
        ffn_norm=norm(MODEL["dim"]),
        feed_forward=feed_forward(block["hidden_dim"]) if dense else None,
        moe=None if dense else experts(block),
    )


def grouped_query(block, rope):
    width = block["head_dim"]
    return make_gqa_config(
        dim=MODEL["dim"],
        n_heads=block["n_heads"],
        n_kv_heads=block["n_kv_heads"],
        head_dim=width,
        wqkv_param_init=LINEAR,
        wo_param_init=LINEAR,
        inner_attention=get_attention_config("flex"),
        fuse_qkv=True,
        rope=rope.Config(dim=width, max_context_length=MODEL["max_context_length"], **MODEL["rope"]),
        qk_norm=norm(width) if block["qk_norm"] else None,
    )
"""

FAMILIES = {
    "llama3": (
        """from torchtitan.models.llama3 import parallelize_llama as parallelize
from torchtitan.models.llama3.model import Llama3Model as Model, Llama3TransformerBlock as Block
from torchtitan.models.llama3.state_dict_adapter import Llama3StateDictAdapter as Adapter
""",
        """



def layers():
    return [
        layer(Block, grouped_query(block, ComplexRoPE), block)
        for count, block in MODEL["runs"]
        for _ in range(count)
    ]
""",
    ),
    "qwen3": (
        """from torchtitan.models.qwen3 import parallelize_qwen3 as parallelize
from torchtitan.models.qwen3.model import Qwen3Model as Model, Qwen3TransformerBlock as Block
from torchtitan.models.qwen3.state_dict_adapter import Qwen3StateDictAdapter as Adapter
""",
        """



def layers():
    return [
        layer(Block, grouped_query(block, CosSinRoPE), block)
        for count, block in MODEL["runs"]
        for _ in range(count)
    ]
""",
    ),
    "deepseek_v3": (
        """from torchtitan.models.deepseek_v3 import make_mla_attention_config
from torchtitan.models.deepseek_v3 import parallelize_deepseekv3 as parallelize
from torchtitan.models.deepseek_v3.model import DeepSeekV3Model as Model
from torchtitan.models.deepseek_v3.model import DeepSeekV3TransformerBlock as Block
from torchtitan.models.deepseek_v3.state_dict_adapter import DeepSeekV3StateDictAdapter as Adapter
""",
        """


LATENT = (
    "n_heads", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
)


def latent(index, block):
    return make_mla_attention_config(
        layer_id=index,
        dim=MODEL["dim"],
        **{name: block[name] for name in LATENT},
        attn_backend="flex",
        linear_init=LINEAR,
        norm_init={"weight": nn.init.ones_},
        depth_init=lambda layer_id: LINEAR,
        rope=ComplexRoPE.Config(
            dim=block["qk_rope_head_dim"], max_context_length=MODEL["max_context_length"], **MODEL["rope"]
        ),
        mscale=MODEL.get("mscale", 1.0),
    )


def layers():
    blocks = [block for count, block in MODEL["runs"] for _ in range(count)]
    return [layer(Block, latent(index, block), block) for index, block in enumerate(blocks)]
""",
    ),
}

TAIL = '''

def model_spec():
    init = {"weight": partial(nn.init.normal_, std=MODEL["init_std"])}
    if MODEL["tied"]:
        init = {"weight": skip_param_init}
    config = Model.Config(
        dim=MODEL["dim"],
        vocab_size=MODEL["vocab_size"],
        enable_weight_tying=MODEL["tied"],
        tok_embeddings=Embedding.Config(
            num_embeddings=MODEL["vocab_size"], embedding_dim=MODEL["dim"], param_init=init
        ),
        norm=norm(MODEL["dim"]),
        lm_head=Linear.Config(
            in_features=MODEL["dim"], out_features=MODEL["vocab_size"], param_init=LINEAR
        ),
        layers=layers(),
    )
    sparse = any("num_experts" in block for _, block in MODEL["runs"])
    return ModelSpec(
        name=MODEL["name"],
        flavor="plan",
        model=config,
        parallelize_fn=parallelize,
        pipelining_fn=pipeline_llm,
        post_optimizer_build_fn=register_moe_load_balancing_hook if sparse else None,
        state_dict_adapter=Adapter,
    )


def dataset():
    return ConcatThenSplitPackingConfig(
        dataset=SingleDatasetConfig(
            source=HuggingFaceRandomAccessSource.Config(path=os.environ["DATA_PATH"], split="train"),
            processor=TextProcessor.Config(),
            post_filters=(lambda sample: sample is not None,),
        )
    )


def loss():
    """Return the loss of a whole micro-batch, or of its parts one after another."""
    whole = CrossEntropyLoss.Config(global_vocab_size=MODEL["vocab_size"])
    return ChunkedLossWrapper.Config(num_chunks=LOSS_CHUNKS, loss_fn=whole) if LOSS_CHUNKS > 1 else whole


def train():
    """Everything that the command line does not say."""
    return Trainer.Config(
        model_spec=model_spec(),
        loss=loss(),
        optimizer=default_adamw(lr=3e-4),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=10),
        dataloader=GrainDataLoader.Config(dataset=dataset()),
        metrics=MetricsProcessor.Config(log_freq=1),
        parallelism=ParallelismConfig(module_fqns_per_model_part=PARTS),
        checkpoint=CheckpointManager.Config(),
    )
'''

SAVE_STEPS = 1000
"""Steps from one checkpoint to the next."""

RECOMPUTES = {"none": "none", "selective": "selective", "full": "full"}


def module_text(plan: Plan, job: Job, choice: Choice) -> str:
    """Return the Python module that ``--module`` names; fp8 is a list of converters of the model."""
    data = literal("MODEL", model_data(job.model, job.workload.seq_len))
    parts = literal("PARTS", part_names(plan, job.model, "lm_head"))
    imports, layers = FAMILIES[family(job.model)]
    chunks = f"\nLOSS_CHUNKS = {choice.loss_chunks}\n"
    text = HEAD + imports + "\n" + data + parts + chunks + BODY + layers + TAIL
    if job.workload.precision != "fp8":
        return text
    low = FLOAT8_MODULE + (FLOAT8_EXPERTS if job.model.expert_kinds else "") + "]\n"
    return _converted(text, low.format(compiled=choice.compiled))


def _converted(text: str, converters: str) -> str:
    """Return a module whose model passes through converters before it is built."""
    names = "Float8GroupedExpertsConverter, Float8LinearConverter"
    imported = f"from torchtitan.components.quantization import {names}\nfrom torchtitan.config import Par"
    text = text.replace("from torchtitan.config import Par", imported, 1)
    text = text.replace("\n\ndef model_spec():", f"\n\n{converters}\n\ndef model_spec():", 1)
    turned = "    for converter in CONVERTERS:\n        config = converter.build().convert(config)\n"
    return text.replace("    sparse = any(", turned + "    sparse = any(", 1)


FLOAT8_MODULE = """FLOAT8 = "rowwise"
CONVERTERS = [
    Float8LinearConverter.Config(
        recipe_name=FLOAT8,
        filter_fqns=["lm_head", "router.gate"],
        model_compile_enabled={compiled},
    ),
"""

FLOAT8_EXPERTS = "    Float8GroupedExpertsConverter.Config(model_compile_enabled={compiled}),\n"


def resharding(plan: Plan) -> str:
    """Word for what is let go after forward: without a pipeline all but the last norm and the head.

    References
    ----------
    .. [1] torchtitan 01e1814, ``torchtitan/distributed/fsdp.py``: ``default`` keeps these two gathered, and
       in a pipeline everything.
    """
    if plan.zero == 2:
        return "never"
    return "always" if plan.pp > 1 else "default"


def flags(plan: Plan, job: Job, choice: Choice) -> tuple[str, ...]:
    """Return the command line after ``--module`` and ``--config``, every degree said."""
    work = job.workload
    shards = plan.cp if plan.zero == 0 else plan.zero_shards
    values = {
        "parallelism.data_parallel_replicate_degree": plan.dp * plan.cp / shards,
        "parallelism.data_parallel_shard_degree": shards / plan.cp,
        "parallelism.tensor_parallel_degree": plan.tp,
        "parallelism.context_parallel_degree": plan.cp,
        "parallelism.pipeline_parallel_degree": plan.pp,
        "parallelism.expert_parallel_degree": plan.ep,
        "parallelism.num_pp_microbatches": plan.num_microbatches if plan.pp > 1 else 1,
        "training.num_tokens_per_microbatch_per_dp_rank": plan.micro_batch * work.seq_len,
        "training.num_tokens_per_train_step": work.tokens_per_step,
        "training.max_context_length": work.seq_len,
        "training.steps": train_steps(work),
        "checkpoint.interval": SAVE_STEPS,
    }
    words = {
        "parallelism.fsdp_reshard_after_forward": resharding(plan),
        "training.dtype": training_dtype(work),
        "training.mixed_precision_param": "bfloat16",
        "training.mixed_precision_reduce": "float32",
        "hf_assets_path": "${TOKENIZER_PATH}",
        "dump_folder": "${OUTPUT_DIR}",
    }
    schedule = SCHEDULES[plan.schedule] if plan.pp > 1 else None
    if schedule is not None:
        words["parallelism.pipeline_parallel_schedule"] = schedule.name
    switches = [
        "training.disable_cuda_graphs",
        "checkpoint.enable",
        f"parallelism.{'' if plan.sequence_parallel else 'no-'}enable_sequence_parallel",
        f"compile.{'' if choice.compiled else 'no-'}enable",
        *(("compile.enable_async_tensor_parallel",) if choice.async_tp else ()),
    ]
    pairs = {name: str(math.floor(value)) for name, value in values.items()} | words
    text = [part for name, value in pairs.items() for part in (f"--{name}", value)]
    return (*text, *(f"--{name}" for name in switches), f"activation-checkpoint:{RECOMPUTES[plan.recompute]}")


def current_command(plan: Plan, job: Job, choice: Choice) -> Command:
    """Return what starts the plan on the newest torchtitan."""
    return Command(
        program=("torchtitan.train", "--module", MODULE, "--config", "train", *flags(plan, job, choice)),
        environment=GROWING_SEGMENTS,
        needs=("DATA_PATH", "TOKENIZER_PATH", "OUTPUT_DIR"),
        module=True,
        files={f"{MODULE}.py": module_text(plan, job, choice)},
    )
