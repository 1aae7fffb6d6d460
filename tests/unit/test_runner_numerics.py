"""The files of each runner train the model that was named: its positions, norms, scales and router.

What each flag and field means was read in the runner's own code, which the modules cite.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planner.inputs.hf_config import model_from_config
from planner.inputs.load import load_model
from planner.inputs.model import ModelSpec
from planner.inputs.numerics import Numerics, said
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.hub.config import hub_config
from planner.runtimes.imports.sheet import Sheet
from planner.runtimes.imports.zoo import same_name, with_own_numbers
from planner.runtimes.megatron_bridge.numerics import numeric_fields
from planner.runtimes.megatron_bridge.reading.bridge import section_fields
from planner.runtimes.megatron_bridge.reading.core_fields import core_flags
from planner.runtimes.megatron_lm.architecture import architecture
from planner.runtimes.megatron_lm.reading.megatron_numerics import numerics_record
from planner.runtimes.nanotron.files import nanotron_config
from planner.runtimes.numerics import unknown_numerics
from planner.runtimes.torchtitan.numerics import numeric_data
from tests.cases import every
from tests.validate.megatron import cases


def job(name: str, **numerics: Any) -> Job:
    """A job on 8 GPUs, the model's numerics replaced where some are given."""
    made = cases.job(name, 8, seq_len=2048, global_batch=8)
    if not numerics:
        return made
    model: ModelSpec = made.model.model_copy(update={"numerics": Numerics.model_validate(numerics)})
    return replace(made, model=model)


def flags(made: Job) -> dict[str, str]:
    """The arguments of Megatron-LM, each with the word after it."""
    entry = runtimes()["megatron-lm"]
    assert entry.command is not None
    words = entry.command(cases.plan(8, 8), made, "0.20").program
    return {word: after for word, after in zip(words, (*words[1:], ""), strict=True) if word[:2] == "--"}


def faults(runtime: str, made: Job) -> str:
    """What the runtime's rules say of one replica on each GPU."""
    entry = runtimes()[runtime]
    return " ".join(str(fault) for fault in violations(entry.rules(cases.plan(8, 8), made)))


def test_weights_begin_as_wide_as_the_model_says() -> None:
    """Of a model that says nothing nanotron asks for a number: 0.02, as Megatron-LM has it."""
    for std in (0.02, 0.0125):
        made = job("llama3.1-8b", rope_theta=5e5, init_std=std)
        assert flags(made)["--init-method-std"] == repr(std)
        assert nanotron_config(cases.plan(8, 8), made)["model"]["init_method"] == {"std": std}
        assert hub_config(made.model, 2048)["initializer_range"] == std
        assert numeric_fields(made.model, architecture(made.model))["init_method_std"] == std
        assert numeric_data(made.model)["init_std"] == std
    unsaid = job("llama3.1-8b", rope_theta=5e5)
    assert nanotron_config(cases.plan(8, 8), unsaid)["model"]["init_method"] == {"std": 0.02}


def test_megatron_has_the_base_of_llama_2_and_of_llama_3() -> None:
    assert flags(job("llama2-7b"))["--rotary-base"] == "10000"
    found = flags(job("llama3.1-8b"))
    assert (found["--rotary-base"], found["--norm-epsilon"]) == ("500000", "1e-05")
    assert found["--rope-scaling-factor"] == "8"
    assert "--use-rope-scaling" in found
    assert found["--init-method-std"] == "0.02"


def test_a_base_that_is_no_whole_number_has_no_flag_and_has_a_field() -> None:
    """StarCoder 2: ``--rotary-base`` is read by ``int``, Megatron-Bridge's provider is a dataclass."""
    made = job("starcoder2-3b")
    assert "rope_theta 999999, not a whole number" in faults("megatron-lm", made)
    assert "rope_theta" not in faults("megatron-bridge", made)


def test_megatron_has_router_and_yarn_of_deepseek_v3() -> None:
    found = flags(job("deepseek-v3"))
    wanted = {
        "--moe-router-score-function": "sigmoid",
        "--moe-router-num-groups": "8",
        "--moe-router-group-topk": "4",
        "--moe-router-topk-scaling-factor": "2.5",
        "--rope-type": "yarn",
        "--rotary-scaling-factor": "40",
        "--mscale-all-dim": "1",
    }
    assert {name: found[name] for name in wanted} == wanted
    assert "--moe-router-enable-expert-bias" in found


