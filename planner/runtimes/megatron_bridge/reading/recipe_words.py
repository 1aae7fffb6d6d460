"""The words after a launcher of Megatron-Bridge: flags that stand for fields, and overrides of fields.

References
----------
.. [1] Megatron-Bridge 067f987d, scripts/training/run_recipe.py, ``COMMON_OVERRIDE_FIELDS``.
.. [2] The same, scripts/performance/argument_parser.py and utils/overrides.py, ``set_user_overrides``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from planner.errors import Problem
from planner.inputs.yaml_file import parse_yaml
from planner.runtimes.megatron_bridge.reading.recipe_table import plain
from planner.runtimes.megatron_lm.table import DEGREE_FIELDS, VIRTUAL

FIELDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("-gb", "--global_batch_size"), "train.global_batch_size"),
    **dict.fromkeys(("-mb", "--micro_batch_size"), "train.micro_batch_size"),
    **dict.fromkeys(("-sl", "--seq_length"), "dataset.seq_length"),
    **{
        flag: f"model.{field}"
        for name, field in (*DEGREE_FIELDS.items(), ("vp", VIRTUAL), ("et", DEGREE_FIELDS["etp"]))
        for flag in (f"-{name}", f"--{field}")
    },
    "--hidden_size": "model.hidden_size",
    "--num_layers": "model.num_layers",
    "--num_moe_experts": "model.num_moe_experts",
    "--pipeline_model_parallel_layout": "model.pipeline_model_parallel_layout",
}
"""Flags that set one field."""

NAMED: Final = (
    *("--recipe", "--model", "--mode", "-m", "--model_family_name", "-mr", "--model_recipe_name", "--task"),
    *("-ng", "--num_gpus", "-gn", "--gpus_per_node", "--gpus-per-node", "--nodes", "-N", "-g", "--gpu"),
    *("-c", "--compute_dtype", "-cv", "--config_variant", "-rl", "--recompute_num_layers"),
    *("--cuda_graph_impl", "--cuda_graph_scope", "--moe_flex_dispatcher_backend", "--use_tokendrop"),
    *("--nccl_ub", "--model_name", "--model_size"),
    *("-ol", "--activation_offload_layers"),
    *("--use_megatron_fsdp", "--moe_a2a_overlap", "--recompute_modules", "--hf_path", "--peft_scheme"),
)
"""Flags that choose the recipe and the machine, or set several fields."""

QUIET: Final = (
    r"ms|max_steps|lr|min_lr|warmup_iters|pretrained_checkpoint|save_dir|load_dir|save_interval"
    r"|most_recent_k|dataset|data|dataset_.*|index_mapping_dir|packed_sequence|head_only|c4_.*|step[-_]func"
    r"|dry[-_]?run|d|submission-dry-run|dump[-_]env|deterministic|tokenizer_.*|hf|hf_token|offline|nh|nemo_home|detach"
    r"|max_retries|distributed_timeout_minutes|a|account|p|partition|t|time|time_limit|preempt_time|i"
    r"|container[-_]image|cm|mount|custom_.*|ce|cs|cb|E|env|gres|additional[-_]slurm[-_]params|packager"
    r"|enable_.*|kubeflow_.*|csp|vb|lgc|lock_gpu_freq|lmc|peak[-_]mem[-_]clk|en|export_.*|pyp"
    r"|pytorch_profiler|profiling_.*|mh|record_memory_history|nsys_.*|wd[kpejs]|wandb_.*|l|log_dir|save_config_.*"
    r"|list_config_variants|is_long_.*|retry_on_.*|golden_.*|.*_threshold|skip_first_.*|.*_tolerance"
    r"|max_outlier_ratio|eval_time_.*|srun-arg|wait|experiment-name|domain|no-gpu-resource-request"
)
"""Names of flags that decide neither layout nor shape nor batch, and patterns of such."""

WITHOUT_EFFECT: Final = re.compile(rf"--?(?:{QUIET})")

LONG: Final = frozenset(
    [f"--{word}" for word in QUIET.split("|") if re.fullmatch("[a-z_]{4,}", word)]
    + [flag for flag in (*FIELDS, *NAMED) if flag.startswith("--")]
)
"""Long flags by name, which argparse takes abbreviated too."""

OVERRIDE: Final = re.compile(r"(?:\+\+?|~)?([A-Za-z_]\w*(?:\.\w+)*)=(.*)", re.DOTALL)


@dataclass
class Words:
    """What follows a launcher."""

    flags: dict[str, str] = field(default_factory=dict)
    """Flag to its value; of a repeated one the last counts."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Field, with its section, to the value of its override."""
    problems: list[Problem] = field(default_factory=list)
    """Words that are neither."""

    def first(self, *names: str) -> str | None:
        """Return the value of the first flag that is given."""
        return next((self.flags[name] for name in names if name in self.flags), None)


def words_of(words: tuple[str, ...], where: str) -> Words:
    """Return flags and overrides; any other word is a problem, as it is for the runner's parser."""
    found, last = Words(), ""
    for word in words:
        override = OVERRIDE.fullmatch(word)
        if word.startswith("-") and not re.fullmatch(r"-\d+", word):
            last, equals, text = word.partition("=")
            last = whole_flag(last)
            found.flags[last] = text
            last = "" if equals else last
        elif override and (not last or found.flags[last] or "." in override[1]):
            found.fields[override[1]] = value_of(override[2])
            last = ""
        elif last and not (found.flags[last] and last in (*FIELDS, *NAMED[:-3], "--dataset")):
            found.flags[last] = f"{found.flags[last]} {word}".strip()
        elif word.strip() and word not in ("${@}", "$@", "${*}", "$*"):
            found.problems.append(
                Problem(where, repr(word[:80]), "a flag, or an override section.field=value")
            )
    for flag in found.flags:
        if flag not in FIELDS and flag not in NAMED and not WITHOUT_EFFECT.fullmatch(flag):
            expected = (
                "a flag of Megatron-Bridge's launchers; without it, or with its field as section.field=value"
            )
            found.problems.append(Problem(f"{where}: {flag}", "a flag that is not known", expected))
    return found


def whole_flag(flag: str) -> str:
    """Return the one flag that begins so, as argparse does; what begins none, or several, stays.

    Examples
    --------
    >>> whole_flag("--max_step"), whole_flag("--pipeline_model_parallel"), whole_flag("--no_such_flag")
    ('--max_steps', '--pipeline_model_parallel', '--no_such_flag')
    """
    longer = [known for known in LONG if known.startswith(flag)]
    return longer[0] if flag.startswith("--") and flag not in LONG and len(longer) == 1 else flag


def value_of(text: str) -> Any:
    """Return an override's value: a number, a switch, null, a list, or text.

    Examples
    --------
    >>> value_of("null"), value_of("[mlp,moe]"), value_of("'Et|tL'")
    (None, ['mlp', 'moe'], 'Et|tL')
    """
    bare = text.strip().strip("\"'")
    if bare.lower() in ("null", "none", ""):
        return None
    if bare.startswith("[") and bare.endswith("]") and len(bare) < 5_000:
        return parse_yaml(f"value: {bare}", "an override").get("value")
    return plain(bare)
