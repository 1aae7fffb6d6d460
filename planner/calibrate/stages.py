"""What is fitted to which runs: a list of stages, each with few factors and the runs that can tell them.

Stages come in the order in which they build on one another: accelerators before the runtimes that use them.
"""

from __future__ import annotations

from collections.abc import Iterable

from planner.calibrate.constants import Key
from planner.calibrate.fit import Factor, memory_log_errors, outcome_log_chances
from planner.calibrate.stage import Stage
from planner.calibrate.stage_runs import (
    dense_recipe,
    expert_recipe,
    hidden_all_to_all,
    layout,
    megatron_2020_23,
    model,
    model_and_size,
    older_recipes,
    source_runs,
    weighed,
)
from planner.calibrate.stages_host import HOST_STAGES
from planner.calibrate.stages_nanotron import NANOTRON_STAGES
from planner.runtimes import plain_runtimes

__all__ = ["STAGES", "Stage", "neutral_values"]


def neutral_values(stages: Iterable[Stage]) -> dict[Key, float]:
    """Return the plain value of every constant of an accelerator, 1, and of a runtime: a fit starts there.

    Those of eras and sites are in no run before they are fitted.
    """
    keys = [key for stage in stages for factor in stage.factors for key in factor.keys]
    plain = {
        (scope, owner, name): float(plain_runtimes()[owner].traits.value_of(name))
        for scope, owner, name in keys
        if scope == "runtime"
    }
    return plain | {key: 1.0 for key in keys if key[0] == "accelerator"}


COMPUTE = "share of the kernels' stand-alone rate that its training steps reach [-]"
KERNEL = "rate of its attention kernel over the published one [-]"
NETWORK = "share of the network's usual rate that this site reaches [-]"
LINKS = "share of the fast links' usual rate that this site's collectives reach [-]"

WAIT = "share of the passes that ranks wait where shards span many domains [-]"

MESSAGES = "share of a message between stages that is waited for [-]"

SLACK = "allocator reserve as a share of activations and workspace [-]"
BESIDE = "context, communicators and workspaces that the allocator does not see [byte]"

SYNCHRONISED = "host time of a message between stages: to synchronise and launch again [s]"