def test_megatron_balances_the_experts_of_qwen_3() -> None:
    found = flags(job("qwen3-30b-a3b"))
    assert (found["--moe-router-load-balancing-type"], found["--moe-aux-loss-coeff"]) == ("aux_loss", "0.001")
    assert "--moe-router-pre-softmax" not in found
    sequence = {"score": "softmax", "aux_loss": 0.003, "per_sequence": True}
    found = flags(job("qwen3-30b-a3b", router=sequence))
    assert (found["--moe-router-load-balancing-type"], found["--moe-aux-loss-coeff"]) == (
        "seq_aux_loss",
        "0.003",
    )
    plain = {"score": "softmax", "normalize": False}
    assert "--moe-router-pre-softmax" in flags(job("qwen3-30b-a3b", router=plain))


@every(
    ("numerics", "named"),
    [
        ({"logit_softcap": 30.0}, "numerics.logit_softcap"),
        ({"residual_scale": 0.22}, "numerics.residual_scale"),
        ({"attention_softcap": 50.0}, "numerics.attention_softcap"),
        ({"embedding_scale": 12.0}, "numerics.embedding_scale"),
        ({"logit_scale": 0.125}, "numerics.logit_scale"),
        ({"local_rope_theta": 1e4}, "numerics.local_rope_theta"),
        ({"activation": "relu"}, "numerics.activation"),
        ({"rope_scaling": {"kind": "dynamic", "factor": 2.0}}, "numerics.rope_scaling"),
    ],
)
@every("runtime", ["megatron-lm", "megatron-bridge", "torchtitan", "nanotron"])
def test_a_field_that_the_files_cannot_say_is_named(
    runtime: str, numerics: dict[str, Any], named: str
) -> None:
    assert named not in faults(runtime, job("llama3-8b"))
    assert named in faults(runtime, job("llama3-8b", **numerics))


def test_only_the_bridge_scales_attention() -> None:
    scaled = job("llama3-8b", attention_scale=0.1)
    assert "numerics.attention_scale" in faults("megatron-lm", scaled)
    assert "numerics.attention_scale" not in faults("megatron-bridge", scaled)


def test_every_model_of_the_zoo_still_loads_its_numerics() -> None:
    assert load_model("qwen3-8b").numerics.rope_theta == 1e6


def test_torchtitan_has_the_base_and_the_scaling_of_its_model() -> None:
    entry = runtimes()["torchtitan"]
    assert entry.command is not None
    texts = {
        name: (entry.command(cases.plan(8, 8, zero=3), job(name), "main-2026-08-21").files or {})[
            "titan_plan.py"
        ]
        for name in ("llama2-7b", "llama3.1-8b", "deepseek-v3")
    }
    assert "'theta': 10000.0" in texts["llama2-7b"]
    assert "'scaling': 'llama'" in texts["llama3.1-8b"]
    assert "'num_limited_groups': 4" in texts["deepseek-v3"]
    assert "'route_scale': 2.5" in texts["deepseek-v3"]
    assert "500000" not in texts["llama2-7b"]


def test_nanotron_has_the_base_of_its_model() -> None:
    config = nanotron_config(cases.plan(8, 8), job("llama2-7b"))["model"]["model_config"]
    assert (config["rope_theta"], config["rms_norm_eps"]) == (10000.0, 1e-5)
    assert "numerics.rope_scaling" in faults("nanotron", job("llama3.1-8b"))
    sigmoid = job("mixtral-8x7b", router={"score": "sigmoid"})
    assert "numerics.router.score" in faults("nanotron", sigmoid)


@every("name", ["llama3.1-8b", "qwen3-8b", "qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v3"])
def test_the_hub_config_reads_back_to_the_same_numerics(name: str) -> None:
    model = load_model(name).model_copy(update={"prediction": None})
    back = model_from_config(hub_config(model, 2048), "config.json", name).model.numerics
    wanted = said(model.numerics)
    if "router" in wanted and not model.numerics.router.aux_loss:  # type: ignore[union-attr]
        wanted["router"].pop("aux_loss", None)
    assert {key: said(back).get(key) for key in wanted} == wanted


def test_what_is_not_known_is_said_on_the_card() -> None:
    (note,) = unknown_numerics(load_model("gpt3-175b"))
    assert "norm_epsilon" in note
    assert unknown_numerics(load_model("llama3.1-8b")) == ()


@every("name", ["llama2-7b", "llama3.1-8b", "qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-20b"])
def test_megatron_flags_are_read_back_field_by_field(name: str) -> None:
    made = job(name)
    found = numerics_record(Sheet("train.sh", flags(made)), bool(made.model.expert_kinds))
    wanted = said(made.model.numerics)
    if "router" in wanted:
        wanted["router"].pop("normalize", None)  # what Megatron-core does without a flag
        found["router"].setdefault("score", "softmax")
    if wanted.get("rope_scaling", {}).get("kind") == "yarn" and name == "deepseek-v3":
        for fixed in ("original_positions", "beta_fast", "beta_slow"):
            wanted["rope_scaling"].pop(fixed)
    assert said(Numerics.model_validate(found)) == wanted


