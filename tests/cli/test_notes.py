"""What a user is told beside the figures: notes, next steps, and what a word that is not taken meant."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
import yaml

from planner.report.unproven import PRINTED_OVER_PRICED
from tests.cases import every
from tests.cli.command import once, planner

CLUSTER = ("--hardware", "dgx-h100", "--gpus", "16")
SMALL = ("--global-batch", "16", "--tp", "2", "--pp", "2")

MIXED = """\
name: mixed
pools:
  - {accelerator: h100-80gb-sxm, node: dgx-h100, network: infiniband-ndr, gpus: 32}
  - {accelerator: a100-80gb-sxm, node: dgx-a100-80gb, network: infiniband-hdr, gpus: 32}
"""


def test_a_mixed_cluster_says_which_pool_is_planned_for(tmp_path: Path) -> None:
    profile = tmp_path / "mixed.yaml"
    profile.write_text(MIXED)
    ask = ("estimate", "llama3-8b", "--hardware", str(profile))
    assert "mixed has 2 pools" in planner(*ask, *SMALL).err
    refused = planner(*ask, "--gpus", "64")
    assert refused.code == 2
    assert "the first pool of mixed has no more; nearest: 32" in refused.err


def test_longer_sequences_than_the_models_positions_are_noted_and_others_are_not() -> None:
    ask = ("estimate", "llama3-8b", *CLUSTER, *SMALL, "--seq-len")
    assert "longer than the 8,192 positions of llama3-8b" in once(*ask, "16384").err
    assert once(*ask, "8192").err == ""
    assert once(*ask, "16384", "--quiet").err == ""


def test_torchtitan_takes_longer_sequences_and_its_files_say_so(tmp_path: Path) -> None:
    ask = ("estimate", "llama3-8b", *CLUSTER, "--runtime", "torchtitan", "--cp", "4", "--global-batch", "16")
    plan = tmp_path / "plan.yaml"
    done = planner(*ask, "--seq-len", "16384", "--recompute", "selective", "--save", str(plan))
    assert done.code == 0, done.out
    assert planner("emit", str(plan), "--out", str(tmp_path / "out")).code == 0
    written = "".join(path.read_text() for path in (tmp_path / "out").glob("*.py"))
    assert re.search(r"'max_context_length': 16384\b", written)


def test_a_count_that_leaves_a_node_partly_used_is_noted() -> None:
    done = planner("estimate", "llama3-8b", "--hardware", "dgx-h100", "--gpus", "12")
    assert "12 accelerators do not fill nodes of 8" in done.err
    assert "--gpus 8 or 16" in done.err
    for whole in ("4", "16"):
        assert planner("estimate", "llama3-8b", "--hardware", "dgx-h100", "--gpus", whole).err == ""


def test_one_is_singular() -> None:
    done = planner("estimate", "llama3-8b", "--hardware", "dgx-h100", "--gpus", "1", "--global-batch", "1")
    page = " ".join(done.out.split())
    assert "on 1 accelerator of dgx-h100" in page
    assert "1 sequence of 4,096 tokens" in page


def test_qlora_takes_a_whole_base_where_nobody_says_how_it_is_sharded() -> None:
    ask = ("estimate", "llama2-7b", "--hardware", "l40s-8-pcie", "--gpus", "1", "--runtime", "fsdp")
    done = planner(*ask, "--global-batch", "8", "--method", "qlora", "--format", "json")
    assert (done.code, done.json["violations"]) == (0, [])
    assert (done.json["plan"]["zero"], done.json["defaults"]["zero"]) == (0, 0)
    assert planner(*ask, "--global-batch", "8", "--format", "json").json["plan"]["zero"] == 3


@pytest.mark.parametrize(("method", "told"), [("lora", True), ("full", False)])
def test_the_weight_gradients_that_adapters_spare_are_told_beside_mfu(method: str, told: bool) -> None:
    job = (
        "llama2-7b",
        "--hardware",
        "dgx-h100",
        "--gpus",
        "1",
        "--global-batch",
        "8",
        "--runtime",
        "deepspeed",
    )
    ask = (*job, "--method", method, "--zero", "0")
    line = f"MFU and HFU count what {method} computes"
    pages = [planner(command, *ask, "--verbose").out for command in ("estimate", "search")]
    for page in (*pages, planner("mfu", *ask, "--step-time", "2").out):
        assert (line in " ".join(page.split())) is told


def test_a_plan_that_does_not_run_names_the_next_command() -> None:
    bad = planner("estimate", "llama3-70b", "--hardware", "dgx-h100", "--gpus", "8")
    assert bad.code == 1
    assert "Next: `planner search` without the axes" in bad.out
    assert "`planner search`" not in once("estimate", "llama3-8b", *CLUSTER, *SMALL).out


def test_of_many_stages_the_fullest_is_shown_and_the_rest_are_said_to_be_missing() -> None:
    layers = "1,1,1,1,1,1,1,1,1,1,9,4,3,2,2,2"
    ask = ("estimate", "llama3-8b", *CLUSTER, "--pp", "16", "--stage-layers", layers, "--global-batch", "16")
    stages = planner(*ask, "--format", "json").json["memory"]["stages"]
    fullest = max(stages, key=lambda stage: float(stage["total_gib"]))
    assert fullest["stage"] == 10
    page = planner(*ask, "-v").out
    assert f"(stage 10, {fullest['moment']})" in planner(*ask).out
    assert re.search(rf"^ +10 .* {fullest['total_gib']:.2f}$", page, re.MULTILINE)
    assert "Of 16 stages" in page
    assert "stages the first" not in once("estimate", "llama3-8b", *CLUSTER, *SMALL).out


def test_mfu_lists_what_it_took_and_doubts_a_plan_that_does_not_fit() -> None:
    ask = ("mfu", "llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--seq-len", "8192")
    page = " ".join(planner(*ask, "--tokens-per-s-per-gpu", "9000").out.split())
    assert "micro batch 1" in page.split("Defaults used:")[1]
    assert "a plan that does not fit" in page
    fits = planner(*ask, "--tokens-per-s-per-gpu", "9000", "--recompute", "full").out
    assert "does not fit" not in fits


@every(
    ("options", "told"),
    [
        (("--seq-len", "0.3Ki"), "expected a whole number"),
        (("--launcher", "pbs"), "--launcher: found 'pbs'"),
        (("--target", "foo"), "--target: found 'foo'"),
        (("--set", "atention=unfused"), "a trait; nearest: attention"),
        (("--hardware", "no/such.yaml"), "expected a file that exists, or a cluster by its name"),
    ],
)
def test_a_word_that_is_not_taken(options: tuple[str, ...], told: str) -> None:
    done = planner("search", "llama3-8b", *CLUSTER, *options)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert len(done.err) < 200


def test_lengths_may_be_written_in_ki() -> None:
    ask = ("estimate", "llama3-8b", *CLUSTER, *SMALL, "--format", "json", "--seq-len")
    assert planner(*ask, "1.5Ki").json["workload"]["seq_len"] == 1536
    assert planner(*ask, "8Ki").json == planner(*ask, "8192").json


def test_a_missing_model_file_is_not_taken_for_a_name() -> None:
    done = planner("search", "my-model.yaml", *CLUSTER)
    assert done.err == (
        "error: MODEL: found 'my-model.yaml'; expected a file that exists, or a model by its name\n"
    )


def test_a_method_that_a_runtime_lacks_is_told_once() -> None:
    done = planner("search", "llama3-8b", *CLUSTER, "--method", "lora", "--runtime", "megatron-lm")
    assert done.code == 1
    assert done.out.count("--runtime megatron-bridge") == 1
    assert "No plan of megatron-lm has method lora" in done.out


def test_an_objective_without_its_number_is_told() -> None:
    ask = (
        "search",
        "llama2-7b",
        "--gpus",
        "8",
        "--global-batch",
        "8",
        "--tp",
        "1",
        "--pp",
        "1",
        "--top",
        "1",
    )
    both = (*ask, "--hardware", "gb200-nvl72", "--hardware", "dgx-h100")
    assert "no price of gb200-nvl72 is known" in planner(*both, "--objective", "cost").err
    assert "dgx-h100 is known" not in planner(*both, "--objective", "cost").err
    assert (
        "priced at what others ask for the accelerator: dgx-h100 3.29 USD/h (RunPod)"
        in planner(*both, "--objective", "cost").err
    )
    own = planner(*both, "--objective", "cost", "--price", "3", "--format", "json")
    assert "others ask" not in own.err
    assert {plan["price"]["basis"] for plan in own.json["plans"]} == {"user"}
    assert planner(*both).err == ""
    assert (
        "no rated power of trn2.48xlarge"
        in planner(*ask, "--hardware", "trn2.48xlarge", "--objective", "energy").err
    )


def test_accelerators_on_which_no_runtime_starts_are_told(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    ask = ("estimate", "llama2-7b", "--hardware", "tpu-v5p-pod", "--gpus", "8", "--global-batch", "8")
    line = "tpu-v5p-pod is priced as if its Google software behaved as the runtime does"
    assert line in planner(*ask, "--zero", "1", "--save", str(plan)).err
    assert line in planner("emit", str(plan), "--out", str(tmp_path / "out")).err


def test_energy_to_train_by_hand() -> None:
    # 16 accelerators of 700 W: days times 24 hours times 11.2 kW.
    ask = ("estimate", "llama3-8b", *CLUSTER, *SMALL, "--tokens", "1T")
    days = planner(*ask, "--format", "json").json["days_to_train"]
    told = re.search(r"energy to train, at most +([\d.,]+) MWh", planner(*ask).out)
    assert told is not None
    assert float(told[1].replace(",", "")) == pytest.approx(days * 24 * 11.2e-3, rel=1e-3)


def test_a_change_that_a_search_would_leave_out_for_its_risk_is_called_risky(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    job = ("qwen3-30b-a3b", "--hardware", "dgx-h100", "--gpus", "32", "--global-batch", "256", "--pp", "2")
    axes = ("--vpp", "4", "--ep", "8", "--micro-batch", "2", "--zero")
    assert planner("estimate", *job, *axes, "2", "--save", str(plan)).code == 0
    rows = planner("explain", str(plan), "--format", "json").json["neighbours"]
    risks = {(row["axis"], row["to"]): row["oom_probability"] for row in rows if row["feasible"]}
    assert (
        risks["zero", "1"]
        == planner("estimate", *job, *axes, "1", "--format", "json").json["oom_probability"]
    )
    assert risks["zero", "1"] > 0.05 > risks["zero", "3"]
    page = planner("explain", str(plan)).out
    assert re.search(r"^zero +2 to 1 .* at \d+% risk$", page, re.MULTILINE)
    assert re.search(r"^zero +2 to 3 .* yes$", page, re.MULTILINE)


def test_prediction_layers_that_are_left_out_are_no_reason_for_a_price_alone() -> None:
    ask = ("--hardware", "dgx-h200", "--gpus", "64", "--global-batch", "64", "--seq-len", "4096")
    found = planner("search", "qwen3.5-27b", *ask, "--runtime", "fsdp", "--zero", "3", "--recompute", "full")
    assert found.code == 0
    assert "is a price alone" not in found.err


def test_files_of_a_model_of_images_are_promised_by_none_that_refuses_them(tmp_path: Path) -> None:
    ask = ("ministral-3-3b", "--hardware", "dgx-h200", "--gpus", "8", "--global-batch", "64")
    ask += ("--runtime", "fsdp", "--zero", "3", "--recompute", "full")
    found = planner("search", *ask)
    assert found.code == 0
    assert "fsdp is a price alone: no files of theirs start it with its encoder" in found.err
    assert "TRL" not in found.err
    refused = planner("search", *ask, "--target", "trl", "--emit", str(tmp_path / "trl"))
    assert refused.code == 1
    assert "without the encoder that was priced" in refused.err


def test_a_model_that_no_file_describes_has_a_price_and_files_that_take_its_checkpoint(
    tmp_path: Path,
) -> None:
    """FSDP wraps what transformers builds, and DeepSpeed-V2's router is none that is written here."""
    ask = ("deepseek-v2-lite", "--hardware", "dgx-h200", "--gpus", "8", "--global-batch", "64")
    ask += ("--runtime", "fsdp", "--zero", "3", "--recompute", "full")
    found = planner("search", *ask)
    assert found.code == 0
    assert re.search("note: deepseek-v2-lite on fsdp is a price alone: files for .*TRL start it", found.err)
    refused = planner("search", *ask, "--emit", str(tmp_path / "own"))
    assert refused.code == 1
    assert "no files start deepseek-v2-lite" in refused.err
    out = tmp_path / "trl"
    lora = ("--method", "lora", "--target", "trl", "--emit", str(out))
    assert planner("search", *ask, *lora).code == 0
    assert not (out / "config.json").exists()
    section = yaml.safe_load((out / "trl.yaml").read_text())["fsdp_config"]
    assert "transformer_layer_cls_to_wrap" not in section


