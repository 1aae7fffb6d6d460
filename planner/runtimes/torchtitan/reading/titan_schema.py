"""What torchtitan takes for the values of its job config and command line, and the sums that it checks.

References
----------
.. [1] torchtitan b5bcd76c (2026-08-21), torchtitan/config/configs.py: literals and ``__post_init__`` of each
   section; torchtitan/trainer.py: tokens of a step, CUDA graphs; torchtitan/distributed/parallel_dims.py.
.. [2] torchtitan 0.2.2, torchtitan/config/job_config.py, for TOML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from planner.runtimes.imports.schemas import Kind, check_kinds
from planner.runtimes.imports.sheet import Sheet
from planner.units import is_whole


def _whole(value: object) -> bool:
    return not isinstance(value, bool) and re.fullmatch(r"-?\d{1,18}", str(value)) is not None


def _positive(value: object) -> bool:
    return _whole(value) and int(str(value)) >= 1


def _number(value: object) -> bool:
    try:
        return not isinstance(value, bool) and float(str(value)) == float(str(value))
    except ValueError:
        return False


def _switch(value: object) -> bool:
    return isinstance(value, bool) or str(value) in ("", "True", "False", "true", "false")


DEGREES: Final = (
    r"parallelism\.(?:data_parallel_replicate|tensor_parallel|context_parallel|pipeline_parallel|expert_parallel"
    r"|expert_tensor_parallel)_degree"
)
CURRENT: Final[Mapping[str, str]] = {
    "training": (
        "num_tokens_per_microbatch_per_dp_rank num_tokens_per_train_step max_context_length max_norm steps "
        "enable_cpu_offload disable_cuda_graphs dtype mixed_precision_param mixed_precision_reduce gc_freq "
        "gc_debug"
    ),
    "parallelism": (
        "data_parallel_replicate_degree data_parallel_shard_degree fsdp_reshard_after_forward "
        "enable_fsdp_symm_mem tensor_parallel_degree enable_sequence_parallel spmd_backend "
        "pipeline_parallel_degree module_fqns_per_model_part pipeline_parallel_first_stage_less_layers "
        "pipeline_parallel_last_stage_less_layers pipeline_parallel_layers_per_stage "
        "pipeline_parallel_schedule pipeline_parallel_schedule_csv num_pp_microbatches "
        "context_parallel_degree context_parallel_load_balancer context_parallel_ptrr_mask_key "
        "context_parallel_rotate_method expert_parallel_degree"
    ),
    "compile": ("enable enable_async_tensor_parallel components backend"),
    "comm": (
        "init_timeout_seconds train_timeout_seconds trace_buf_size save_traces_folder "
        "save_traces_file_prefix mode"
    ),
}
"""Options of sections that the newest release takes; a switch has one with ``no_`` too."""

SWITCHES: Final = re.compile(
    r"(?:compile\.(?:no_)?(?:enable|enable_async_tensor_parallel)|checkpoint\.(?:no_)?enable"
    r"|training\.(?:no_)?(?:enable_cpu_offload|disable_cuda_graphs)"
    r"|parallelism\.(?:no_)?(?:enable_sequence_parallel|enable_async_tensor_parallel))"
)
"""Options that are on or off; on the command line they take no word."""

KINDS: Final = (
    Kind(re.compile(r"optimizer\.(?:lr|beta1|beta2|eps|weight_decay)"), _number, "a number"),
    Kind(re.compile(r"lr_scheduler\.(?:decay_ratio|min_lr_factor)"), _number, "a number"),
    Kind(re.compile(r"metrics\.log_freq|lr_scheduler\.warmup_steps"), _whole, "a whole number"),
    Kind(
        re.compile(r"comm\.mode"),
        lambda value: str(value) in ("default", "fake_backend", "local_tensor", "torchcomms"),
        "default, fake_backend, local_tensor, torchcomms",
    ),
    Kind(re.compile(DEGREES), _positive, "a whole number, 1 or more"),
    Kind(
        re.compile(r"parallelism\.data_parallel_shard_degree"),
        lambda value: _positive(value) or str(value) == "-1",
        "a whole number, 1 or more, or -1 for the ranks left",
    ),
    Kind(
        re.compile(
            r"training\.(?:num_tokens_per_microbatch_per_dp_rank|max_context_length|local_batch_size|batch_size|seq_len)"
            r"|parallelism\.(?:num_pp_microbatches|pipeline_parallel_microbatch_size)"
        ),
        _positive,
        "a whole number, 1 or more",
    ),
    Kind(
        re.compile(r"training\.(?:num_tokens_per_train_step|global_batch_size)"),
        lambda value: _positive(value) or str(value) == "-1",
        "a whole number, 1 or more, or -1",
    ),
    Kind(re.compile(r"training\.steps|checkpoint\.interval"), _whole, "a whole number"),
    Kind(re.compile(r"training\.dtype"), lambda v: str(v) in ("bfloat16", "float32"), "bfloat16, float32"),
    Kind(
        re.compile(r"training\.mixed_precision_param"),
        lambda value: str(value) in ("bfloat16", "float32"),
        "bfloat16, float32",
    ),
    Kind(re.compile(r"training\.max_norm"), _number, "a number"),
    Kind(
        re.compile(r"lr_scheduler\.decay_type"),
        lambda value: str(value) in ("linear", "sqrt", "cosine"),
        "linear, sqrt, cosine",
    ),
    Kind(
        re.compile(r"checkpoint\.async_mode"),
        lambda value: str(value) in ("disabled", "async", "async_with_pinned_mem"),
        "disabled, async, async_with_pinned_mem",
    ),
    Kind(
        re.compile(r"parallelism\.context_parallel_rotate_method"),
        lambda value: str(value) in ("allgather", "alltoall"),
        "allgather, alltoall",
    ),
    Kind(
        re.compile(r"parallelism\.spmd_backend"),
        lambda value: str(value) in ("partial_dtensor", "spmd_types", "default", "full_dtensor"),
        "partial_dtensor, spmd_types",
    ),
    Kind(
        re.compile(r"activation_checkpoint\.mode"),
        lambda value: str(value) in ("none", "full", "selective", "memory_budget"),
        "none, full, selective, memory_budget",
    ),
    Kind(SWITCHES, _switch, "a switch, true or false"),
)


def check_values(sheet: Sheet) -> None:
    """Note a fault for each value that torchtitan would not take."""
    check_kinds(sheet, KINDS)
    for key in sheet.values:
        if key.startswith("parallelism.") and key.endswith("_degree") and key not in sheet.seen:
            sheet.fault(
                key, "a degree that torchtitan does not have", "data, tensor, context, pipeline, expert"
            )
    _check_options(sheet)
    gone = "parallelism.expert_tensor_parallel_degree"
    if gone in sheet.values and "training.num_tokens_per_microbatch_per_dp_rank" in sheet.values:
        sheet.fault(gone, "an argument that this release does not have", "no such argument")
    pp, ep = (int(sheet.options.get(name, "1")) for name in ("pp", "ep"))
    for name, degree in (("pp", pp), ("ep", ep)):
        if degree > 1 and _graphs(sheet):
            expected = "--training.disable_cuda_graphs beside pipeline or expert parallelism"
            sheet.fault("training.disable_cuda_graphs", f"not said with {name} {degree}", expected)
    if _on(sheet, "compile.enable_async_tensor_parallel") and not _on(sheet, "compile.enable"):
        sheet.fault(
            "compile.enable_async_tensor_parallel", "without compile.enable", "compile.enable with it"
        )


def _check_options(sheet: Sheet) -> None:
    """Note a fault for each option of a file for the newest release that it does not have."""
    if "training.num_tokens_per_microbatch_per_dp_rank" not in sheet.values:
        return
    for key, value in sheet.values.items():
        section, _, name = key.partition(".")
        known = CURRENT.get(section, "").split()
        if value is None or not known or "." in name or name.removeprefix("no_") in known:
            continue
        if f"{section}.{name}" != "parallelism.expert_tensor_parallel_degree":
            sheet.fault(
                key, "an option that this release does not have", f"one of {', '.join(sorted(known))}"
            )


def _graphs(sheet: Sheet) -> bool:
    """Return whether CUDA graphs are on: a release with them, where nothing switches them off."""
    current = "training.max_context_length" in sheet.values
    return current and not _on(sheet, "training.disable_cuda_graphs")


def _on(sheet: Sheet, key: str) -> bool:
    section, _, name = key.partition(".")
    said = sheet.values.get(key)
    if sheet.values.get(f"{section}.no_{name}") is not None:
        return False
    return said is not None and str(said).lower() not in ("false", "0")


def check_tokens(sheet: Sheet, tp: int, cp: int, sequence_parallel: bool) -> None:
    """Check that the ranks which share a sequence share its tokens evenly (``Trainer.__init__``)."""
    key = "training.num_tokens_per_microbatch_per_dp_rank"
    tokens = str(sheet.values.get(key, ""))
    parts = (tp if sequence_parallel else 1) * (2 * cp if cp > 1 else 1)
    if is_whole(tokens) and parts > 0 and int(tokens) % parts:
        sheet.fault(key, tokens, f"a multiple of {parts}, for sequence and context parallelism")