def own_numbers(name: str, **numerics: object) -> tuple[Numerics, str]:
    """Return the numbers of a file that is built as a model of the zoo, and what is told of them."""
    model, (note,) = with_own_numbers({"numerics": numerics}, name, "train")
    assert model is not None
    assert model.name == f"{name} as in train"
    assert model.params == load_model(name).params
    return model.numerics, note


def test_a_script_with_another_base_keeps_it() -> None:
    found, note = own_numbers("llama3-8b", rope_theta=10000.0)
    assert "rope_theta 10000.0, not 500000.0" in note
    assert found == load_model("llama3-8b").numerics.model_copy(update={"rope_theta": 10000.0})
    same = {"numerics": {"rope_theta": 500000.0, "init_std": 0.01}}
    assert with_own_numbers(same, "llama3-8b", "train") == (None, ())


MULTIPLIERS = {
    "attention_multiplier": 0.0078125,
    "embedding_multiplier": 12.0,
    "residual_multiplier": 0.22,
    "logits_scaling": 16.0,
}
"""As ibm-granite/granite-3.0-8b-base prints them."""


def test_granite_is_written_with_its_own_multipliers() -> None:
    found = hub_config(job("granite-3.0-8b").model, 2048)
    assert found["architectures"] == ["GraniteForCausalLM"]
    assert {name: found[name] for name in MULTIPLIERS} == MULTIPLIERS
    assert found["model_type"] == "granite"
    read = model_from_config(found, "config.json", "mine").model
    own = job("granite-3.0-8b").model.numerics
    names = ("attention_scale", "embedding_scale", "residual_scale", "logit_scale")
    assert [getattr(read.numerics, name) for name in names] == [getattr(own, name) for name in names]


def test_one_multiplier_leaves_the_others_as_a_llama_has_them() -> None:
    made = hub_config(job("llama3.1-8b", residual_scale=0.5).model, 2048)
    assert made["model_type"] == "granite"
    assert made["attention_multiplier"] == 128**-0.5
    assert (made["embedding_multiplier"], made["logits_scaling"]) == (1.0, 1.0)


@every("runtime", runtimes())
def test_a_multiplier_is_written_or_refused_by_its_name(runtime: str) -> None:
    names = ("attention_scale", "embedding_scale", "residual_scale", "logit_scale")
    told = faults(runtime, job("granite-3.0-8b"))
    written = {"deepspeed": names, "fsdp": names, "megatron-bridge": ("attention_scale",)}.get(runtime, ())
    assert [name for name in names if f"numerics.{name}" in told] == [n for n in names if n not in written]


def test_stages_of_deepspeed_have_no_scaled_embeddings() -> None:
    entry = runtimes()["deepspeed"]
    made = job("granite-3.0-8b")
    broken = {fault.rule for fault in violations(entry.rules(cases.plan(8, 4, pp=2), made))}
    assert "pipeline-architecture" in broken


def test_scripts_train_the_balance_of_experts_that_the_config_says() -> None:
    """They take logits, beside which transformers adds no loss of the router's."""
    for runtime in ("fsdp", "deepspeed"):
        entry = runtimes()[runtime]
        assert entry.command is not None
        for name, weight in (("qwen3-30b-a3b", 0.001), ("llama3.1-8b", 0.0)):
            files = entry.command(cases.plan(8, 8, zero=3), job(name), entry.versions[0]).files or {}
            assert f"\nBALANCE = {weight}\n" in files["train.py"]


def test_a_pipeline_of_deepspeed_has_no_balancing_loss() -> None:
    made = job("mixtral-8x7b", router={"score": "softmax", "normalize": True, "aux_loss": 0.02})
    broken = {fault.rule for fault in violations(runtimes()["deepspeed"].rules(cases.plan(8, 4, pp=2), made))}
    assert "pipeline-balance" in broken
    assert "pipeline-balance" not in str(faults("deepspeed", made))


def test_the_card_says_what_transformers_leaves_out() -> None:
    entry = runtimes()["fsdp"]
    assert entry.command is not None
    made = job("moonlight-16b-a3b", router={"score": "sigmoid", "expert_bias": True, "aux_loss": 0.001})
    notes = " ".join(entry.command(cases.plan(8, 8, zero=3), made, entry.versions[0]).notes)
    assert "DeepSeek-V3 adds no balancing loss, the model's of 0.001 included," in notes
    unknown = " ".join(entry.command(cases.plan(8, 8, zero=3), job("yi-9b"), entry.versions[0]).notes)
    assert "Not known of yi-9b, so the runtime's default: rope_theta" in unknown