def test_a_model_of_windows_has_files_of_its_own_type(tmp_path: Path) -> None:
    """Those that train it are taken, of the two that name its type; windows are FlashAttention's package."""
    ask = ("gemma3-4b", "--hardware", "dgx-h200", "--gpus", "8", "--global-batch", "64")
    ask += ("--runtime", "fsdp", "--runtime", "deepspeed")
    found = planner("search", *ask, "--emit", str(tmp_path / "own"), "--format", "json")
    assert found.code == 0
    lead = found.json["plans"][0]
    assert lead["runtime"] in {"fsdp", "deepspeed"}
    assert lead["plan"]["tp"] == lead["plan"]["cp"] == lead["plan"]["pp"] == 1
    config = json.loads((tmp_path / "own" / "config.json").read_text())
    assert (config["model_type"], config["sliding_window"]) == ("gemma3_text", 1024)
    script = next((tmp_path / "own").glob("train*.py")).read_text()
    assert "ATTENTION = 'flash_attention_2'" in script


def test_a_runtime_that_cannot_train_a_model_says_why_and_which_does() -> None:
    ask = ("gemma3-27b", *CLUSTER, "--global-batch", "64", "--runtime", "megatron-lm")
    told = " ".join(planner("search", *ask).out.split())
    assert "Megatron-LM cannot train this model: 4 norms in a layer, where Megatron-core has 2" in told
    assert "Ask for --runtime deepspeed or --runtime fsdp or --runtime megatron-bridge." in told


