"""The command of verl's supervised fine-tuning: ``torchrun -m verl.trainer.sft_trainer KEY=VALUE``.

Releases before have ``verl.trainer.fsdp_sft_trainer`` in its place.

References
----------
.. [1] verl (https://github.com/volcengine/verl), verl/trainer/fsdp_sft_trainer.py, and its defaults,
   verl/trainer/config/sft_trainer.yaml.
.. [2] verl (https://github.com/verl-project/verl), verl/trainer/sft_trainer.py, and its defaults,
   verl/trainer/config/sft_trainer_engine.yaml and engine/fsdp.yaml; passes of as many sequences as fill
   ``max_token_len_per_gpu``, of which the ranks of a sequence hold so many each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.dataclasses import replace
from planner.runtimes.imports.hub import model_named
from planner.runtimes.imports.passed_over import above, passed_over, tell
from planner.runtimes.imports.sheet import Imported, Sheet
from planner.runtimes.libraries.reading import trainer
from planner.runtimes.libraries.reading.adapters import say_adapter
from planner.runtimes.libraries.reading.trainer_layout import OF_OUR_FILES, PROCESSES, TrainerLaunch

MICRO: Final = "data.micro_batch_size_per_gpu"
OLD_MICRO: Final = "data.micro_batch_size"
RANKS: Final = "ulysses_sequence_parallel_size"
FSDP: Final = "model.fsdp_config."
WITHOUT_EFFECT: Final = re.compile(
    r"data\.(?!train_batch|micro_batch|max_length).*|trainer\..*|checkpoint\..*|model\.(?:trust_.*|use_shm|lora_alpha|external_lib)"
    r"|optim\.(?!optimizer$).*|model\.fsdp_config\.wrap_policy\..*|use_remove_padding|hydra\..*"
)
"""Keys that decide neither layout nor what is kept in memory."""


OF_ENGINE: Final = {
    "model.path": "model.partial_pretrain", "engine.strategy": "model.strategy", f"engine.{RANKS}": RANKS,
    "engine.model_dtype": f"{FSDP}model_dtype", "engine.param_offload": f"{FSDP}cpu_offload",
    "engine.optimizer_offload": f"{FSDP}cpu_offload", "engine.offload_policy": f"{FSDP}cpu_offload",
    "engine.wrap_policy.min_num_params": f"{FSDP}wrap_policy.min_num_params",
}  # fmt: skip
"""Keys of today's trainer to those of the one before, by which they are read [2]_."""
USUAL: Final[dict[str, str | None]] = {"model.strategy": "fsdp", "data.use_dynamic_bsz": "true"}
"""What today's trainer has by itself and the one before had not."""
IDLE: Final = re.compile(
    r"engine|engine\.(?:forward_prefetch|use_orig_params|seed|full_determinism|use_torch_compile|forward_only|dtype"
    r"|entropy_.*|pad_to_.*|_target_)|profiler.*|model\.(?:use_remove_padding|tokenizer_path|hdfs_path)"
)
UNITS: Final = r"model\.fsdp_config\.wrap_policy\.min_num_params"
TOLD: Final = (passed_over(UNITS, above(0), "priced with each layer as a unit"),)
"""What is not priced; nothing in it decides the layout."""


def from_tree(tree: Mapping[str, Any], path: Path, launch: TrainerLaunch) -> Imported:
    """Return what the keys of a command say, with verl's defaults [1]_."""
    values = {key: _plain(str(value)) for key, value in tree.items()}
    current = any(key in OF_ENGINE or key.partition(".")[0] == "engine" for key in values)
    if current:
        values = USUAL | _renamed(values)
    sheet = Sheet(str(path), values)
    if launch.gpus is None:
        sheet.fault(PROCESSES, "nothing", "how many accelerators start it: --gpus N")
        sheet.instead[PROCESSES] = "gpus"
    sheet.say("gpus", launch.gpus)
    _batch(sheet)
    trainer.length(sheet, "data.max_length", 1024, packed=False)
    if current:
        _engine(sheet)
    sheet.say("precision", "bf16")
    trainer.optimizer(sheet, "optim.optimizer")
    trainer.recompute(sheet, "model.enable_gradient_checkpointing", True)
    rank = sheet.whole("model.lora_rank")
    if rank:
        say_adapter(sheet, 16, ("model.lora_rank", rank), ("model.target_modules", ("all",)))
    sheet.seen.update(("model.lora_rank", "model.target_modules"))
    _layout(sheet)
    model = model_named(sheet, path, "model.partial_pretrain")
    tell(sheet, TOLD)
    sheet.ignore(WITHOUT_EFFECT)
    return replace(sheet.imported("fsdp", model_name=model), lifted=OF_OUR_FILES)


