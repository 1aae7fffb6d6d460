"""A YAML that Megatron-LM is given by ``--yaml-cfg``, which takes the place of all its other arguments.

References
----------
.. [1] Megatron-LM, megatron/training/yaml_arguments.py: ``validate_yaml`` and
   ``core_transformer_config_from_yaml``; examples/gpt3/gpt_config.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from planner.runtimes.imports.command_line import Training
from planner.runtimes.megatron_lm.reading.megatron_names import flags_of

SECTIONS: Final = ("language_model", "model_parallel")
GIVEN_ALONE: Final = ("swiglu", "squared_relu", "openai_gelu", "num_experts")
"""Arguments of the command line that the YAML's own fields decide: the model is built from those alone."""

ACTIVATIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "swiglu": {"swiglu": True},
    "squaredrelu": {"squared_relu": True},
    "gelu": {},
}
RENAMED: Final = {
    "num_moe_experts": "num_experts",
    "layernorm_zero_centered_gamma": "apply_layernorm_1p",
    "layernorm_epsilon": "norm_epsilon",
}
_QUIET: Final = re.compile(
    r"\w*init_method|perform_initialization|use_cpu_initialization|tp_comm_(?!overlap$)\w+|\w+_func|timers"
    r"|\w*p2p\w*|fp8_wgrad|barrier_with_\w+|clone_scatter_\w+|variable_seq_lengths|enable_autocast|onnx_safe"
    r"|bert_\w+|sample_rate|mask_prob|short_seq_prob|retriever_\w+|vocab_extra_ids|exit_\w+|\w*adlr_\w+|manual_gc\w*"
    r"|enable_one_logger|one_logger_\w+|lr_\w+|use_legacy_models|scatter_gather_\w+|align_\w+|sgd_momentum"
    r"|async_tensor_model_parallel_allreduce|memory_efficient_layer_norm|bias_activation_fusion|loss_scale_\w+"
    r"|deallocate_pipeline_outputs|batch_p2p_\w+|rotary_interleaved|num_workers|data_parallel_random_init"
    r"|cpu_offloading_\w+|_cpu_offloading_context|gated_linear_unit|activation_func|add_position_embedding"
)
"""Fields that decide neither layout nor shape, or that another of the file decides."""


def is_one(tree: Mapping[str, Any]) -> bool:
    """Return whether a file has the two sections."""
    return all(isinstance(tree.get(name), Mapping) for name in SECTIONS)


def training_from(tree: Mapping[str, Any], starter: Training | None) -> Training:
    """Return the arguments that a file stands for, with the accelerators of the script that starts it.

    Examples
    --------
    >>> training_from({"language_model": {"activation_func": "swiglu", "num_layers": 2}}, None).flags
    {'--num-layers': '2', '--swiglu': ''}
    """
    values = {key: value for key, value in tree.items() if key not in SECTIONS and key not in GIVEN_ALONE}
    for section in SECTIONS:
        values |= dict(tree.get(section) or {})
    kind = str(values.get("activation_func"))
    values = {RENAMED.get(key, key): value for key, value in values.items() if not _QUIET.fullmatch(key)}
    flags = flags_of(values | dict(ACTIVATIONS.get(kind, {"activation_func": kind})))
    nodes, ranks = (starter.nodes, starter.ranks) if starter else (None, None)
    return Training("megatron-lm", flags, nodes, ranks, None, ())