def test_a_tuned_recipe_of_lora_fits_as_it_ran(tmp_path: Path) -> None:
    """MLPerf Training v5.0: Llama 2 70B on eight B200 in 168.8 GiB, recipe and documents as its files say."""
    ask = (
        "llama2-70b", "--hardware", "dgx-b200", "--gpus", "8", "--seq-len", "8192", "--global-batch", "8",
        "--precision", "fp8-delayed", "--runtime", "megatron-bridge", "--method", "lora",
        "--lora-targets", "linear_qkv+linear_proj", "--set", "low_bit_weights=alone",
    )  # fmt: skip
    tuned = (*ask, "--set", "fp8_activation_input=true")
    saved = tmp_path / "plan.yaml"
    answer = planner("estimate", *tuned, "--save", str(saved), "--format", "json").json
    assert answer["feasible"]
    assert abs(answer["memory"]["peak_gib"] / 168.827 - 1) < 0.03
    assert answer["mfu"] < 0.6
    assert not planner("estimate", *ask, "--format", "json").json["feasible"]
    found = planner("search", *tuned, "--oom-risk", "0.3", "--format", "json").json["plans"]
    assert (1, 1) in [(one["plan"]["tp"], one["plan"]["pp"]) for one in found]
    out = tmp_path / "out"
    planner("emit", str(saved), "--out", str(out))
    text = (out / "train.py").read_text()
    assert "target_modules=['linear_qkv', 'linear_proj']" in text
    assert "activation_func_fp8_input_store=True" in text