STAGES = (
    Stage(
        "llm-foundry",
        source_runs("llm-foundry-mpt"),
        (
            Factor(
                # Fitted to the sweep alone, PyTorch on A100 of the same year, it is 1.06.
                ("era", "llm-foundry-2023", "compute_derate"),
                1.0,
                COMPUTE,
                0.2,
                shared=(("era", "megatron-like", "compute_derate"),),
            ),
            Factor(
                ("era", "llm-foundry-2023", "elementwise_traffic"),
                2.0,
                "bytes that memory-bound kernels move over those counted for fused ones [-]",
                0.7,
            ),
            Factor(("era", "llm-foundry-2023", "attention_share"), 1.0, KERNEL, 0.1),
            Factor(
                ("runtime", "fsdp", "sharded_wait"),
                0.04,
                WAIT,
                0.7,
                # Torchtitan's runs tell theirs within a factor of three: out of model 3.6%, 3.9% with it.
                shared=(
                    ("runtime", "deepspeed", "sharded_wait"),
                    ("runtime", "torchtitan", "sharded_wait"),
                ),
            ),
        ),
        model_and_size,
        "https://github.com/mosaicml/llm-foundry/tree/main/scripts/train/benchmarking",
    ),
    Stage(
        "memory of the layouts sweep",
        source_runs("aleph-alpha-layouts"),
        (
            Factor(("era", "megatron-like", "reserve_share"), 0.3, SLACK, 1.0),
            Factor(
                ("era", "megatron-like", "memory_spread"),
                0.03,
                "spread of the logarithm of measured over predicted memory [-]",
                0.5,
            ),
        ),
        layout,
        "https://github.com/Aleph-Alpha/NeurIPS-WANT-submission-efficient-parallelization-layouts",
        outcome_log_chances,
    ),
    Stage(
        "layouts sweep",
        source_runs("aleph-alpha-layouts"),
        (
            Factor(("site", "aleph-alpha-layouts", "network_share"), 0.2, NETWORK, 2.0),
            Factor(
                ("era", "megatron-like", "dp_byte_seconds"),
                1e-11,
                "time for each byte sent for data parallelism, beside the links' own [s/byte]",
                1.5,
            ),
            Factor(
                ("era", "megatron-like", "tp_bandwidth_share"),
                0.5,
                "share of nccl-tests rate of tensor-parallel collectives [-]",
                1.0,
            ),
            Factor(
                ("era", "megatron-like", "read_back_seconds"),
                2e-4,
                "time in which the device idles before attention while the host reads a value back [s]",
                1.0,
            ),
            Factor(
                ("era", "megatron-like", "retry_seconds"),
                2.0,
                "time of a step in which the allocator gives its blocks back and asks for them again [s]",
                1.0,
            ),
        ),
        layout,
        "https://github.com/Aleph-Alpha/NeurIPS-WANT-submission-efficient-parallelization-layouts",
    ),
    Stage(
        "Megatron-LM's runs of 2020-23",
        megatron_2020_23,
        (
            Factor(
                ("era", "megatron-2020-22", "tp_bandwidth_share"),
                1.0,
                "share of nccl-tests rate of tensor-parallel collectives [-]",
                0.5,
            ),
            # DeepSpeed's runs are of Megatron's models: out of model 10.6% with their own, 10.2% with this.
            Factor(
                ("era", "megatron-2020-22", "compute_derate"),
                1.0,
                COMPUTE,
                0.2,
                "Megatron-LM",
                shared=(("runtime", "deepspeed", "compute_derate"),),
            ),
            Factor(("era", "zero-bubble-2023", "compute_derate"), 1.0, COMPUTE, 0.2, "Megatron-LM"),
            Factor(
                ("era", "zero-bubble-2023", "message_host_seconds"),
                3e-4,
                SYNCHRONISED,
                1.0,
            ),
        ),
        model,
        "https://arxiv.org/abs/2104.04473",
    ),
    Stage(
        "single-node runs of vTrain",
        source_runs("vtrain-single"),
        (
            Factor(
                # Of two minima, 1.6 and 1.2 ms or 0.5 and 2.3, the first is the lower by 4% of its error.
                ("era", "megatron-deepspeed", "host_seconds_forward"),
                1.5e-3,
                "host time to launch a layer, forward [s]",
                1.0,
            ),
            Factor(
                ("era", "megatron-deepspeed", "host_seconds_backward"),
                1.5e-3,
                "host time to launch a layer, backward [s]",
                1.0,
            ),
            Factor(
                ("era", "megatron-deepspeed", "host_exposed"),
                0.2,
                "share of the shorter of host's and device's time that tensor-parallel ranks do not hide [-]",
                1.0,
            ),
            Factor(
                ("era", "megatron-deepspeed", "elementwise_traffic"),
                1.2,
                "bytes that memory-bound kernels move over those counted for fused ones [-]",
                0.7,
            ),
        ),
        lambda priced: (priced.run.hidden, priced.plan.tp, priced.run.num_gpus),
        "https://github.com/VIA-Research/vTrain",
    ),
    Stage(
        "BLOOM's trials",
        source_runs("bigscience-bloom-prequel"),
        (
            Factor(("site", "bigscience-bloom-prequel", "scaleup_share"), 1.0, LINKS, 0.7),
            Factor(("site", "bigscience-bloom-prequel", "network_share"), 1.0, NETWORK, 0.7),
            Factor(("era", "megatron-deepspeed", "pp_exposed"), 0.5, MESSAGES, 1.0),
        ),
        layout,
        "https://github.com/bigscience-workshop/bigscience/tree/master/train/tr11-176B-ml",
    ),
    Stage(
        "InternEvo",
        source_runs("internevo"),
        # The middle of the other codes', 0.87 to 1.05.
        (Factor(("era", "internevo-2023", "compute_derate"), 0.96, COMPUTE, 0.1),),
        layout,
        "https://github.com/InternLM/InternEvo/blob/develop/doc/en/train_performance.md",
    ),
    Stage(
        "recipes of the performance pages, dense",
        dense_recipe,
        (
            *(
                Factor(("accelerator", name, "training_share"), 0.9, COMPUTE, 0.15, "recipes")
                for name in ("h100-80gb-sxm", "b200-180gb", "gb200-186gb", "gb300")
            ),
            Factor(("era", "nemo-2024", "compute_derate"), 0.95, COMPUTE, 0.15),
            Factor(("era", "megatron-bridge-early", "compute_derate"), 1.0, COMPUTE, 0.1),
        ),
        model,
        "https://docs.nvidia.com/nemo/megatron-bridge/latest/performance-summary.html",
    ),
    Stage(
        "recipes of the performance pages, mixture of experts",
        expert_recipe,
        (
            Factor(
                ("era", "megatron-bridge", "ep_traffic"),
                4.0,
                "bytes of device memory moved for each byte sent to experts [-]",
                0.5,
                shared=older_recipes("ep_traffic"),
            ),
            Factor(
                ("era", "megatron-bridge", "all_to_all_traffic"),
                12.0,
                "the same, more where an all-to-all with its permutations sends them [-]",
                0.1,
                shared=older_recipes("all_to_all_traffic"),
            ),
            Factor(
                ("era", "megatron-bridge", "expert_host_seconds"),
                5.7e-4,
                "host time for each local expert of a layer [s]",
                0.15,
                shared=older_recipes("expert_host_seconds"),
            ),
            Factor(
                ("era", "megatron-bridge", "expert_layer_host_seconds"),
                8.7e-3,
                "the least host time of a layer with experts [s]",
                0.15,
                shared=older_recipes("expert_layer_host_seconds"),
            ),
            Factor(("accelerator", "b300", "training_share"), 0.9, COMPUTE, 0.05),
        ),
        model_and_size,
        "https://docs.nvidia.com/nemo/megatron-bridge/latest/performance-summary.html",
    ),
    Stage(
        "all-to-alls of experts beside compute",
        hidden_all_to_all,
        (
            Factor(
                ("runtime", "megatron-bridge", "all_to_all_overlapped"),
                0.3,
                "share of an all-to-all beside another micro-batch's compute that shows all the same [-]",
                1.0,
                shared=(("runtime", "megatron-lm", "all_to_all_overlapped"),),
            ),
        ),
        lambda priced: priced.run.framework,
        "https://docs.nvidia.com/nemo/megatron-bridge/latest/performance-summary.html",
    ),
    Stage(
        "DistFlashAttention",
        source_runs("distflashattn"),
        (
            Factor(
                # From the other code whose host waits for the device at each message.
                ("runtime", "fsdp", "message_host_seconds"),
                3e-4,
                SYNCHRONISED,
                1.0,
            ),
        ),
        model,
        "https://arxiv.org/abs/2310.03294",
    ),
    Stage(
        "torchtitan",
        lambda priced: priced.era.startswith("torchtitan-202"),
        (
            Factor(
                # From the other code that runs PyTorch's collectives by themselves, the layouts sweep's.
                ("runtime", "torchtitan", "tp_bandwidth_share"),
                0.57,
                "share of nccl-tests rate of tensor-parallel collectives [-]",
                0.5,
            ),
            Factor(("runtime", "torchtitan", "compute_derate"), 0.9, COMPUTE, 0.2),
        ),
        lambda priced: (priced.run.source, priced.run.num_gpus, priced.plan.tp, priced.plan.cp),
        "https://github.com/pytorch/torchtitan/tree/main/benchmarks",
    ),
    Stage(
        "DeepSpeed's ZeRO-3 on many ranks",
        lambda priced: priced.runtime.name == "deepspeed",
        (
            Factor(
                ("era", "deepspeed-2021", "dp_rate_share"),
                0.5,
                "share of nccl-tests rate, latency alike, of data-parallel collectives [-]",
                0.7,
            ),
        ),
        model,
        "https://github.com/deepspeedai/DeepSpeed/blob/master/docs/_posts/2022-07-26-deepspeed-azure.md",
    ),
    Stage(
        "memory of BLOOM's trials",
        weighed(source_runs("bigscience-bloom-prequel")),
        (Factor(("era", "megatron-deepspeed", "framework_bytes"), 10 * 2.0**30, BESIDE, 0.5),),
        layout,
        "https://github.com/bigscience-workshop/bigscience/tree/master/train/tr11-176B-ml",
        memory_log_errors,
    ),
    Stage(
        "memory of OneFlow without pipelines, which hold more than is counted",
        weighed(lambda priced: priced.era == "oneflow-2021" and priced.plan.pp == 1),
        (Factor(("era", "oneflow-2021", "framework_bytes"), 2.0**30, BESIDE, 0.5),),
        layout,
        "https://github.com/Oneflow-Inc/DLPerf/tree/master/reports/GPT",
        memory_log_errors,
    ),
    Stage(
        "memory of torchtitan",
        weighed(lambda priced: priced.era == "torchtitan-2024"),
        (Factor(("era", "torchtitan-2024", "reserve_share"), 0.05, SLACK, 1.0),),
        lambda priced: (priced.run.source, priced.run.num_gpus, priced.plan.tp, priced.plan.cp),
        "https://github.com/pytorch/torchtitan/tree/main/benchmarks",
        memory_log_errors,
    ),
    *NANOTRON_STAGES,
    *HOST_STAGES,
)
"""All stages, in order."""
