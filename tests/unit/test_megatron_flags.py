"""From a plan to Megatron-LM's arguments."""

from __future__ import annotations

import re
from typing import Any

from planner.plan import Plan
from planner.runtimes.family import Job
from planner.runtimes.megatron_lm import ENTRY
from planner.runtimes.megatron_lm.flags import padded_vocab
from planner.runtimes.megatron_lm.layout import layout_string, pattern
from tests.cases import every
from tests.validate.megatron import cases


def flags(plan: Plan, job: Job) -> dict[str, list[str]]:
    """Return the values of each flag of the command."""
    assert ENTRY.command is not None
    found: dict[str, list[str]] = {}
    for part in ENTRY.command(plan, job, ENTRY.versions[0]).program[1:]:
        if part.startswith("--"):
            assert part not in found, f"{part} twice"
            found[part] = []
            last = part
        else:
            found[last].append(part)
    return found


def of(model: str, gpus: int = 64, hardware: str = "dgx-h100", **work: Any) -> Job:
    return cases.job(model, gpus, hardware=hardware, **({"seq_len": 2048, "global_batch": 128} | work))


def unfolded(layout: str) -> list[str]:
    """Unfold a layout as Megatron-LM's documentation says: groups, then letters, then stages."""
    while group := re.search(r"\(([^()]+)\)\*(\d+)", layout):
        layout = layout.replace(group[0], group[1] * int(group[2]), 1)
    while letter := re.search(r"([A-Za-z|])\*(\d+)", layout):
        layout = layout.replace(letter[0], letter[1] * int(letter[2]), 1)
    return layout.split("|")


@every(
    ("pp", "vpp", "split"),
    [
        (4, 1, (19, 21, 21, 19)),
        (4, 2, (9, 11, 10, 10, 10, 10, 11, 9)),
        (2, 1, (79, 1)),
        (4, 1, (0, 40, 40, 0)),
        (3, 1, None),
        (16, 3, None),
    ],
)
def test_a_layout_holds_every_layer_where_the_plan_has_it(
    pp: int, vpp: int, split: tuple[int, ...] | None
) -> None:
    plan, model = Plan(pp=float(pp), vpp=float(vpp), stage_layers=split), cases.model("llama3-70b")
    stages = unfolded(layout_string(plan, model))
    assert len(stages) == pp * vpp
    assert stages[0][0] == "E"
    assert stages[-1][-1] == "L"
    counts = [stage.count("t") for stage in stages]
    assert sum(counts) == 80
    assert counts == list(split) if split else max(counts) - min(counts) <= 1


def test_prediction_layers_stand_on_the_last_stage_before_the_loss() -> None:
    stages = unfolded(layout_string(Plan(pp=16.0), cases.model("deepseek-v3")))
    assert stages[-1].endswith("tmL")
    assert "".join(stages).count("m") == 1


def test_an_even_split_needs_no_layout() -> None:
    plain = flags(cases.plan(64, 128, pp=4.0), of("llama3-70b"))
    assert not {"--pipeline-model-parallel-layout", "--num-layers-per-virtual-pipeline-stage"} & set(plain)
    chunked = flags(cases.plan(64, 128, pp=4.0, vpp=5.0, schedule="interleaved-1f1b"), of("llama3-70b"))
    assert chunked["--num-layers-per-virtual-pipeline-stage"] == ["4"]
    assert chunked["--microbatch-group-size-per-virtual-pipeline-stage"] == ["4"]


def test_a_pattern_evaluates_to_the_layers() -> None:
    layers = [False, False, True, True, True, False]
    assert eval(pattern(layers)) == [int(layer) for layer in layers]


@every(
    ("vocab", "tp", "padded"),
    [(128256, 8, 129024), (128256, 4, 128512), (128256, 1, 128256), (50257, 1, 50304), (51200, 8, 51200)],
)
def test_the_vocabulary_is_padded_as_megatron_pads_it(vocab: int, tp: int, padded: int) -> None:
    assert padded_vocab(vocab, tp) == padded


def test_every_degree_is_stated() -> None:
    plan = cases.plan(
        64, 128, tp=2.0, pp=2.0, cp=2.0, ep=4.0, etp=2.0, sequence_parallel=True, micro_batch=4.0
    )
    found = flags(plan, of("mixtral-8x7b"))
    stated = {
        "--tensor-model-parallel-size": "2",
        "--pipeline-model-parallel-size": "2",
        "--context-parallel-size": "2",
        "--expert-model-parallel-size": "4",
        "--expert-tensor-parallel-size": "2",
        "--micro-batch-size": "4",
        "--global-batch-size": "128",
        "--cp-comm-type": "p2p",
        "--num-distributed-optimizer-instances": "1",
    }
    assert {name: found[name][0] for name in stated} == stated
    assert "--sequence-parallel" in found


