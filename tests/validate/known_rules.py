"""Rules of each runtime that its own code does not check, or checks late, and those that it does.

A judge shows plans that break a rule to the runtime's code. What that takes is in ``UNSEEN`` with the reason;
what it refuses is in ``REFUSED``. ``tests/property/test_judged_rules.py`` asks for every rule of a
runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

WHOLE_LAYERS: Final = tuple(
    f"{what}-without-{axis}" for what in ("layer", "scan", "own-model") for axis in ("tp", "cp", "pp")
)
"""Rules on layers that nothing splits."""

UNSEEN: Final[Mapping[str, Mapping[str, str]]] = {
    "deepspeed": {
        "offload-needs-zero": "without ZeRO the section is not written",
        "gradient-dtype-offered": "raised when the engine is made",
        "master-dtype-offered": "the config says no other master",
        "state-dtype-offered": "the config says no other states",
        "ulysses-attention": "the model is not built from the config",
        "ulysses-heads": "raised by Ulysses when the model is registered",
        "autotp-without-ulysses": "their groups are made after the config is read; stated for AutoEP alone",
        "autotp-has-plan": "the model is not built from the config",
        "autotp-needs-autoep": "AutoTP would leave experts whole",
        "autoep-has-preset": "the model is not built from the config",
        "autoep-without-ulysses": "raised when the ZeRO-3 engine is built",
        "heads-divide": "the model is not built from the config",
        "kv-heads-divide": "the model is not built from the config",
        "ffn-divides": "the model is not built from the config",
        "no-virtual-stages": "the config has no key for it",
        "no-sequence-parallel": "the config has no key for it",
        "experts-whole": "the config written has whole experts",
        "masks-trained-whole": "the script is not run",
        "positions-cover-sequence": "the model is not built from the config",
        "pipeline-offload": "the stages of the script are not tried with it",
        "pipeline-balance": "the stages of the script pass hidden states alone",
        "pipeline-ties": "the stages of the script do not share weights",
        "pipeline-architecture": "the stages of the script rotate positions",
        "pipeline-without-tp": "the stages of the script are whole",
        "pipeline-without-cp": "the stages of the script are whole",
        "pipeline-without-ep": "the stages of the script are whole",
        "split-has-all-stages": "the script reads the split, not the config",
        "stages-have-layers": "the script reads the split, not the config",
        "sequence-divides": "seen in the first forward",
        "model-in-transformers": "no config could be written",
        "batch-divides": "with AutoTP the total is not said, since it would count all ranks",
        "experts-divide": "seen when the model's experts are found",
        "expert-mesh-divides": "the config written has whole experts",
    }
    | {name: "the model is not built from the config" for name in WHOLE_LAYERS},
    "fsdp": {
        "no-pipeline": "the YAML has no key for a pipeline",
        "no-virtual-stages": "the YAML has no key for a pipeline",
        "no-expert-parallel": "the YAML has no key for experts",
        "no-sequence-parallel": "the YAML has no key for it",
        "experts-follow-tp": "the tensor-parallel plan of transformers decides",
        "heads-divide": "the model is not built by the launcher",
        "kv-heads-divide": "the model is not built by the launcher",
        "ffn-divides": "the model is not built by the launcher",
        "attention-splits": "the model is not built by the launcher",
        "sequence-divides": "seen in the first forward",
        "model-in-transformers": "no config could be written",
        "masks-trained-whole": "the script is not run",
        "one-training-dtype": "the script has one dtype for all of them",
        "bf16-weights-compute-in-bf16": "Accelerate casts them to float32, and computes",
        "adapters-in-fp32": "the script's adapters are fp32, whatever is asked",
        "quantised-states-have-no-dtype": "torchao's optimizer has no key for it",
        "positions-cover-sequence": "the model is not built by the launcher",
        "context-is-causal": "raised by Accelerate when the model is prepared",
        "host-weights-have-shards": "one rank has nothing to shard, and its weights may rest on the host",
        "batch-divides": "the launcher does not know the global batch",
        "no-stage-layers": "the YAML has no key for a pipeline",
        "experts-divide": "the YAML has no key for experts",
        "expert-mesh-divides": "the YAML has no key for experts",
        "ddp-alone": "one replica under tensor parallelism is no data parallelism",
    }
    | {
        name: "the model is not built by the launcher"
        for name in WHOLE_LAYERS
        if name != "own-model-without-pp"
    },
    "torchtitan": {
        "positions-cover-sequence": "no model with learned positions is written",
        "model-in-torchtitan": "a model of other parts was written",
        "schedule-chunks": "a schedule of one stage runs its first and leaves the others out",
        "schedule-micro-batches": "raised when the schedule is built",
        "expert-tensor-degree": "there is no flag for it",
        "replicas-without-context": "context parallelism shards, whatever the plan says",
        "zero-shards-on-mesh": "a fraction of a degree cannot be said",
        "sequence-divides": "raised when the trainer starts",
        "ffn-divides": "seen when the layers are split",
        "vocabulary-divides": "seen when the layers are split",
        "expert-mesh-divides": "there is no flag for expert tensor parallelism",
        "split-has-all-stages": "a stage of no layers is built, and idles",
        "stages-have-layers": "a stage of no layers is built, and idles",
        "no-stages-without-pipeline": "stages are not written without a pipeline",
        "expert-shards-even": "raised when experts are sharded, which is not done here",
        "batch-divides": "raised when the trainer starts",
        "host-weights-have-shards": "read when FSDP wraps the model; one shard of a mesh is taken",
        "host-weights-unpiped": "read when FSDP wraps the stages, which is not done here",
        "one-training-dtype": "training.dtype is one for all of them",
        "low-bits-of-dense-layers": "read when the model is converted, which is not done here",
    },
    "nanotron": {
        "positions-cover-sequence": "no model with learned positions is written",
        "gradient-dtype-offered": "the YAML accumulates in float32, whatever is asked",
        "state-dtype-offered": "the YAML has no key for it",
        "master-dtype-offered": "the YAML has no key for it",
        "whole-nodes": "the first rank is played, whose local rank is right; the others' are not",
        "no-context-parallel": "trainer.py raises when weights are initialised",
        "model-in-nanotron": "a model of other parts was written",
        "experts-whole": "the YAML has no key for it",
        "experts-without-tp": "experts would not be split",
        "split-is-own": "nanotron cuts by its own costs, whatever the plan says",
        "split-has-all-stages": "nanotron cuts by its own costs, whatever the plan says",
        "stages-have-layers": "nanotron cuts by its own costs, whatever the plan says",
        "no-virtual-stages": "the YAML has no key for it",
        "enough-micro-batches": "asserted in the first step",
        "sequence-divides": "seen in the first forward",
        "kv-heads-divide": "truncated in silence when the model is built",
        "batch-divides": "the YAML has no global batch",
        "experts-divide": "the YAML says whole experts",
        "expert-mesh-divides": "the YAML says whole experts",
    },
}
"""Rules whose breach the files cannot say, or that bind after they are read."""

REFUSED: Final[Mapping[str, tuple[str, ...]]] = {
    "deepspeed": ("autoep-needs-offload-none", "pipeline-needs-zero-0-1"),
    "fsdp": ("fsdp-has-shards", "replicas-of-shards"),
    "torchtitan": (
        "expert-parallel-in-shards", "heads-divide", "kv-heads-divide",
        "pipeline-ties",
    ),
    "nanotron": ("heads-divide", "no-expert-parallel"),
}  # fmt: skip
"""Rules whose breach the runtime refuses when it reads the files."""

NEVER_ALONE: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("degrees-are-whole",),
    "fsdp": (
        "context-needs-shards", "host-weights-unpiped", "split-has-all-stages", "stages-have-layers",
        "zero-shards-on-mesh",
    ),
    "torchtitan": ("loss-parts-are-equal", "nvfp4-blocks-divide"),
    "nanotron": (
        "ffn-divides", "vocabulary-divides",
    ),
}  # fmt: skip
"""Rules of all runtimes, and of one, that no random plan breaks without another one."""

NEVER: Final[Mapping[str, tuple[str, ...]]] = {
    "": (
        "cp-method-offered", "degrees-make-gpus", "images-fit-sequence", "method-offered", "offload-offered",
        "optimizer-offered", "precision-offered", "recompute-offered", "schedule-offered", "zero-offered",
    ),
    "deepspeed": (
        "adapted-layers-are-named", "lora-without-offload", "overlap-has-two-buckets",
        "overlap-is-set-under-zero", "own-gradients-need-zero", "own-model-without-ep", "pipeline-method",
        "sequence-within-chunk", "ulysses-fuses-attention", "zero-shards-whole",
    ),
    "fsdp": (
        "adapted-layers-are-named", "context-runs-own-attention", "quantised-base-is-unsplit",
        "gradient-dtype-offered", "master-dtype-offered", "sequence-within-chunk", "state-dtype-offered",
    ),
    "torchtitan": (
        "gradient-dtype-offered", "master-dtype-offered", "release-has-nvfp4", "state-dtype-offered",
        "experts-divide", "release-has-every-nth-layer", "release-has-float8-recipe",
        "release-has-loss-parts", "release-has-ring", "release-has-sinks", "release-shards-beside-others",
        "sinking-in-16-bit", "sinks-see-whole-sequences", "release-has-delta", "delta-sees-whole-sequences",
        "delta-in-16-bit", "delta-backward-whole", "delta-recomputed-whole", "delta-uncompiled",
        "vision-images-fit", "vision-images-square", "vision-is-trained", "vision-on-the-device",
    ),
    "nanotron": ("zero-shards-whole",),
}  # fmt: skip
"""Rules of all runtimes, and of one, that no random plan breaks."""