def test_documents_that_files_do_not_ask_for_are_told(tmp_path: Path) -> None:
    job = ("llama2-7b", *CLUSTER, *SMALL, "--document-tokens", "512")
    saved = tmp_path / "plan.yaml"
    packed = planner("estimate", *job, "--save", str(saved), "--format", "json").json
    whole = planner("estimate", *job[:-2], "--format", "json").json
    assert packed["step_time_s"] < whole["step_time_s"]
    planner("emit", str(saved), "--out", str(tmp_path / "out"))
    assert "documents of 512 tokens" in (tmp_path / "out" / "README.md").read_text()


def test_a_method_without_a_runtime_ranks_all_that_have_it() -> None:
    ask = ("llama3-8b", *CLUSTER, "--global-batch", "32", "--method", "lora", "--format", "json")
    plain = ("--tp", "1", "--pp", "1", "--cp", "1", "--recompute", "none")
    found = planner("search", *ask, *plain, "--top", "400").json["plans"]
    assert {one["runtime"] for one in found} == {"megatron-bridge", "deepspeed", "fsdp"}
    assert found[0]["step_time_s"] == min(one["step_time_s"] for one in found)
    single = planner("estimate", *ask).json
    assert single["runtime"] in single["defaults"]["runtime"]


def test_a_quantised_70b_fits_on_two_cards_of_24_gb() -> None:
    """With the base on the host: PEFT, docs/source/accelerate/fsdp.md prints 19.6 GB, and 35.6 without."""
    ask = (
        "--hardware", "rtx4090-8-pcie", "--gpus", "2", "--seq-len", "512", "--global-batch", "2", "--runtime",
        "fsdp", "--format", "json",
    )  # fmt: skip
    best = planner("search", "llama2-70b", *ask, "--method", "qlora").json["plans"][0]
    assert best["feasible"]
    assert (best["plan"]["zero"], best["plan"]["offload"]) == (3, "weights")
    assert planner("search", "llama2-70b", *ask, "--method", "qlora", "--offload", "none").code == 1
    assert planner("search", "llama2-70b", *ask, "--method", "lora", "--offload", "none").code == 1
    told = planner("search", "llama2-70b", *ask[:-2], "--method", "qlora").out
    assert "Unproven: the memory of adapters beside a base on the host" in told


