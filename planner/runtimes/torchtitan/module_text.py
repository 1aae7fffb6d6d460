"""Text of the Python module that torchtitan since its configs became Python reads a plan's model from."""

from planner.runtimes.torchtitan import delta, vision
from planner.runtimes.torchtitan.sinking import FAMILY, IMPORTS, LAYERS

HEAD = '''"""Model and defaults of one plan, for torchtitan at commit b5bcd76c (2026-08-21).

Start it with: -m torchtitan.train --module titan_plan --config train ...
"""

import os
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torchtitan.components.checkpointer import CheckpointManager
from torchtitan.components.data import (
    ConcatThenSplitPackingConfig,
    DatasetMixConfig,
    GrainDataLoader,
    HuggingFaceRandomAccessSource,
    SingleDatasetConfig,
    WeightedDataset,
)
from torchtitan.components.data.loader import BaseDataLoader
from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss
from torchtitan.components.metrics import MetricsProcessor
from torchtitan.components.optimizer import (
    LRSchedulersContainer,
    default_adamw,
    register_moe_load_balancing_hook,
)
from torchtitan.components.tokenizer import BaseTokenizer
from torchtitan.components.validate import Validator
from torchtitan.config import CommConfig, ParallelismConfig
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
    FAMILY: (IMPORTS, LAYERS),
    delta.FAMILY: (delta.IMPORTS, delta.TEXT_ALONE + delta.LAYERS),
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

SEEING = (delta.IMPORTS + vision.IMPORTS, vision.SEEING + delta.LAYERS)
"""The same of a model that sees images."""

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


def told(name):
    """Return a number of the run: the user's variable, or the plan's."""
    return type(RUN[name])(os.environ.get(name) or RUN[name])


def one_dataset(path, split):
    kept = {"cache_dir": os.environ["DATA_CACHE"]} if os.environ.get("DATA_CACHE") else {}
    return SingleDatasetConfig(
        source=HuggingFaceRandomAccessSource.Config(path=path, split=split, load_dataset_kwargs=kept),
        processor=TextProcessor.Config(),
        post_filters=(lambda sample: sample is not None,),
    )


def dataset(split):
    """DATA_PATH is a folder or the name of a data set, several, or a blend such as "0.7 a 0.3 b"."""
    given = os.environ["DATA_PATH"]
    words = [given] if os.path.exists(given) else given.split()
    try:
        weights, paths = [float(word) for word in words[::2]], words[1::2]
    except ValueError:
        weights, paths = [1.0] * len(words), words
    if len(paths) == 1:
        return ConcatThenSplitPackingConfig(dataset=one_dataset(paths[0], split))
    parts = (
        WeightedDataset(dataset=one_dataset(path, split), weight=weight)
        for path, weight in zip(paths, weights, strict=True)
    )
    return ConcatThenSplitPackingConfig(dataset=DatasetMixConfig(datasets=tuple(parts)))


class NoTokenizer(BaseTokenizer):
    """Stands where made-up tokens need none."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config, **_):
        super().__init__()

    def encode(self, *_, **__):
        return []

    def decode(self, *_, **__):
        return ""

    def get_vocab_size(self):
        return MODEL["vocab_size"]


class MadeUp(BaseDataLoader):
    """Batches of random tokens."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        pass

    def __init__(self, config, *, dp_rank, max_context_length, num_tokens_per_batch, **_):
        self.seed, self.length, self.count = dp_rank, max_context_length, num_tokens_per_batch

    def __iter__(self):
        numbers = torch.Generator().manual_seed(self.seed)
        positions = torch.arange(self.count) % self.length
        while True:
            tokens = torch.randint(MODEL["vocab_size"], (self.count + 1,), generator=numbers)
            yield {"input": tokens[:-1], "positions": positions.clone()}, tokens[1:]

    def state_dict(self):
        return {}

    def load_state_dict(self, state_dict):
        pass


def loss():
    """Return the loss of a whole micro-batch, or of its parts one after another."""
    whole = CrossEntropyLoss.Config(global_vocab_size=MODEL["vocab_size"])
    return ChunkedLossWrapper.Config(num_chunks=LOSS_CHUNKS, loss_fn=whole) if LOSS_CHUNKS > 1 else whole


def shared():
    """What a real run and a smoke run have in common beside the command line."""
    seconds = int(60 * told("TIMEOUT_MINUTES"))
    return dict(
        model_spec=model_spec(),
        loss=loss(),
        optimizer=default_adamw(lr=told("LEARNING_RATE"), **OPTIMIZER),
        lr_scheduler=LRSchedulersContainer.Config(
            decay_type="cosine", min_lr_factor=told("MIN_LEARNING_RATE") / told("LEARNING_RATE")
        ),
        metrics=MetricsProcessor.Config(log_freq=1),
        parallelism=ParallelismConfig(module_fqns_per_model_part=PARTS),
        comm=CommConfig(init_timeout_seconds=seconds, train_timeout_seconds=seconds),
    )


def train():
    """A real run; it is evaluated on the data's split "validation" where EVAL_STEPS is set."""
    held = {}
    if told("EVAL_STEPS"):
        loader = GrainDataLoader.Config(dataset=dataset("validation"), seed=told("SEED"))
        steps, interval = told("EVAL_STEPS"), told("EVAL_INTERVAL")
        held["validator"] = Validator.Config(enable=True, freq=interval, steps=steps, dataloader=loader)
    return Trainer.Config(
        **shared(),
        **held,
        dataloader=GrainDataLoader.Config(dataset=dataset("train"), seed=told("SEED")),
        checkpoint=CheckpointManager.Config(last_save_model_only=False),
    )


def smoke():
    """The same on made-up tokens, with no tokenizer and no checkpoint."""
    return Trainer.Config(
        **shared(),
        tokenizer=NoTokenizer.Config(),
        dataloader=MadeUp.Config(),
        checkpoint=CheckpointManager.Config(),
    )
'''

FLOAT8_MODULE = """FLOAT8 = "rowwise"
CONVERTERS = [
    Float8LinearConverter.Config(
        recipe_name=FLOAT8,
        filter_fqns=["lm_head", "router.gate"],
        model_compile_enabled={compiled},
    ),
"""

LOW_BITS_MODULE = """LOW_BITS = "{precision}"
CONVERTERS = [{kind}.Config(fqns=["layers."], model_compile_enabled={compiled})]
"""
"""Products of layers alone: with no names the head would be converted too (``components/quantization``)."""

FLOAT8_EXPERTS = "    Float8GroupedExpertsConverter.Config(model_compile_enabled={compiled}),\n"
