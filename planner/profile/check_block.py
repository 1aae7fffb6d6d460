"""One layer of a plan as one piece of PyTorch: what it keeps for its backward pass, and its peak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.cost.case import Case
from planner.cost.layer.shapes import Shape
from planner.dataclasses import dataclass
from planner.inputs.model import Attention, Block, DenseFfn
from planner.plan import Plan
from planner.profile.benches.elementwise import turned
from planner.profile.benches.family import random_tensor
from planner.profile.check_kernels import norm_function
from planner.profile.device import Device


@dataclass(frozen=True)
class Kept:
    """Bytes of a layer."""

    held: float
    """What forward keeps for backward, weights left out. [byte]"""
    peak: float | None
    """Most that was allocated at once in both passes; None where the device does not count. [byte]"""


def why_not(block: Block, plan: Plan) -> str:
    """Return why a layer is not built as a whole, empty where it is."""
    if (
        not isinstance(block.mixer, Attention)
        or block.beside
        or block.mixer.gate_width
        or not block.mixer.makes_values
    ):
        return "any but plain attention is compared operator by operator alone"
    if not isinstance(block.ffn, DenseFfn):
        return "experts are compared operator by operator alone"
    mixer = block.mixer
    if block.norms != 2 or mixer.window is not None or mixer.qk_norm != "none" or plan.cp > 1:
        return "further norms, a window or context parallelism are compared operator by operator alone"
    return ""


@dataclass(frozen=True)
class Layer:
    """One rank's share of a layer, with random weights and input."""

    device: Device
    """Where it lies."""
    case: Case
    """The job."""
    plan: Plan
    """Degrees."""
    block: Block
    """The layer; one that `why_not` has nothing against."""
    shapes: Mapping[str, Shape]
    """Operator to its shape."""

    def weights(self) -> dict[str, Any]:
        """Return the weights of this rank, all learning."""
        hidden = self.case.model.hidden
        found = {name: random_tensor(self.device, "bf16", hidden, grad=True) for name in ("norm_0", "norm_1")}
        for name in ("qkv", "attention_out", "mlp_in", "mlp_out"):
            sizes = self.shapes[name].sizes
            scale = sizes["inputs"] ** -0.5
            weight = random_tensor(self.device, "bf16", int(sizes["outputs"]), int(sizes["inputs"]))
            found[name] = weight.mul_(scale).requires_grad_()
        return found

    @property
    def copies(self) -> int:
        """Ranks that a sequence is split over where norms and residuals run. [-]"""
        return int(self.plan.tp) if self.case.sequence_parallel else 1

    def forward(self, weights: Mapping[str, Any], data: Any) -> Any:
        """Run the layer on the tokens of this rank."""
        functional = self.device.torch.nn.functional
        hidden = self.case.model.hidden
        norm = norm_function(self.device, self.case.model.norm)
        normed = norm(data, (hidden,), weights["norm_0"])
        mixed = self._attend(functional.linear(self._gathered(normed), weights["qkv"]))
        data = data + self._split(functional.linear(mixed, weights["attention_out"]))
        normed = norm(data, (hidden,), weights["norm_1"])
        inner = self._activate(functional.linear(self._gathered(normed), weights["mlp_in"]))
        return data + self._split(functional.linear(inner, weights["mlp_out"]))

    def _gathered(self, data: Any) -> Any:
        return data.repeat(self.copies, 1) if self.copies > 1 else data

    def _split(self, data: Any) -> Any:
        return data[: data.shape[0] // self.copies] if self.copies > 1 else data

    def _attend(self, width: Any) -> Any:
        mixer = self.block.mixer
        assert isinstance(mixer, Attention)
        torch, batch, size = self.device.torch, int(self.plan.micro_batch), mixer.head_dim
        heads = int(mixer.heads // self.plan.tp)
        kv_heads = int(max(mixer.kv_heads // self.plan.tp, 1))
        parts = width.view(batch, -1, heads + 2 * kv_heads, size).transpose(1, 2)
        query, key, value = parts.split((heads, kv_heads, kv_heads), dim=1)
        if mixer.rotary:
            angles = torch.ones(query.shape[2], size, device=self.device.where, dtype=query.dtype)
            query, key = (turned(torch, tensor, angles, angles) for tensor in (query, key))
        product = torch.nn.functional.scaled_dot_product_attention
        mixed = product(query, key, value, is_causal=True, enable_gqa=heads != kv_heads)
        return mixed.transpose(1, 2).reshape(width.shape[0], heads * size)

    def _activate(self, wide: Any) -> Any:
        functional = self.device.torch.nn.functional
        ffn = self.block.ffn
        assert isinstance(ffn, DenseFfn)
        if not ffn.gated:
            return functional.gelu(wide)
        gate, up = wide.chunk(2, dim=-1)
        return functional.silu(gate) * up

    def tokens(self) -> int:
        """Tokens of this rank where norms run. [-]"""
        return int(self.plan.micro_batch * self.case.workload.seq_len // self.copies)


def kept_bytes(layer: Layer, recompute: bool) -> Kept:
    """Run both passes of a layer and count what is kept between them.

    ``recompute``: whether its forward pass is repeated, so that its input alone is kept.
    """
    device, torch = layer.device, layer.device.torch
    weights = layer.weights()
    data = random_tensor(device, "bf16", layer.tokens(), layer.case.model.hidden, grad=True)
    own = {weight.untyped_storage().data_ptr() for weight in weights.values()}
    storages: dict[int, int] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    before = _reset_peak(device)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        if recompute:
            run = torch.utils.checkpoint.checkpoint
            result = run(layer.forward, weights, data, use_reentrant=False)
            storages = {data.untyped_storage().data_ptr(): data.untyped_storage().nbytes()}
        else:
            result = layer.forward(weights, data)
        held = float(sum(storages.values()))
    result.sum().backward()
    return Kept(held, _peak(device, before))


def _reset_peak(device: Device) -> float:
    if device.is_cpu:
        return 0.0
    device.torch.cuda.reset_peak_memory_stats(device.index)
    return float(device.torch.cuda.memory_allocated(device.index))


def _peak(device: Device, before: float) -> float | None:
    if device.is_cpu:
        return None
    return float(device.torch.cuda.max_memory_allocated(device.index)) - before
