"""A LitGPT YAML (``litgpt finetune --config FILE``) as the options of a plan: FSDP of blocks, or one device.

References
----------
.. [1] LitGPT 0.5 (https://github.com/Lightning-AI/litgpt), litgpt/finetune/full.py, lora.py and pretrain.py:
   strategies (several devices are sharded; fine-tuning recomputes every block there), defaults and fused
   steps; args.py: passes of a step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.runtimes.imports.hub import model_named
from planner.runtimes.imports.literals import flat
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.libraries.reading import torchtune, trainer
from planner.runtimes.libraries.reading.adapters import say_adapter
from planner.runtimes.libraries.reading.trainer_layout import OF_OUR_FILES, TrainerLaunch
from planner.units import is_whole

PRECISIONS: Final = {
    "bf16-true": "bf16", "bf16-mixed": "bf16", "16-true": "fp16", "16-mixed": "fp16", "32-true": "fp32",
}  # fmt: skip
NAMES: Final = {"tiny-llama-1.1b": "tinyllama-1.1b", "tiny-llama-1.1b-chat": "tinyllama-1.1b"}
"""Models of its own names (litgpt/config.py)."""
FOUR: Final = ("bnb.nf4", "bnb.nf4-dq", "bnb.fp4", "bnb.fp4-dq")
PARTS: Final = {
    "lora_query": ("q_proj", True), "lora_key": ("k_proj", False), "lora_value": ("v_proj", True),
    "lora_projection": ("o_proj", False), "lora_mlp": ("gate_proj up_proj down_proj", False),
}  # fmt: skip
"""Arguments of adapters to the layers that have them, and whether they do where nothing is said [1]_."""

ON: Final = ("True", "true")
HEAD: Final = "adapters of the head are left out of the price"
WITHOUT_EFFECT: Final = re.compile(
    r"(?:data|eval|log|generate)(?:\..*)?|out_dir|resume|seed|logger_name|tokenizer_dir|initial_checkpoint_dir"
    r"|optimizer\.init_args\..*|lora_alpha|access_token|config"
    r"|train\.(?:save_interval|log_interval|lr_.*|epochs|max_tokens|max_steps|tie_embeddings|max_norm|min_lr)"
)
"""Keys that decide neither layout nor what is kept in memory."""


def is_one(tree: Mapping[str, Any]) -> bool:
    """Return whether a file has LitGPT's batch and names a checkpoint or a model."""
    train = tree.get("train")
    named = "checkpoint_dir" in tree or "model_name" in tree
    return named and isinstance(train, Mapping) and "micro_batch_size" in train and "model" not in tree


def from_tree(tree: Mapping[str, Any], path: Path, launch: TrainerLaunch) -> Imported:
    """Return what the file says, with the defaults of LitGPT."""
    sheet = Sheet(str(path), flat(tree))
    fresh = sheet.values.get("checkpoint_dir") is None and sheet.values.get("model_name") is not None
    gpus = _gpus(sheet) if launch.gpus is None else launch.gpus
    sheet.say("gpus", gpus, "devices")
    _batch(sheet, gpus)
    trainer.length(sheet, "train.max_seq_length", None, fresh)
    _optimizer(sheet, fresh)
    _method(sheet)
    _numbers(sheet)
    _layout(sheet, gpus, fresh)
    model = _model(sheet, path)
    sheet.ignore(WITHOUT_EFFECT)
    return replace(sheet.imported("fsdp", model_name=model), lifted=OF_OUR_FILES)


def _gpus(sheet: Sheet) -> int | None:
    """Return the devices of all nodes; ``auto`` is what a node has."""
    devices, nodes = sheet.take("devices"), sheet.whole("num_nodes") or 1
    devices = 1 if devices is None else devices
    return int(devices) * nodes if is_whole(str(devices)) and int(devices) > 0 else None


def _batch(sheet: Sheet, gpus: int | None) -> None:
    """Say the passes of a step: as many as a rank's share of the batch has whole ones."""
    key = "train.global_batch_size"
    whole, micro = sheet.whole(key), sheet.whole("train.micro_batch_size")
    sheet.say("micro_batch", micro, "train.micro_batch_size")
    if not gpus or not micro or whole is None or micro < 1:
        sheet.say("global_batch", whole, key)
        return
    steps = max(1, whole // gpus // micro)
    sheet.say("accumulation", steps, key)
    if steps * micro * gpus != whole:
        sheet.notes.append(f"{key} {whole}: {steps * micro * gpus} run, whole passes of each rank")


def _optimizer(sheet: Sheet, fresh: bool) -> None:
    """Say the optimizer, which is fused in training from scratch alone [1]_."""
    key = "optimizer.class_path"
    name = str(sheet.take(key, "optimizer") or "torch.optim.AdamW")
    whole = name if "." in name else f"torch.optim.{name}"
    torchtune.say_optimizer(sheet, {torchtune.COMPONENT: whole, "optimizer.fused": fresh}, key)


def _method(sheet: Sheet) -> None:
    """Say adapters, which their rank tells."""
    kind = sheet.take("quantize")
    if kind is not None and kind not in FOUR:
        sheet.fault("quantize", repr(str(kind)[:40]), f"one of {', '.join(FOUR)}; or --method lora or qlora")
        sheet.instead["quantize"] = "method"
    said = {key: sheet.take(key) for key in (*PARTS, "lora_head")}
    if sheet.values.get("lora_r") is None and kind is None:
        return
    on = [key for key, (_, usual) in PARTS.items() if str(usual if said[key] is None else said[key]) in ON]
    words = [word for key in on for word in PARTS[key][0].split()]
    sheet.notes += [HEAD] * bool(said["lora_head"])
    targets, dropout = ("lora_layers", words[::-1]), ("lora_dropout", 0.05)
    say_adapter(sheet, 16 if kind is None else 4, ("lora_r", 8), targets, dropout)


def _numbers(sheet: Sheet) -> None:
    """Say the numbers; ``true`` weights rest in them, of others there is a copy in float32."""
    trainer.numbers(sheet, "precision", "bf16-true", PRECISIONS, "bf16-true", "bf16-true")


def _layout(sheet: Sheet, gpus: int | None, fresh: bool) -> None:
    """Say that several devices are sharded, in training from scratch those of each node."""
    alone = gpus == 1
    sheet.say("zero", 0 if alone else 3, "devices")
    sheet.say("recompute", "none" if alone or fresh else "full")
    if not alone and "method" not in sheet.options:
        sheet.changes.append("engine=fsdp1")
    nodes = sheet.whole("num_nodes") or 1
    if fresh and gpus and nodes > 1 and gpus % nodes == 0:
        sheet.say("zero_shards", gpus // nodes, "devices")
    if fresh:
        sheet.notes.append("torch.compile of the whole model: priced without, a little slower")


def _model(sheet: Sheet, path: Path) -> str | None:
    """Return the model of a checkpoint or a name; sizes that a file gives itself are not read."""
    own = [key for key in sheet.values if key.startswith("model_config.") and sheet.values[key] is not None]
    sheet.seen.update((*own, "model_config", "model_name"))
    if own:
        sheet.fault("model_config", "sizes of its own", f"a model: planner estimate MODEL --from {path.name}")
        sheet.instead["model_config"] = "model"
        return None
    name = str(sheet.values.get("model_name")).lower()
    return NAMES[name] if name in NAMES else model_named(sheet, path, "checkpoint_dir", "model_name")
