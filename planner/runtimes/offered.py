"""Rules that every runtime states the same way: what it offers by name, and how it cuts stages and shards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from planner.errors import nearest
from planner.inputs.model import Attention, Block, DenseFfn, Experts, LatentAttention, ModelSpec
from planner.inputs.recurrent import RecurrentMixer
from planner.inputs.variants import variant_texts
from planner.inputs.workload import Workload
from planner.numeric import Num
from planner.plan import Plan, even_split
from planner.rules import Mask, ModelRule, Rule, divides, nearest_divisors
from planner.runtimes import runtimes
from planner.runtimes.family import Job, Runtime
from planner.techniques.context.family import offered_name
from planner.techniques.offload.family import share_of


def offered(rule: str, option: str, found: str, choices: Iterable[str], where: Mask = True) -> Rule:
    """Return the rule that ``found`` is among ``choices``, for the plans of the mask ``where``."""
    known = tuple(choices)
    return Rule(
        rule,
        np.logical_not(where) | (found in known),
        lambda: (f"{option} {found}", f"one of {', '.join(known)}", nearest(found, known) or known[0]),
    )


def whole_name(offload: str) -> str:
    """Return an offload without the share of the states that goes, which whoever has the offload has too.

    Examples
    --------
    >>> whole_name("optimizer:40%"), whole_name("activations:20")
    ('optimizer', 'activations:20')
    """
    name, colon, share = offload.partition(":")
    return name if colon and share_of(share) else offload


def technique_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return the rules that the plan's and the workload's techniques are among those of ``runtime``."""
    work = job.workload
    stages = tuple(str(stage) for stage in runtime.zero_stages)
    method = offered_name(plan.cp_method)
    return [
        offered("zero-offered", "zero", str(plan.zero), stages),
        offered("schedule-offered", "schedule", plan.schedule, runtime.schedules, np.greater(plan.pp, 1)),
        offered("cp-method-offered", "cp method", method, runtime.cp_methods, np.greater(plan.cp, 1)),
        offered("recompute-offered", "recompute", plan.recompute, runtime.recomputes),
        offered("offload-offered", "offload", whole_name(plan.offload), runtime.offloads),
        offered("precision-offered", "precision", work.precision, runtime.precisions),
        *workload_rules(work, runtime),
    ]


def whole_offload_rules(plan: Plan) -> list[Rule]:
    """Return the rules on weights that rest on the host under PyTorch's FSDP: shards, and no pipeline."""
    off = plan.offload == "none"
    return [
        Rule(
            "host-weights-have-shards",
            (np.greater(plan.zero_shards, 1) & (plan.zero > 0)) | off,
            lambda: (
                f"offload {plan.offload} with zero {plan.zero} over {plan.zero_shards:g} shards",
                "two shards or more, zero 2 or 3: FSDP moves them",
                "zero 3",
            ),
        ),
        Rule(
            "host-weights-unpiped",
            np.equal(plan.pp, 1) | off,
            lambda: (f"offload {plan.offload} with pp {plan.pp:g}", "pp 1", "pp 1"),
        ),
    ]


def named_rule(kind: str, name: str, known: tuple[str, ...]) -> Rule:
    """Return the rule that the runtime has a ``method`` or ``optimizer``; where it does not, another may."""
    return Rule(
        f"{kind}-offered",
        name in known,
        lambda: (
            f"{kind} {name}",
            f"one of {', '.join(known)}",
            " or ".join([*runtimes_with(kind, name), known[0]]),
        ),
    )


def workload_rules(workload: Workload, runtime: Runtime) -> list[Rule]:
    """Return the rules that the runtime trains by the method, and steps by the optimizer."""
    return [
        named_rule("method", workload.method, runtime.methods),
        named_rule("optimizer", workload.optimizer, runtime.optimizers),
    ]


def runtimes_with(kind: str, name: str) -> list[str]:
    """Return how to ask for the runtimes that have a ``method`` or ``optimizer``."""
    known = runtimes().items()
    return [f"--runtime {runtime}" for runtime, one in known if name in getattr(one, f"{kind}s")]


def dtype_rules(workload: Workload, dtypes: Mapping[str, tuple[str, ...]]) -> list[Rule]:
    """Return the rules on what the user says of the optimizer's dtypes.

    ``dtypes`` has the choices for state_dtype, master_dtype and gradient_dtype; what the user leaves open is
    the runtime's own.
    """
    chosen = {name: getattr(workload, name) for name in dtypes}
    return [
        offered(f"{name.replace('_', '-')}-offered", name.replace("_", " "), chosen[name], choices)
        for name, choices in dtypes.items()
        if chosen[name] is not None
    ]


def one_dtype_rule(workload: Workload, names: Iterable[str], of: str) -> Rule:
    """Return the rule that weights, gradients and states have one dtype: that ``of`` something, in words."""
    said = {name: getattr(workload, name) or "fp32" for name in names}
    return Rule(
        "one-training-dtype",
        len(set(said.values())) == 1,
        lambda: (
            ", ".join(f"{name.replace('_', ' ')} {dtype}" for name, dtype in said.items()),
            f"one dtype of all of them, {of}",
            "all bf16, or none given",
        ),
    )