@every(
    ("zero", "shards", "there", "absent"),
    [
        (0, 64, {"--overlap-grad-reduce": []}, {"--use-distributed-optimizer", "--overlap-param-gather"}),
        (
            1,
            64,
            {"--use-distributed-optimizer": [], "--ckpt-format": ["torch_dist"]},
            {"--use-megatron-fsdp"},
        ),
        (1, 16, {"--num-distributed-optimizer-instances": ["4"]}, set()),
        (
            2,
            64,
            {"--data-parallel-sharding-strategy": ["optim_grads"], "--ckpt-format": ["fsdp_dtensor"]},
            set(),
        ),
        (
            3,
            64,
            {"--data-parallel-sharding-strategy": ["optim_grads_params"], "--use-megatron-fsdp": []},
            set(),
        ),
    ],
)
def test_what_data_parallelism_shards(
    zero: int, shards: int, there: dict[str, list[str]], absent: set[str]
) -> None:
    found = flags(cases.plan(64, 128, zero=zero, zero_shards=float(shards)), of("llama3-8b"))
    assert {name: found.get(name) for name in there} == there
    assert not absent & set(found)


@every(
    ("recompute", "said"),
    [
        ("none", {}),
        ("full", {"granularity": "full", "method": "uniform", "num-layers": "1"}),
        ("every-layer", {"granularity": "full", "method": "uniform", "num-layers": "1"}),
        ("full:8", {"granularity": "full", "method": "block", "num-layers": "4"}),
        ("selective", {"granularity": "selective", "modules": "core_attn"}),
        ("selective:norm+mlp", {"granularity": "selective", "modules": "layernorm mlp"}),
    ],
)
def test_recompute_counts_layers_of_a_chunk(recompute: str, said: dict[str, str]) -> None:
    plan = cases.plan(64, 128, pp=4.0, vpp=2.0, schedule="interleaved-1f1b", recompute=recompute)
    found = flags(plan, of("llama3-70b"))
    prefix = "--recompute-"
    assert {name[len(prefix) :]: " ".join(found[name]) for name in found if name.startswith(prefix)} == said


@every(
    ("precision", "said"),
    [
        ("bf16", {"--bf16": []}),
        ("fp16", {"--fp16": []}),
        ("fp8", {"--bf16": [], "--fp8-format": ["hybrid"], "--fp8-recipe": ["tensorwise"]}),
        (
            "fp8-delayed",
            {
                **{"--bf16": [], "--fp8-format": ["hybrid"], "--fp8-recipe": ["delayed"]},
                **{"--fp8-amax-history-len": ["1024"], "--fp8-amax-compute-algo": ["max"]},
            },
        ),
        ("fp8-block", {"--bf16": [], "--fp8-format": ["e4m3"], "--fp8-recipe": ["blockwise"]}),
        ("mxfp8", {"--bf16": [], "--fp8-format": ["e4m3"], "--fp8-recipe": ["mxfp8"]}),
        ("nvfp4", {"--bf16": [], "--fp4-format": ["e2m1"], "--fp4-recipe": ["nvfp4"]}),
    ],
)
def test_a_precision_is_one_recipe(precision: str, said: dict[str, list[str]]) -> None:
    found = flags(cases.plan(64, 128), of("llama3-8b", precision=precision))
    assert {name: found[name] for name in found if re.match(r"--(bf|fp)\d", name)} == said


def test_the_optimizer_is_what_the_workload_says() -> None:
    plain = flags(cases.plan(64, 128), of("llama3-8b"))
    assert plain["--optimizer"] == ["adam"]
    assert "--use-precision-aware-optimizer" not in plain
    assert "--accumulate-allreduce-grads-in-fp32" in plain
    small = flags(cases.plan(64, 128), of("llama3-8b", state_dtype="fp8", gradient_dtype="bf16"))
    assert small["--exp-avg-sq-dtype"] == ["fp8"]
    assert "--grad-reduce-in-bf16" in small
    hosted = flags(cases.plan(64, 128, offload="optimizer"), of("llama3-8b"))
    assert {"--optimizer-cpu-offload", "--use-precision-aware-optimizer"} <= set(hosted)


