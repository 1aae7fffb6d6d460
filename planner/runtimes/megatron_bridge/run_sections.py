"""Fields of Megatron-Bridge's ConfigContainer that say how long, at which rate and on what a run trains.

Read in Megatron-Bridge 067f987d: training/config.py, and training/setup.py, which asks for a vocabulary no
larger than the model's. What a user may set is read from the environment; the launch script has the defaults.
"""

from __future__ import annotations

from typing import Final

from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes.family import Job
from planner.runtimes.megatron_bridge.code import Code, Section, setting
from planner.runtimes.megatron_bridge.vision import data_section, made_up_images, sees
from planner.runtimes.training_run import SMOKE_STEPS, TrainingRun

OUTPUT: Final = Code('os.path.join(OUTPUT_DIR or ".", "checkpoints")')

SMOKE_CODE: Final = '''

def words(text):
    """Return the weights and paths of a blend, or the one path of what exists."""
    if text and (os.path.exists(text) or os.path.exists(f"{{text}}.bin")):
        return [text]
    return text and text.split()


def smoke_config():
    """Return the configuration of {steps} steps on made-up data, without checkpoints of its own."""
    config = build_config()
    config.train.train_iters = {steps}
    config.train.exit_signal_handler = False
    config.validation.eval_iters = 0
    config.logger.log_interval = 1
    config.checkpoint.save = config.checkpoint.load = config.checkpoint.save_interval = None
    config.tokenizer = TokenizerConfig(
        tokenizer_type="NullTokenizer", vocab_size={vocab}, use_tokenizer_vocab_size=False
    )
    config.dataset = {kind}(
{fields}    )
    return config
'''


def train_section(plan: Plan, work: Workload) -> Section:
    """Return the fields of TrainingConfig."""
    return {
        "train_iters": setting("TRAIN_STEPS"),
        "global_batch_size": work.global_batch,
        "micro_batch_size": int(plan.micro_batch),
        "manual_gc": True,
        "manual_gc_interval": 100,
        "exit_signal_handler": True,
        "exit_duration_in_mins": Code('int(os.environ.get("MINUTES") or 0) or None'),
    }


def validation_section() -> Section:
    """Return the fields of ValidationConfig."""
    return {"eval_iters": setting("EVAL_STEPS"), "eval_interval": setting("EVAL_INTERVAL")}


def scheduler_section(run: TrainingRun) -> Section:
    """Return the fields of SchedulerConfig."""
    return {
        "lr_decay_style": run.decay_style,
        "lr_warmup_iters": setting("WARMUP_STEPS"),
        "lr_decay_iters": setting("DECAY_STEPS"),
    }


def data_kinds(job: Job) -> tuple[str, str]:
    """Return the classes of real and of made-up data."""
    if sees(job.model):
        return "DirectHFSFTDatasetConfig", "MockVLMSFTDatasetConfig"
    return "GPTDatasetConfig", "MockGPTDatasetConfig"


def dataset_section(job: Job) -> Section:
    """Return the fields of the real data's class."""
    if sees(job.model):
        return data_section(job)
    return {
        **made_up_section(job),
        "data_path": Code("words(DATA_PATH)"),
        "path_to_cache": Code('SETTINGS["DATA_CACHE"]'),
    }


def made_up_section(job: Job) -> Section:
    """Return the fields of made-up data: those of the real data that are not about its files."""
    if sees(job.model):
        return made_up_images(job)
    return {
        "random_seed": setting("SEED"),
        "seq_length": job.workload.seq_len,
        "split": "99,1,0",
        "reset_position_ids": False,
        "reset_attention_mask": False,
        "eod_mask_loss": False,
        "num_dataset_builder_threads": 1,
        "dataloader_type": "single",
        "skip_getting_attention_mask_from_dataset": True,
    }


def logger_section(plan: Plan, job: Job) -> Section:
    """Return the fields of LoggerConfig."""
    return {
        "log_interval": setting("LOG_INTERVAL"),
        "log_throughput": True,
        "tensorboard_dir": Code('os.environ.get("TENSORBOARD_DIR") or None'),
        "wandb_project": Code('os.environ.get("WANDB_PROJECT") or None'),
        "wandb_exp_name": f"{job.model.name}-{plan.slug}",
        "wandb_save_dir": Code('os.path.join(OUTPUT_DIR or ".", "wandb")'),
    }


def tokenizer_section(job: Job) -> Section:
    """Return the fields of TokenizerConfig; with images the processor has the tokenizer."""
    if sees(job.model):
        return {
            "tokenizer_type": "NullTokenizer",
            "vocab_size": job.model.vocab,
            "use_tokenizer_vocab_size": False,
        }
    return {
        "tokenizer_type": "HuggingFaceTokenizer",
        "tokenizer_model": Code("TOKENIZER_PATH"),
        "use_tokenizer_vocab_size": False,
    }


def starts_trained(work: Workload) -> bool:
    """Whether a run starts from trained weights: what is frozen has to know something already."""
    return work.method != "full" or work.freeze_encoder


def checkpoint_section(plan: Plan, work: Workload) -> Section:
    """Return the fields of CheckpointConfig."""
    base = {"pretrained_checkpoint": Code("CHECKPOINT")} if starts_trained(work) else {}
    return {
        **base,
        "save": OUTPUT,
        "load": OUTPUT,
        "save_interval": setting("SAVE_INTERVAL"),
        "ckpt_format": "fsdp_dtensor" if plan.zero >= 2 else "torch_dist",
    }


def distributed_section(plan: Plan) -> Section:
    """Return the fields of DistributedInitConfig."""
    return {
        "use_megatron_fsdp": plan.zero >= 2,
        "distributed_timeout_minutes": setting("TIMEOUT_MINUTES"),
    }


def smoke_code(job: Job) -> str:
    """Return the function of the file that makes a smoke run's configuration of the real one."""
    fields = "".join(
        f"        {name}={value if isinstance(value, Code) else repr(value)},\n"
        for name, value in made_up_section(job).items()
    )
    kind = data_kinds(job)[1]
    return SMOKE_CODE.format(steps=SMOKE_STEPS, vocab=job.model.vocab, kind=kind, fields=fields)