def exactly(rule: str, option: str, found: Num, wanted: Num, why: str, where: Mask = True) -> Rule:
    """Return the rule that a degree has the one value ``wanted``, for the plans of the mask ``where``."""
    return Rule(
        rule,
        np.logical_not(where) | np.equal(found, wanted),
        lambda: (f"{option} {found:g}", f"{option} {wanted:g}: {why}", f"{option} {wanted:g}"),
    )


def fits_model(rule: str, reasons: tuple[str, ...], remedy: str = "another runtime") -> Rule:
    """Return the rule that nothing of the model is missing in what is written; ``reasons`` say what is."""
    return ModelRule(
        rule, not reasons, lambda: ("; ".join(reasons), "a model that its files can build", remedy)
    )


def divisor_rule(rule: str, option: str, part: Num, whole: int, thing: str) -> Rule:
    """Return the rule that a degree divides a size of the model."""
    return Rule(
        rule,
        divides(part, whole),
        lambda: (
            f"{option} {part:g}",
            f"a divisor of {thing} {whole}",
            f"{option} {nearest_divisors(part, whole)}",
        ),
    )


def head_counts(model: ModelSpec) -> tuple[int, int]:
    """Return the greatest number of query heads and of key/value heads that divides those of every block."""
    heads = math.gcd(*(mixer.heads for mixer in model.attentions))
    return heads or 1, math.gcd(*(mixer.kv_heads for mixer in model.attentions)) or 1


def ffn_width(model: ModelSpec) -> int:
    """Return the greatest width that divides the inner width of every feed-forward layer."""
    return math.gcd(*(ffn.inner for ffn in model.ffns)) or 1


def width_rules(plan: Plan, model: ModelSpec) -> list[Rule]:
    """Return the rules that tp divides heads and feed-forward of every layer."""
    heads, kv_heads = head_counts(model)
    return [
        divisor_rule("heads-divide", "tp", plan.tp, heads, "the attention heads"),
        divisor_rule("kv-heads-divide", "tp", plan.tp, kv_heads, "the key/value heads"),
        divisor_rule("ffn-divides", "tp", plan.tp, ffn_width(model), "the feed-forward width"),
    ]


def unsplit_sequence_rule(plan: Plan, why: str) -> Rule:
    """Return the rule that tensor parallelism does not split what it replicates along the sequence."""
    return Rule(
        "no-sequence-parallel",
        not plan.sequence_parallel or np.equal(plan.tp, 1),
        lambda: ("sequence parallelism", f"none: {why}", "off"),
    )


def ties_rule(plan: Plan, model: ModelSpec) -> Rule:
    """Return the rule that a table shared by embedding and head is on one stage."""
    return Rule(
        "pipeline-ties",
        np.equal(plan.pp, 1) | (not model.tied_embeddings),
        lambda: (f"pp {plan.pp:g} with tied embeddings", "pp 1, or untied embeddings", "pp 1"),
    )


def is_plain_causal(model: ModelSpec) -> bool:
    """Whether no layer has a window or sinks, which kernels that split a sequence may not have."""
    mixers = model.attentions
    return not any(mixer.reach or (isinstance(mixer, Attention) and mixer.sinks) for mixer in mixers)


def attention_of(block: Block) -> Attention | LatentAttention:
    """Return the attention of a block of a model that `uses` nothing else.

    Raises `ValueError` if it has none, which a rule has refused before.
    """
    if block.attention is None:
        raise ValueError("a block without attention")
    return block.attention


def ffn_of(block: Block) -> DenseFfn | Experts:
    """Return the feed-forward of a block of a model that `uses` nothing else.

    Raises `ValueError` if it has none, which a rule has refused before.
    """
    if block.ffn is None:
        raise ValueError("a block without a feed-forward")
    return block.ffn


def uses(model: ModelSpec, block: Block) -> set[str]:
    """Return what a block needs beyond a bias-free gated transformer layer with rotary positions."""
    own = {OWN} if block.extras else set()
    own |= {LAYER_INPUTS} if model.layer_inputs is not None else set()
    own |= set() if model.final_norm else {"no norm before the head"}
    own |= {ACTIVATION_WEIGHTS} if isinstance(block.ffn, DenseFfn) and block.ffn.activation_weights else set()
    own |= {HEAD_PRODUCT} if model.head_product is not None else set()
    own |= {TOKEN_TYPES} if model.token_types else set()
    own |= {CROSS} if block.cross else set()
    own |= {LATENT_EXPERTS} if isinstance(block.ffn, Experts) and block.ffn.latent else set()
    return {*variant_texts(model.variants), *own, *_block_uses(model, block)}


HEAD_GATE = "a gate for each head of attention"
LAYER_INPUTS = "inputs of their own for layers"
KEYS_TWICE = "keys that are also values"
KEYS_OF_ANOTHER = "keys and values of an earlier layer"
BLOCK_INDEXER = "an indexer that picks blocks of keys"
LATENT_EXPERTS = "experts in a latent space"
ACTIVATION_WEIGHTS = "an activation with weights of its own"
HEAD_PRODUCT = "a product and a norm before the head"
TOKEN_TYPES = "embeddings of token types"
BOTH_WAYS = "attention both ways"
DISTANCES = "biases of scores by distance"
CROSS = "an encoder beside a decoder that attends to it"