@every(
    ("version", "name", "said"),
    [
        ("0.20", "muon", {"--use-distributed-optimizer", "--overlap-param-gather", "--overlap-grad-reduce"}),
        ("0.18", "muon", {"--use-distributed-optimizer", "--overlap-param-gather", "--overlap-grad-reduce"}),
        ("0.17", "dist_muon", {"--overlap-param-gather", "--overlap-grad-reduce"}),
        ("0.16", "dist_muon", set()),
    ],
)
def test_muon_with_shared_states_in_the_words_of_each_release(
    version: str, name: str, said: set[str]
) -> None:
    """``validate_args`` of core_r0.16.0 to main: a name of its own at first, and no messages overlapped."""
    assert ENTRY.command is not None
    words = ENTRY.command(cases.plan(64, 128), of("llama3-8b", optimizer="muon"), version).program
    assert words[words.index("--optimizer") + 1] == name
    assert words[words.index("--muon-tp-mode") + 1] == "duplicated"
    known = {"--use-distributed-optimizer", "--overlap-param-gather", "--overlap-grad-reduce"}
    assert known & set(words) == said


def test_saved_tensors_of_some_layers_go_to_the_host() -> None:
    """Megatron-LM d98e8a64, model_parallel_config.py: cpu_offloading_num_layers, a flag of the same name."""
    found = flags(cases.plan(64, 128, offload="activations:20"), of("llama3-8b"))
    assert found["--cpu-offloading-num-layers"] == ["20"]
    assert not {"--cpu-offloading", "--optimizer-cpu-offload"} & set(found)
    assert "--cpu-offloading-num-layers" not in flags(cases.plan(64, 128), of("llama3-8b"))


@every("name", ["glm-4.7-flash", "glm-4.5-air", "qwen3.5-27b"])
def test_the_width_of_heads_is_said_where_the_hidden_size_is_no_multiple(name: str) -> None:
    """Else ``validate_args`` asserts, of latent attention too (Megatron-LM d98e8a64, arguments.py)."""
    found = flags(cases.plan(8, 8), of(name, 8))
    assert int(found["--hidden-size"][0]) % int(found["--num-attention-heads"][0])
    assert "--kv-channels" in found


def test_models_keep_their_shape() -> None:
    gpt = flags(cases.plan(64, 128), of("gpt3-175b"))
    assert gpt["--position-embedding-type"] == ["learned_absolute"]
    assert gpt["--max-position-embeddings"] == ["2048"]
    assert not {"--swiglu", "--disable-bias-linear", "--untie-embeddings-and-output-weights"} & set(gpt)
    qwen = flags(cases.plan(64, 128), of("qwen2.5-7b"))
    assert {"--add-qkv-bias", "--disable-bias-linear", "--swiglu"} <= set(qwen)
    deepseek = flags(cases.plan(64, 128), of("deepseek-v3"))
    assert eval(deepseek["--moe-layer-freq"][0]) == [0] * 3 + [1] * 58
    assert deepseek["--kv-lora-rank"] == ["512"]
    assert "--group-query-attention" not in deepseek
    oss = flags(cases.plan(64, 128), of("gpt-oss-120b"))
    assert oss["--window-size"] == ["127,0"]
    assert eval(oss["--window-attn-skip-freq"][0]) == [1, 0] * 18
    assert oss["--softmax-type"] == ["learnable"]


def test_steps_follow_from_the_tokens() -> None:
    work = {"tokens": 1e9, "seq_len": 2048, "global_batch": 128}
    assert ENTRY.command is not None
    made = ENTRY.command(cases.plan(64, 128), of("llama3-8b", **work), ENTRY.versions[0])
    assert made.defaults["TRAIN_STEPS"] == "3815"


@every(
    ("fields", "hardware", "connections"),
    [
        ({"tp": 2.0}, "dgx-h100", "1"),
        ({"cp": 2.0}, "dgx-h100", "1"),
        ({}, "dgx-h100", None),
        ({"tp": 2.0}, "dgx-b200", None),
        ({"tp": 2.0, "zero": 3}, "dgx-h100", "8"),
        ({"zero": 2}, "dgx-b200", "8"),
    ],
)
def test_hardware_queues_are_one_before_blackwell_and_several_with_fsdp(
    fields: dict[str, Any], hardware: str, connections: str | None
) -> None:
    assert ENTRY.command is not None
    command = ENTRY.command(cases.plan(64, 128, **fields), of("llama3-8b", hardware=hardware), "0.20")
    assert command.environment.get("CUDA_DEVICE_MAX_CONNECTIONS") == connections


@every(
    ("version", "there"),
    [
        ("0.20", {"--megatron-fsdp-version", "--megatron-fsdp-main-grads-dtype"}),
        ("0.18", {"--megatron-fsdp-main-grads-dtype"}),
        ("0.16", set()),
    ],
)
def test_an_older_release_gets_only_the_flags_that_it_has(version: str, there: set[str]) -> None:
    assert ENTRY.command is not None
    program = ENTRY.command(cases.plan(64, 128, zero=3), of("llama3-8b"), version).program
    newer = {"--megatron-fsdp-version", "--megatron-fsdp-main-grads-dtype"}
    assert newer & set(program) == there