def test_the_bridge_leaves_scale_and_rounding_to_latent_attention() -> None:
    assert "numerics.attention_scale" in faults("megatron-bridge", job("deepseek-v3", attention_scale=0.1))
    yarn = {"kind": "yarn", "factor": 40.0, "original_positions": 4096, "truncate": False}
    assert "numerics.rope_scaling.truncate" in faults(
        "megatron-bridge", job("deepseek-v3", rope_scaling=yarn)
    )


def test_positions_that_one_of_two_stretches_are_the_files() -> None:
    scaling = {"kind": "linear", "factor": 8.0}
    found, note = own_numbers("llama2-7b", rope_theta=10000.0, rope_scaling=scaling)
    assert "rope_scaling linear, not none" in note
    assert said(found)["rope_scaling"] == scaling
    found, note = own_numbers("llama3.1-8b", rope_theta=500000.0)
    assert "rope_scaling none, not llama3" in note
    assert found.rope_scaling is None
    found, note = own_numbers("qwen3-30b-a3b", router={"score": "softmax", "aux_loss": 0.02})
    assert "router.aux_loss 0.02, not 0.001" in note
    assert said(found)["router"] == said(load_model("qwen3-30b-a3b").numerics)["router"] | {"aux_loss": 0.02}


def test_a_config_with_other_numbers_is_not_taken_for_the_zoos_model() -> None:
    model = load_model("llama3.1-8b")
    assert same_name(model) == "llama3.1-8b"
    scaling = model.numerics.rope_scaling
    assert scaling is not None
    longer = scaling.model_copy(update={"factor": 16.0})
    other = model.numerics.model_copy(update={"rope_scaling": longer})
    assert same_name(model.model_copy(update={"numerics": other})) is None


def fields_read(**fields: Any) -> dict[str, Any]:
    """The numerics that fields of Megatron-core's configuration say."""
    return numerics_record(Sheet("train.py", core_flags(fields)), True)


def test_latent_attention_has_fields_of_its_own_for_yarn() -> None:
    """Megatron-core, multi_latent_attention.py reads none of ``yarn_...``, gpt_model.py nothing else.

    Its ``mscale`` is 1 unless it is told, whatever the zoo's model of that shape has (DeepSeek-V2: 0.707).
    """
    own = {"rotary_scaling_factor": 40.0, "original_max_position_embeddings": 8192, "beta_fast": 16.0}
    others = {f"yarn_{name}": value / 2 for name, value in own.items()}
    latent = fields_read(**own, **others, multi_latent_attention=True, rope_type="yarn")
    assert latent["rope_scaling"] == {
        "kind": "yarn", "factor": 40.0, "original_positions": 8192, "beta_fast": 16.0, "mscale": 1.0,
    }  # fmt: skip
    others |= {"yarn_original_max_position_embeddings": 4096}
    plain = fields_read(**own, **others, position_embedding_type="yarn")
    assert plain["rope_scaling"] == {
        "kind": "yarn", "factor": 20.0, "original_positions": 4096, "beta_fast": 8.0,
    }  # fmt: skip


@every("kind", [None, "none", "sinkhorn"])
def test_a_router_without_a_balancing_loss_has_none_whatever_its_coefficient(kind: str | None) -> None:
    """Megatron-core, moe/router.py, ``get_aux_loss_coeff``: None is a kind that no loss has."""
    read = fields_read(moe_router_load_balancing_type=kind, moe_aux_loss_coeff=0.001)
    assert "router" not in read
    assert fields_read(moe_aux_loss_coeff=0.001)["router"] == {"aux_loss": 0.001}


def test_an_activation_that_no_model_has_is_told() -> None:
    """Megatron-core, transformer/mlp.py: the linear part is shifted by any offset."""
    for offset, clamp, notes in ((1.0, 7.0, 0), (3.0, 7.0, 1), (3.0, 5.0, 2)):
        fields = {"gated_linear_unit": True, "activation_func": "quick_gelu", "glu_linear_offset": offset}
        sheet = Sheet("train.py", core_flags(fields | {"activation_func_clamp_value": clamp}))
        assert numerics_record(sheet, True)["activation"] == "swiglu_oai"
        assert len(sheet.notes) == notes


@every(("switch", "there"), [(True, True), (False, False), (None, False)])
def test_layers_go_to_the_host_where_the_switch_is_on(switch: bool | None, there: bool) -> None:
    """Megatron-core, transformer_config.py: ``cpu_offloading_num_layers`` counts under ``cpu_offloading``."""
    said = {"model": "GPTModelProvider", "model.cpu_offloading_num_layers": 4}
    said |= {} if switch is None else {"model.cpu_offloading": switch}
    flags = core_flags(section_fields({f"ConfigContainer.{name}": value for name, value in said.items()}))
    assert ("--cpu-offloading-num-layers" in flags) is there
