"""What transformers' code keeps for backward of a layer, and how many parameters a model has there.

Each line on stdin is an attention and a folder with a ``config.json``, and in ``small`` one of layers that
fit a processor. Answers are lines of JSON: parameters, classes of all modules, names of linear layers,
keys of the file that the type does not declare, and the bytes of tensors beside weights that one small layer
saves. In the place of FlashAttention's package stands PyTorch's own kernel, which keeps the same.
"""

import dataclasses
import importlib
import json
import sys
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

TOKENS = 256
SMALL_VOCABULARY = 512
STAND_IN = "stand-in"


def main() -> None:
    """Answer each folder."""
    torch.manual_seed(0)
    torch.bmm = BatchedProduct.apply
    ALL_ATTENTION_FUNCTIONS.register(STAND_IN, stand_in)
    ALL_MASK_ATTENTION_FUNCTIONS.register(STAND_IN, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    for line in sys.stdin:
        attention, folder = line.split()
        config = AutoConfig.from_pretrained(folder)
        with torch.device("meta"):
            model = network(config).from_config(config)
        linear = {name for name, part in model.named_modules() if isinstance(part, torch.nn.Linear)}
        answer = {
            "params": sum(
                parameter.numel()
                for name, parameter in model.named_parameters()
                if not name.endswith("e_score_correction_bias")
            ),
            "classes": sorted({type(module).__name__ for module in model.modules()}),
            "linear": sorted(linear),
            "undeclared": sorted(undeclared(folder, type(config))),
            **layer_bytes(AutoConfig.from_pretrained(folder + "/small"), attention),
        }
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def network(config):
    """Return what builds the model that a configuration is for."""
    ends = {"ForMaskedLM": AutoModelForMaskedLM, "ForConditionalGeneration": AutoModelForSeq2SeqLM}
    name = config.architectures[0]
    return next((maker for end, maker in ends.items() if name.endswith(end)), AutoModelForCausalLM)


def stand_in(module, query, key, value, _mask, softcap=None, **options):
    """Return what PyTorch's kernel makes, without a bound on scores, which keeps nothing more.

    And without a window's mask, of which PyTorch makes numbers and the package none.
    """
    return sdpa_attention_forward(module, query, key, value, None, **options)


def undeclared(folder, kind) -> set[str]:
    """Return the keys of a configuration that its class declares nowhere."""
    fields = {one.name for one in dataclasses.fields(kind)}
    known = fields | {*kind.attribute_map, *kind.sub_configs, "model_type", "architectures"}
    return set(json.loads(Path(folder, "config.json").read_text())) - known


def modelling_code(config):
    """Return the module of a type's layers."""
    name = config.model_type.removesuffix("_text").replace("-", "_")
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


def own_classes(config) -> None:
    """Let a type that picks its attention by class take FlashAttention's, with PyTorch's kernel inside."""
    module = modelling_code(config)
    table = next((one for key, one in vars(module).items() if key.endswith("_ATTENTION_CLASSES")), None)
    if table is not None:
        table["eager"] = table["flash_attention_2"]
        module._flash_attention_forward = lambda query, key, value, *_, **__: (
            torch.nn.functional.scaled_dot_product_attention(
                query.transpose(1, 2),
                key.transpose(1, 2),
                value.transpose(1, 2),
                is_causal=True,
                enable_gqa=True,
            ).transpose(1, 2)
        )


class ChunkedRule(torch.autograd.Function):
    """Saves what flash-linear-attention's kernel does for backward, and makes no result.

    Normed queries and keys with the inverses of their lengths, a copy of the values, sums of gates in fp32,
    strengths, and the inverse of each chunk of 64 (0.6.0, ``fla/ops/gated_delta_rule/chunk.py``).
    """

    @staticmethod
    def forward(ctx, query, key, value, gate, strength):
        lengths = [part.float().norm(dim=-1) for part in (query, key)]
        own = [part.clone(memory_format=torch.contiguous_format) for part in (query, key, value)]
        inverse = value.new_empty(*value.shape[:3], 64)
        ctx.save_for_backward(*own, *lengths, gate.cumsum(1), strength, inverse)
        return torch.zeros(value.shape, dtype=value.dtype)

    @staticmethod
    def backward(ctx, *_):
        raise NotImplementedError


class ShortConvolution(torch.autograd.Function):
    """Saves what causal-conv1d does, its input alone; the activation is part of it."""

    @staticmethod
    def forward(ctx, inputs, weight):
        ctx.save_for_backward(inputs, weight)
        return torch.zeros_like(inputs)

    @staticmethod
    def backward(ctx, *_):
        raise NotImplementedError


class BatchedProduct(torch.autograd.Function):
    """Saves what a batched product does, its factors, and makes no result: minutes without units for bf16."""

    @staticmethod
    def forward(ctx, one, other):
        ctx.save_for_backward(one, other)
        return one.new_zeros(*one.shape[:-1], other.shape[-1])

    @staticmethod
    def backward(ctx, *_):
        raise NotImplementedError


def own_scans(config) -> None:
    """Let gated delta nets keep what the packages' kernels do, which run on no processor."""
    module = modelling_code(config)
    if hasattr(module, "torch_chunk_gated_delta_rule"):
        module.torch_chunk_gated_delta_rule = lambda query, key, value, g, beta, **_: (
            ChunkedRule.apply(query, key, value, g, beta),
            None,
        )
        module.causal_conv1d_fn = lambda inputs, weight, *_, **__: ShortConvolution.apply(inputs, weight)


def layer_bytes(config, attention) -> dict[str, int]:
    """Return what the last of three layers saves beside weights, each storage once; of each half, if two."""
    config.num_hidden_layers = 3
    halves = config.is_encoder_decoder
    for name in ("decoder_layers", "num_decoder_layers") if halves else ():
        setattr(config, name, 3)
    config.vocab_size = SMALL_VOCABULARY
    config.pad_token_id = config.bos_token_id = config.eos_token_id = 0
    packaged = attention == "flash_attention_2"
    if packaged:
        own_classes(config)
    own_scans(config)
    built = "eager" if packaged else attention
    model = network(config).from_config(config, attn_implementation=built).to(torch.bfloat16).train()
    if packaged:
        model.config._attn_implementation_internal = STAND_IN
    held = [*model.parameters(), *model.buffers()]
    weights = {tensor.untyped_storage().data_ptr() for tensor in held}
    saved, marks, alive = {}, {}, []

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    stacks = [part for part in model.modules() if isinstance(part, torch.nn.ModuleList) and len(part) == 3]
    if halves:  # a layer of T5's decoder is itself a list of three
        stacks = [part for part in stacks if len({type(one) for one in part}) == 1]
    names = ("read", "kept") if halves else ("kept",)
    for name, stack in zip(names, stacks, strict=False):
        marks[name] = []
        stack[-1].register_forward_pre_hook(lambda *_, name=name: marks[name].append(sum(saved.values())))
        stack[-1].register_forward_hook(lambda *_, name=name: marks[name].append(sum(saved.values())))
    inputs = {"input_ids": torch.randint(0, SMALL_VOCABULARY, (1, TOKENS))}
    if halves:
        source = getattr(config, "n_positions", None) or config.max_position_embeddings
        inputs = {"decoder_input_ids": inputs["input_ids"], "use_cache": False}
        inputs["input_ids"] = torch.randint(0, SMALL_VOCABULARY, (1, source))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(**inputs)
    return {name: last - first for name, (first, last) in marks.items()}


if __name__ == "__main__":
    main()
