"""The operators of a layer as sums over named indices; `layer.shardings` derives splits from them.

Indices: t tokens, s tokens as keys, d the model's width, h heads, f a feed-forward's inner width, e experts,
k tokens of one expert, r a compressed width; of a head c all that is made at once, q queries, w keys and
values, v its result. A tensor is named by the operator that makes it; ``x`` enters the layer.
"""

from __future__ import annotations

from math import prod

from planner.dataclasses import dataclass
from planner.inputs.mixers.indexer import Indexer
from planner.inputs.model import Attention, Block, Experts, LatentAttention, Mixer
from planner.inputs.own_block import TOKENS, OwnBlock
from planner.inputs.recurrent import RecurrentMixer

Sizes = dict[str, float]
"""Elements along each index."""


@dataclass(frozen=True)
class Einsum:
    """One operator: the indices of what it reads, of its weights, and of what it writes."""

    name: str
    """As operators are called in prices."""
    reads: tuple[tuple[str, str], ...]
    """Tensors and the indices of each, in the operator's own names: attention reads keys along s."""
    weight: str
    """Indices of the weights, empty where there are none."""
    writes: str
    """Indices of the result."""
    whole: str
    """Indices along which its arithmetic cannot be cut: a norm's width, a scan's tokens, a router's
    experts."""
    sizes: Sizes
    """Elements along each index, all ranks together."""

    @property
    def text(self) -> str:
        """The sum in Einstein's notation, as NumPy writes it."""
        operands = [indices for _, indices in self.reads] + [self.weight] * bool(self.weight)
        return f"{','.join(operands)}->{self.writes}"

    @property
    def indices(self) -> str:
        """Every index once, in the order in which they stand."""
        return "".join(
            dict.fromkeys("".join(indices for _, indices in self.reads) + self.weight + self.writes)
        )

    @property
    def product_flops(self) -> float:
        """FLOPs of a product with weights, all ranks together; none without any. [FLOP]"""
        return 2.0 * self.elements(self.indices) if self.weight else 0.0

    def elements(self, indices: str) -> float:
        """Elements of a tensor with these indices, all ranks together. [element]"""
        return prod(self.sizes[index] for index in indices)


def block_einsums(block: Block, hidden: int, tokens: float) -> tuple[Einsum, ...]:
    """Return the operators of a layer, in their order, for so many tokens."""
    made: list[Einsum] = []
    stream = "x"
    common = {"t": tokens, "s": tokens, "d": float(hidden)}
    if block.mixer is not None:
        made.append(Einsum("norm_0", (("x", "td"),), "", "td", "d", common))
        ends = []
        for mixer in block.mixers:
            made += _mixer(mixer, hidden, common)
            ends.append((made[-1].name, "td"))
        made.append(Einsum("residual_attention", (("x", "td"), *ends), "", "td", "", common))
        stream = "residual_attention"
    if block.ffn is not None:
        made.append(Einsum("norm_1", ((stream, "td"),), "", "td", "d", common))
        if isinstance(block.ffn, Experts):
            made += _experts(block.ffn, common)
            fed = [made[-1].name]
            if block.ffn.shared_inner:
                made += _dense(block.ffn.shared_inner, common, "shared_experts")
                fed.append("shared_experts_out")
        else:
            made += _dense(block.ffn.inner, common, "mlp")
            fed = ["mlp_out"]
        reads = tuple((name, "td") for name in (stream, *fed))
        made.append(Einsum("residual_mlp", reads, "", "td", "", common))
    return tuple(made)


def own_einsums(block: OwnBlock, tokens: float) -> tuple[Einsum, ...]:
    """Return the operators of a block of one's own, for so many tokens."""
    sizes = dict.fromkeys(TOKENS, tokens) | {name: float(size) for name, size in block.sizes.items()}
    return tuple(
        Einsum(
            one.name,
            tuple(zip(one.reads, one.operands, strict=False)),
            one.weight,
            one.writes,
            one.whole,
            sizes,
        )
        for one in block.operators
    )


def _mixer(mixer: Mixer, hidden: int, common: Sizes) -> list[Einsum]:
    if isinstance(mixer, RecurrentMixer):
        return _recurrent(mixer, hidden, common)
    return _latent(mixer, common) if isinstance(mixer, LatentAttention) else _attention(mixer, common)


def _attention(mixer: Attention, common: Sizes) -> list[Einsum]:
    """Attention whose query heads go with their key/value head, which is what h counts."""
    shared = mixer.heads // mixer.kv_heads
    gate = getattr(mixer, "gate_width", 0) / mixer.kv_heads
    queries, keys = shared * mixer.qk_head_dim + gate, mixer.qk_head_dim + mixer.value_head_dim
    made = mixer.made_width if isinstance(mixer, Attention) else keys
    sizes = common | {
        "h": float(mixer.kv_heads),
        "c": float(queries + made),
        "q": float(queries),
        "w": float(keys),
        "v": float(shared * mixer.value_head_dim),
    }
    indexer = mixer.indexer if isinstance(mixer, Attention) else None
    index = _block_index(float(indexer.head_dim), sizes) if indexer else []
    core = (("qkv", "thq"), ("qkv", "shw"), *[("index_scores", "ths")] * bool(index))
    return [
        Einsum("qkv", (("norm_0", "td"),), "dhc", "thc", "c", sizes),
        *index,
        Einsum("attention", core, "", "thv", "qwv", sizes),
        Einsum("attention_out", (("attention", "thv"),), "hvd", "td", "v", sizes),
    ]


