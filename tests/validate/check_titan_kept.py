"""What torchtitan's layers keep for backward, of emitted modules that describe small ones.

Each line on stdin is a folder with a ``titan_plan.py`` and a number of tokens, which are two documents; the
answer is a line of JSON: the bytes beside weights that the first layer of each kind saves, that of an encoder
of images too. In the place of
flash-linear-attention's kernels and of FlexAttention stand what saves the same. TORCHTITAN is the checkout.
"""

import importlib
import json
import os
import sys
import types

import torch

sys.path.insert(0, os.environ["TORCHTITAN"])
os.environ.setdefault("DATA_PATH", "data")

from check_kept import ChunkedRule, ShortConvolution
from torch import nn
from torchtitan.models.common.rope import CosSinRoPE
from torchtitan.models.qwen3_5 import gdn


class Attention(nn.Module):
    """PyTorch's own kernel, which keeps what FlexAttention does."""

    causal = True

    def forward(self, *tensors, scale=None, enable_gqa=False, **_):
        heads = (tensor.transpose(0, 1).unsqueeze(0) for tensor in tensors)
        run = nn.functional.scaled_dot_product_attention
        made = run(*heads, is_causal=self.causal, scale=scale, enable_gqa=enable_gqa)
        return made.squeeze(0).transpose(0, 1)


class Whole(Attention):
    """The same without a mask."""

    causal = False


def kept(config, tokens, width):
    """Return the bytes that one layer saves beside weights, each storage once."""
    if config.attention is not None:
        config.attention.rope.max_context_length = tokens
    layer = config.build().to(torch.bfloat16)
    for weights in layer.parameters():
        weights.data.normal_(std=0.02)
    places = torch.arange(tokens)
    starts = (0, tokens // 2, tokens)
    documents = types.SimpleNamespace(cu_seq_q=torch.tensor(starts, dtype=torch.int32), cu_seq_q_host=starts)
    if config.attention is not None:
        layer.attn.inner_attention = Attention()
        layer.attn.rope.init_states(buffer_device=torch.device("cpu"))
    inputs = torch.randn(tokens, width, dtype=torch.bfloat16, requires_grad=True)
    return saved(layer, lambda: layer(inputs, {"deltanet": documents, "quadratic_attention": None}, places))


def saved(layer, run, *others):
    """Return the bytes that a pass saves beside weights and ``others``, each storage once."""
    known = [*layer.parameters(), *layer.buffers(), *others]
    held = {one.untyped_storage().data_ptr() for one in known}
    found, alive = {}, []

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in held:
            found[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(found.values())


def kept_of_image(config, tokens):
    """Return the bytes that a layer of the encoder of images saves beside weights, of one image."""
    layer = config.block.build().to(torch.bfloat16)
    layer.attn.flex_attention = Whole()
    rope = torch.randn(tokens, 1, 2 * (config.dim // config.num_heads))
    inputs = torch.randn(tokens, config.dim, dtype=torch.bfloat16, requires_grad=True)
    turn = CosSinRoPE.apply_rotary_emb
    return saved(layer, lambda: layer(inputs, rope_cache=rope, rope_apply=turn, attention_mask=None), rope)


def main():
    """Answer each line."""
    torch.manual_seed(0)
    torch.cuda.get_device_capability = lambda *_, **__: (9, 0)
    gdn._fla_chunk_gated_delta_rule = lambda *tensors, **_: (ChunkedRule.apply(*tensors), None)
    gdn._causal_conv1d_varlen = lambda inputs, weight, *_: ShortConvolution.apply(inputs, weight)
    for line in sys.stdin:
        folder, tokens = line.split()
        sys.modules.pop("titan_plan", None)
        importlib.invalidate_caches()
        sys.path.insert(0, folder)
        module = importlib.import_module("titan_plan")
        sys.path.remove(folder)
        layers = module.model_spec().model.layers
        first = {layer.attention is not None: layer for layer in reversed(layers)}
        width = module.MODEL["dim"]
        answer = {name: kept(first[name == "full"], int(tokens), width) for name in ("linear", "full")}
        if "vision" in module.MODEL:
            encoder = module.model_spec().model.vision_encoder
            answer["vision"] = kept_of_image(encoder, module.MODEL["vision"]["patches"])
        sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