def _renamed(values: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return keys of today's trainer as those before; of two that are one, what is switched on counts."""
    found: dict[str, str | None] = {}
    for key, value in values.items():
        name = OF_ENGINE.get(key, key)
        if name not in found or str(found[name]).lower() in ("none", "false"):
            found[name] = value
    return found


def _engine(sheet: Sheet) -> None:
    """Say what today's trainer decides: its engine, its shards, and passes that tokens fill [2]_."""
    engine = str(sheet.take("engine") or "fsdp")
    if engine not in ("fsdp", "fsdp2"):
        sheet.instead["engine"] = "runtime"
        sheet.fault("engine", engine[:40], "fsdp, or MODEL with the options of a plan for another runtime")
    shards = sheet.whole("engine.fsdp_size")
    sheet.say("zero_shards", shards if shards and shards > 0 else None, "engine.fsdp_size")
    if sheet.has("data.use_dynamic_bsz"):
        ranks = sheet.whole(RANKS) or 1
        tokens = (sheet.whole("data.max_token_len_per_gpu") or 8192) * ranks
        length = int(sheet.options.get("seq_len", "0"))
        replicas = int(sheet.options.get("gpus", "0")) // ranks
        share = int(sheet.options["global_batch"]) // max(1, replicas)
        room = max(1, tokens // max(1, length))
        fitting = max((count for count in range(1, min(room, share) + 1) if share % count == 0), default=1)
        sheet.say("micro_batch", fitting, "data.max_token_len_per_gpu")
        sheet.notes.append(
            f"data.use_dynamic_bsz: passes of {fitting} whole sequences, of {tokens:,} tokens at most"
        )
    sheet.seen.update(("data.use_dynamic_bsz", "data.max_token_len_per_gpu"))
    sheet.ignore(IDLE)


def _plain(text: str) -> str | None:
    """Return a value as it stands; ``null`` is none."""
    return None if text.lower() == "null" else text.strip("'\"")


def _batch(sheet: Sheet) -> None:
    """Say the batch, and the sequences of a pass, whose old key meant something else in each release."""
    sheet.say("global_batch", sheet.whole("data.train_batch_size") or 256, "data.train_batch_size")
    micro = sheet.whole(MICRO)
    if micro is None and sheet.take(OLD_MICRO) is not None:
        found = f"{OLD_MICRO} {sheet.values[OLD_MICRO]}"
        sheet.fault(MICRO, found, "sequences of a pass: the old key has no effect today; or --micro-batch N")
        sheet.instead[MICRO] = "micro_batch"
    sheet.seen.add(OLD_MICRO)
    sheet.say("micro_batch", 4 if micro is None else micro, MICRO)


def _layout(sheet: Sheet) -> None:
    """Say how weights are sharded, what they rest in, and what shares a sequence."""
    again = str(sheet.take("engine.reshard_after_forward")).lower()
    sheet.say("zero", 2 if again == "false" else 3, "engine.reshard_after_forward")
    if str(sheet.take("model.strategy") or "fsdp2") == "fsdp":
        sheet.changes.append("engine=fsdp1")
    if str(sheet.take(f"{FSDP}model_dtype") or "fp32") in ("bf16", "bfloat16"):
        trainer.own_bfloat16(sheet, f"{FSDP}model_dtype")
    ranks = sheet.degree(RANKS)
    if ranks and ranks > 1:
        sheet.say("cp", ranks, RANKS)
        sheet.say("cp_method", "all-to-all", RANKS)
    expected = "false: what it leaves on the host differs with its release; or --offload weights"
    trainer.refuse(sheet, {f"{FSDP}cpu_offload": expected}, {f"{FSDP}cpu_offload": "offload"})
    sheet.seen.add(f"{FSDP}offload_params")
    if sheet.has("model.use_liger"):  # it takes the loss of the logits itself [1]_
        sheet.notes.append("Liger's kernels: priced without, a little slower")
