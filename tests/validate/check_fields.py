"""Print the fields of DeepSpeed's sections that take no further keys; run by an interpreter that has it.

A line for each section, in the words of ``planner/runtimes/imports/deepspeed_fields.txt``.
"""

import pathlib
import sys
import types
import typing

from deepspeed.comm.config import CommsLoggerConfig
from deepspeed.compile.config import CompileConfig
from deepspeed.monitor import config as monitor
from deepspeed.runtime.config import HybridEngineConfig
from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
from deepspeed.runtime.tensor_parallel.config import TPConfig, TPTrainingConfig
from deepspeed.runtime.zenflow.zenflow_config import ZenFlowConfig
from deepspeed.runtime.zero import offload_config as offload
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
from deepspeed.runtime.zero.leaf_module_config import DeepSpeedZeroLeafModuleConfig
from deepspeed.utils.config import DeepSpeedThroughputTimerConfig

SECTIONS = {
    "zero_optimization": DeepSpeedZeroConfig,
    "zero_optimization.offload_param": offload.DeepSpeedZeroOffloadParamConfig,
    "zero_optimization.offload_optimizer": offload.DeepSpeedZeroOffloadOptimizerConfig,
    "zero_optimization.zenflow": ZenFlowConfig,
    "zero_optimization.leaf_module": DeepSpeedZeroLeafModuleConfig,
    "fp16": DeepSpeedFP16Config,
    "bf16": DeepSpeedBF16Config,
    "tensor_parallel": TPTrainingConfig,
    "tensor_parallel.tp": TPConfig,
    "comms_logger": CommsLoggerConfig,
    "tensorboard": monitor.TensorBoardConfig,
    "wandb": monitor.WandbConfig,
    "csv_monitor": monitor.CSVConfig,
    "comet": monitor.CometConfig,
    "compile": CompileConfig,
    "hybrid_engine": HybridEngineConfig,
    "timers.throughput": DeepSpeedThroughputTimerConfig,
}
LETTERS = {bool: "b", int: "i", float: "f", str: "s", pathlib.Path: "s"}


def kind(field):
    """Return the kind of value that a field takes, in a letter, and whether null may stand there."""
    parts = typing.get_args(field.annotation)
    union = typing.get_origin(field.annotation) in (typing.Union, types.UnionType)
    null = field.annotation is object or (union and type(None) in parts)
    plain = [part for part in parts if part is not type(None)] if union else [field.annotation]
    letter = LETTERS.get(plain[0], "") if len(plain) == 1 else ""
    if letter == "i" and any(getattr(bound, "ge", None) == 0 for bound in field.metadata):
        letter = "c"
    return letter + "?" * null + "!" * field.is_required()


if __name__ == "__main__":
    for section, config in SECTIONS.items():
        kinds = {field.alias or name: kind(field) for name, field in config.model_fields.items()}
        line = (f"{name}:{word}" if word else name for name, word in kinds.items())
        sys.stdout.write(f"{' '.join([section, *line])}\n")