def _latent(mixer: LatentAttention, common: Sizes) -> list[Einsum]:
    ranks = mixer.q_lora_rank + mixer.kv_lora_rank + mixer.qk_rope_head_dim
    keys = mixer.qk_head_dim + mixer.v_head_dim
    sizes = common | {
        "r": float(ranks),
        "h": float(mixer.heads),
        "c": float(mixer.qk_head_dim + keys),
        "q": float(mixer.qk_head_dim),
        "w": float(keys),
        "v": float(mixer.v_head_dim),
    }
    core = (("key_value_up", "thq"), ("key_value_up", "shw"))
    index = _index(mixer.indexer, sizes) if mixer.indexer else []
    return [
        Einsum("latent_down", (("norm_0", "td"),), "dr", "tr", "dr", sizes),
        Einsum("key_value_up", (("latent_down", "tr"),), "rhc", "thc", "cr", sizes),
        *index,
        Einsum("attention", (*core, *[("index_scores", "ts")] * bool(index)), "", "thv", "qwv", sizes),
        Einsum("attention_out", (("attention", "thv"),), "hvd", "td", "v", sizes),
    ]


def _index(indexer: Indexer, common: Sizes) -> list[Einsum]:
    """Scores of the keys, summed over the heads i.

    A head's own score is cut at zero and the best of a row are picked, so that e and s stay whole.
    """
    sizes = common | {"i": float(indexer.heads), "e": float(indexer.head_dim)}
    return [
        Einsum("index_query", (("latent_down", "tr"),), "rie", "tie", "er", sizes),
        Einsum("index_key", (("norm_0", "td"),), "de", "te", "ed", sizes),
        Einsum("index_scores", (("index_query", "tie"), ("index_key", "se")), "", "ts", "es", sizes),
    ]


def _block_index(width: float, common: Sizes) -> list[Einsum]:
    """Scores of the keys for each key/value head h; the best blocks of a row are picked, so s stays whole."""
    sizes = common | {"e": width}
    return [
        Einsum("index_query", (("norm_0", "td"),), "dhe", "the", "ed", sizes),
        Einsum("index_key", (("norm_0", "td"),), "de", "te", "ed", sizes),
        Einsum("index_scores", (("index_query", "the"), ("index_key", "se")), "", "ths", "es", sizes),
    ]


def _recurrent(mixer: RecurrentMixer, hidden: int, common: Sizes) -> list[Einsum]:
    """A scan after its first product; steps, inputs and outputs of a state may come through a narrow one."""
    products = mixer.products(hidden)
    narrow = [one for one in products[:-1] if one.split == "rows"]
    columns = products[:1] if narrow else [one for one in products if one.split == "columns"]
    width, heads = sum(one.outputs for one in columns), mixer.state_heads
    sizes = common | {"h": float(heads), "c": width / heads, "v": float(mixer.value_head_dim)}
    sizes |= {"r": float(sum(one.outputs for one in narrow))}
    steps = [
        Einsum("state_in", (("mixer_in", "thc"),), "hcr", "tr", "rc", sizes),
        Einsum("step_up", (("state_in", "tr"),), "rh", "th", "r", sizes),
    ]
    reads = (("mixer_in", "thc"), *[("step_up", "th")] * bool(narrow))
    return [
        Einsum("mixer_in", (("norm_0", "td"),), "dhc", "thc", "c", sizes),
        *steps * bool(narrow),
        Einsum("scan", reads, "", "thv", "tcv", sizes),
        Einsum("mixer_out", (("scan", "thv"),), "hvd", "td", "v", sizes),
    ]


def _dense(width: int, common: Sizes, name: str) -> list[Einsum]:
    inner = common | {"f": float(width)}
    return [
        Einsum(f"{name}_in", (("norm_1", "td"),), "df", "tf", "", inner),
        Einsum(f"{name}_activation", ((f"{name}_in", "tf"),), "", "tf", "", inner),
        Einsum(f"{name}_out", ((f"{name}_activation", "tf"),), "fd", "td", "", inner),
    ]


def _experts(ffn: Experts, common: Sizes) -> list[Einsum]:
    """Routed experts: a token's copies stand at their experts as rows k, which go with the tokens.

    Before and after the experts e counts a token's copies, at them the experts themselves. Their width is d,
    or r where products to it and back stand before and after.
    """
    wide, first = ("r", "experts_latent_in") if ffn.latent else ("d", "norm_1")
    rows = {
        "e": float(ffn.experts),
        "k": common["t"] * ffn.picks / ffn.experts,
        "f": float(ffn.inner),
        "r": float(ffn.latent),
    }
    sizes, copies = common | rows, common | {"e": ffn.picks, "r": float(ffn.latent)}
    routed = [
        Einsum("permute", ((first, f"t{wide}"),), "", f"et{wide}", f"e{wide}", copies),
        Einsum("experts_in", (("permute", f"ek{wide}"),), f"e{wide}f", "ekf", "", sizes),
        Einsum("experts_activation", (("experts_in", "ekf"),), "", "ekf", "", sizes),
        Einsum("experts_out", (("experts_activation", "ekf"),), f"ef{wide}", f"ek{wide}", "", sizes),
        Einsum("unpermute", (("experts_out", f"et{wide}"),), "", f"t{wide}", f"e{wide}", copies),
    ]
    if not ffn.latent:
        return routed
    narrow = Einsum(first, (("norm_1", "td"),), "dr", "tr", "dr", sizes)
    return [narrow, *routed, Einsum("experts_latent_out", (("unpermute", "tr"),), "rd", "td", "dr", sizes)]