def test_the_printed_run_with_its_base_on_the_host_took_as_much_more_as_is_said() -> None:
    ask = (
        "--hardware", "dgx-h100", "--gpus", "2", "--runtime", "fsdp", "--method", "qlora", "--lora-rank", "8",
        "--zero", "3", "--recompute", "full", "--micro-batch", "2", "--global-batch", "8", "--seq-len",
        "2048", "--offload", "weights", "--format", "json",
    )  # fmt: skip
    priced = planner("estimate", "llama2-70b", *ask).json["memory"]["peak_gib"] * 2**30
    assert pytest.approx(PRINTED_OVER_PRICED, rel=0.02) == 19.6e9 / priced


def test_a_frozen_8b_in_16_bits_fits_on_one_card_of_24_gb() -> None:
    ask = (
        "--hardware", "rtx4090-8-pcie", "--gpus", "1", "--runtime", "fsdp", "--method", "lora", "--seq-len",
        "2048", "--global-batch", "16", "--micro-batch", "1", "--recompute", "full", "--format", "json",
    )  # fmt: skip
    stage = planner("estimate", "llama3.1-8b", *ask).json["memory"]["stages"][0]
    assert 8.03e9 * 2 / 2**30 < stage["weights_gib"] < 1.02 * 8.03e9 * 2 / 2**30
    assert stage["total_gib"] < 24


@every("targets", ["", "qkv+proj"])
def test_the_table_for_a_measured_step_says_what_is_fine_tuned(tmp_path: Path, targets: str) -> None:
    """`measured.csv` of a LoRA plan, its step filled in, is priced as the plan was."""
    plan, out = str(tmp_path / "plan.yaml"), tmp_path / "out"
    asked = (
        "estimate", "llama2-7b", "--hardware", "dgx-h100", "--gpus", "8", "--seq-len", "4096",
        "--global-batch", "32", "--runtime", "megatron-bridge", "--method", "lora", "--lora-rank", "8",
        "--document-tokens", "512", *(("--lora-targets", targets) if targets else ()),
    )  # fmt: skip
    planner(*asked, "--save", plan)
    planner("emit", plan, "--out", str(out))
    [row] = list(csv.DictReader((out / "measured.csv").read_text().splitlines()))
    found = {name: row[name] for name in ("method", "lora_rank", "lora_targets", "document_tokens")}
    assert found == {
        "method": "lora", "lora_rank": "8", "lora_targets": targets or "all", "document_tokens": "512",
    }  # fmt: skip
    (tmp_path / "runs.csv").write_text(",".join(row) + "\n" + ",".join((row | {"step_time_s": "1"}).values()))
    read = planner("validate", str(tmp_path / "runs.csv"), "--format", "json").json
    assert (read["priced"], read["skipped"]) == (1, [])
    told = read["per_row"][0]["defaults"]
    assert not {"method", "lora_rank", "lora_targets", "document_tokens"} & set(told)


def test_a_search_says_that_a_method_of_context_is_in_no_plan() -> None:
    job = ("search", "llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--tp", "8", "--zero", "1")
    none = planner(*job, "--cp-method", "burst").err
    assert "cannot share a sequence by burst" in none
    assert "no runtime here can" in none
    other = planner(*job, "--runtime", "deepspeed", "--cp-method", "usp").err
    assert "Megatron-LM" in other
    assert "cannot share" not in planner(*job, "--cp-method", "usp").err
