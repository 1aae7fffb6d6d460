"""Files for replicas that torchft keeps together: the module's trainer, and one replica's place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from planner.dataclasses import dataclass, replace
from planner.errors import UnsupportedPlan
from planner.plan import Plan
from planner.runtimes.family import Command, CommandMaker, Job, Runtime
from planner.runtimes.settings import NO_CHANGES, Changes
from planner.runtimes.torchtitan.current import MODULE

LEAST_TIMEOUT_MS: Final = 10_000
"""What torchft waits for an exchange where nobody says. [ms]"""
MARGIN: Final = 4.0
"""Times the time of an exchange that is waited for it. [-]"""
PACKAGE: Final = "torchtitan.experiments.torchft"
STEP_TOKENS: Final = "--training.num_tokens_per_train_step"


@dataclass(frozen=True)
class SemiSync:
    """How torchft keeps replicas together, in the words of torchtitan's ``fault_tolerance``."""

    method: str
    """``diloco``, ``local_sgd``, or empty where gradients are averaged at every step."""
    steps: int
    """``sync_steps``: inner steps in which each fragment goes once."""
    fragments: int
    """``num_fragments``."""
    delay: int
    """``fragment_sync_delay``."""
    quantize: bool
    """``should_quantize``: float8 on the wire."""
    replicas: int
    """``group_size``: replica groups."""
    replica: int
    """``replica_id`` of this one."""
    exchange: float
    """Time of an exchange, which sets the time after which torchft gives it up. [s]"""
    least: int | None = None
    """``min_replica_size``: replica groups without which no step is made; all if not given."""

    @property
    def timeout_ms(self) -> int:
        """Time after which torchft gives an exchange up. [ms]"""
        return max(LEAST_TIMEOUT_MS, round(1000 * MARGIN * self.exchange))

    def refusals(self) -> Iterator[str]:
        """Yield what torchft's DiLoCo refuses of it.

        References
        ----------
        .. [1] torchft 73dafea, ``torchft/local_sgd.py``, ``DiLoCo.__init__``.
        """
        if not self.method:
            return
        if self.steps % self.fragments:
            near = max(count for count in range(1, self.fragments + 1) if self.steps % count == 0)
            yield f"{self.fragments} fragments do not divide {self.steps} steps; nearest: {near}"
        elif self.delay >= self.steps // self.fragments:
            most = self.steps // self.fragments - 1
            yield f"a delay of {self.delay} steps, and a fragment goes after {most + 1}; nearest: {most}"


def semi_sync_runtime(runtime: Runtime, semi: SemiSync) -> Runtime:
    """Return torchtitan whose files train one replica among others."""
    if runtime.command is None:
        raise UnsupportedPlan(f"no files are written for the runtime {runtime.name}")
    return replace(runtime, command=partial(_command, runtime.command, semi))


def _command(
    plain: CommandMaker, semi: SemiSync, plan: Plan, job: Job, version: str, changes: Changes = NO_CHANGES
) -> Command:
    """Return what starts one replica."""
    reasons = [*semi.refusals()]
    if version.startswith("0.2."):
        reasons.append(f"files of torchtitan {version} do not say it; nearest: the newest release")
    if plan.pp > 1:
        reasons.append("torchft keeps one part of the model together, so no pipeline; nearest: pp 1")
    if reasons:
        raise UnsupportedPlan("\n".join(f"torchft: {reason}" for reason in reasons))
    command = plain(plan, job, version, changes)
    program = list(command.program)
    place = program.index(STEP_TOKENS) + 1
    program[place] = str(int(program[place]) * semi.replicas)
    files = dict(command.files or {})
    name = f"{MODULE}.py"
    return replace(
        command,
        program=(*program, "--fault_tolerance.replica_id", str(semi.replica)),
        needs=(*command.needs, "TORCHFT_LIGHTHOUSE"),
        files=files | {name: fault_tolerant(files[name], semi)},
        notes=(*command.notes, *_notes(semi)),
    )


def fault_tolerant(text: str, semi: SemiSync) -> str:
    """Return the module of a plan with torchft's trainer, optimizer, checkpoints and settings."""
    imports = "\n".join(
        f"from {PACKAGE}.{module} import {names}"
        for module, names in (
            ("checkpoint", "TorchFTCheckpointManager"),
            ("config.job_config", "FaultTolerance, FaultTolerantModelSpec"),
            ("diloco", "fragment_llm"),
            ("optimizer", "TorchFTOptimizersContainer"),
            ("trainer", "FaultTolerantTrainer"),
        )
    )
    adamw = 'default_adamw(lr=told("LEARNING_RATE"), **OPTIMIZER)'
    changes = {
        "from torchtitan.trainer import Trainer\n": f"{imports}\n",
        "from torchtitan.protocols.model_spec import ModelSpec\n": "",
        "    return ModelSpec(\n": "    return FaultTolerantModelSpec(\n        fragment_fn=fragment_llm,\n",
        f"optimizer={adamw}": "optimizer=TorchFTOptimizersContainer.Config(\n"
        f"            param_groups={adamw}.param_groups\n        )",
        "checkpoint=CheckpointManager.Config": "checkpoint=TorchFTCheckpointManager.Config",
        "return Trainer.Config(": "return FaultTolerantTrainer.Config(",
        "        model_spec=model_spec(),\n": f"        model_spec=model_spec(),\n{_settings(semi)}",
    }
    for old, new in changes.items():
        if old not in text:
            raise UnsupportedPlan(f"the module of the plan has no {old.strip()!r} for torchft to replace")
        text = text.replace(old, new)
    return text.replace("from torchtitan.components.checkpointer import CheckpointManager\n", "")


def _settings(semi: SemiSync) -> str:
    """Return the settings of torchft as an argument of the config."""
    values = {
        "enable": True,
        "semi_sync_method": semi.method or None,
        "process_group": "nccl" if semi.quantize else "gloo",
        "process_group_timeout_ms": semi.timeout_ms,
        "group_size": semi.replicas,
        "min_replica_size": semi.least or semi.replicas,
        "sync_steps": semi.steps,
        "num_fragments": semi.fragments,
        "fragment_sync_delay": semi.delay,
        "should_quantize": semi.quantize,
    }
    lines = "".join(f"            {name}={_literal(value)},\n" for name, value in values.items())
    return f"        fault_tolerance=FaultTolerance(\n{lines}        ),\n"


def _literal(value: object) -> str:
    """Return a value as Python has it, words in double quotes."""
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _notes(semi: SemiSync) -> tuple[str, ...]:
    return (
        f"This is replica {semi.replica} of {semi.replicas}. Start one lighthouse that all of them reach, "
        f"torchft_lighthouse --min_replicas {semi.least or semi.replicas}, and set TORCHFT_LIGHTHOUSE to its "
        "address.",
        "The batch and the learning-rate schedule are those of all replicas together; each takes its share "
        "of the tokens (training.num_tokens_per_train_step over fault_tolerance.group_size).",
    )