OWN = "operators of a model of one's own (extras)"
"""What no runner has beside its layers."""


def _block_uses(model: ModelSpec, block: Block) -> set[str]:
    mixer, ffn = block.mixer, block.ffn
    if block.beside is not None:
        return {f"{block.beside.kind} beside attention in one layer"}
    if isinstance(mixer, RecurrentMixer):
        return {f"{mixer.kind} layers"}
    if mixer is None or ffn is None:
        return {"layers of a mixer or a feed-forward alone"}
    parts = {"learned positions": model.learned_positions, "layer norm": model.norm == "layernorm"}
    parts |= {"norms without a bias": model.norm == "layernorm" and not model.norm_bias}
    parts |= {"norms with a bias": model.norm == "rmsnorm" and model.norm_bias}
    parts |= {"more than two norms a layer": block.norms != 2, "a plain feed-forward": not ffn.gated}
    parts |= {"feed-forward biases": ffn.bias, "sliding windows": mixer.window is not None}
    if isinstance(mixer, Attention):
        parts |= {"query/key/value biases": mixer.qkv_bias, "an output bias": mixer.output_bias}
        parts |= {"biases of queries and values alone": mixer.qkv_bias and not mixer.key_bias}
        parts |= {
            "norms on heads": mixer.qk_norm == "head",
            "norms on all heads at once": mixer.qk_norm == "full",
            "norms with weights of each head": mixer.qk_norm == "each",
            "norms with a bias on heads": mixer.qk_norm == "head-bias",
        }
        parts |= {"an output gate on attention": mixer.output_gate, HEAD_GATE: mixer.head_gate}
        parts |= {KEYS_TWICE: mixer.projected == "queries-keys", KEYS_OF_ANOTHER: not mixer.makes_keys}
        parts |= {BOTH_WAYS: not mixer.causal}
        parts |= {BLOCK_INDEXER: mixer.indexer is not None, DISTANCES: mixer.distances > 0}
        parts |= {"attention sinks": mixer.sinks, "attention without rotary positions": not mixer.rotary}
        parts |= {"values of their own width": mixer.value_head_dim != mixer.qk_head_dim}
        parts |= {"heads that do not add up to the hidden size": mixer.heads * mixer.head_dim != model.hidden}
    else:
        parts |= {"latent attention": True, "an output bias": mixer.output_bias}
        parts |= {"an indexer that picks the keys": mixer.indexer is not None}
    return {name for name, used in parts.items() if used}


def stage_layers(plan: Plan, model: ModelSpec) -> tuple[int, ...]:
    """Return the layers of each virtual stage of a scalar plan."""
    return plan.stage_layers or even_split(model.num_layers, int(plan.pp * plan.vpp))


def mesh_shard_rule(plan: Plan) -> Rule:
    """Return the rule of a mesh replicate · shard · cp: sharding spans every context-parallel rank."""
    group = plan.dp * plan.cp
    return Rule(
        "zero-shards-on-mesh",
        (plan.zero == 0) | (divides(plan.zero_shards, group) & divides(plan.cp, plan.zero_shards)),
        lambda: (
            f"zero shards {plan.zero_shards:g}",
            f"a multiple of cp {plan.cp:g} that divides dp · cp = {group:g}",
            f"zero shards {group:g}",
        ),
    )


def whole_shard_rule(plan: Plan) -> Rule:
    """Return the rule that states are sharded over all data-parallel ranks."""
    group = plan.dp * plan.cp
    return Rule(
        "zero-shards-whole",
        (plan.zero == 0) | np.equal(plan.zero_shards, group),
        lambda: (f"zero shards {plan.zero_shards:g}", f"dp · cp = {group:g}", f"zero shards {group:g}"),
    )


def sequence_rule(seq_len: Num, divisor: Num, words: str) -> Rule:
    """Return the rule that the sequence divides over the ranks that share it."""
    return Rule(
        "sequence-divides",
        divides(divisor, seq_len),
        lambda: (
            f"{seq_len:g} tokens",
            f"a multiple of {words} = {divisor:g}",
            f"{seq_len - seq_len % divisor:g}",
        ),
    )


TRIAL_STEPS = 100
"""Steps of a job that does not say how many tokens it trains on."""


def trial_note(workload: Workload) -> tuple[str, ...]:
    """Return for the run card that a job without training tokens is a trial."""
    stops = f"No training tokens were given: the run stops after {TRIAL_STEPS} steps."
    return () if workload.tokens else (stops,)


def train_steps(workload: Workload) -> int:
    """Return the optimizer steps that see all tokens of a job, the last one maybe in part, or of a trial. [-]

    Examples
    --------
    >>> train_steps(Workload(seq_len=8192, global_batch=1000, tokens=1e9))
    123
    """
    if not workload.tokens:
        return TRIAL_STEPS
    return math.ceil(workload.tokens / workload.tokens_per_step)
