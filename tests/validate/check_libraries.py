"""Read files of fine-tuning libraries with their own parsers; run by an interpreter that has the library.

Takes lines of JSON on stdin, each a library, the folder of its files and the words that its program gets, and
answers each with what the library makes of what decides time and memory.
"""

import os
import sys
from pathlib import Path

from answering import answer_lines

NAMES = (
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "gradient_checkpointing",
    "bf16",
    "optim",
    "max_steps",
    "learning_rate",
    "output_dir",
    "packing",
)


def derive(asked):
    """Return what a library makes of its file and of the words after the program's name."""
    os.chdir(asked["folder"])
    return {"trl": of_trl, "llama-factory": of_llama_factory, "axolotl": of_axolotl}[asked["library"]](
        asked["words"]
    )


def said(arguments, *more):
    """Return the values of `NAMES`, FSDP's section and DeepSpeed's file."""
    found = {name: getattr(arguments, name, None) for name in (*NAMES, *more)}
    fsdp = dict(getattr(arguments, "fsdp_config", None) or {})
    found["fsdp"] = bool(arguments.fsdp) and {
        name: fsdp.get(name) for name in ("version", "reshard_after_forward", "activation_checkpointing")
    }
    found["zero"] = arguments.deepspeed
    return {name: getattr(value, "value", value) for name, value in found.items()}


def of_trl(words):
    """Return what TRL's parser says of its YAML and arguments."""
    from trl.scripts.sft import make_parser

    _, training, model, _ = make_parser().parse_args_and_config([*words, "--use_cpu"])
    adapter = "qlora" if model.load_in_4bit else "lora" if model.use_peft else "full"
    targets = model.lora_target_modules
    more = {"method": adapter, "rank": model.lora_r, "model": model.model_name_or_path, "targets": targets}
    more |= {"dtype": model.dtype, "attention": model.attn_implementation, "loss": training.loss_type}
    return said(training) | more | {"length": training.max_length}


def of_llama_factory(words):
    """Return what LLaMA-Factory's parser says of its YAML and words."""
    from llamafactory.hparams import parser

    sys.argv = ["launcher", *words, "use_cpu=true"]
    model, data, training, tuning, _ = parser._parse_train_args(parser.read_args())
    parser._verify_model_args(model, data, tuning)
    adapter = "qlora" if model.quantization_bit == 4 else tuning.finetuning_type
    more = {"method": adapter, "rank": tuning.lora_rank, "model": model.model_name_or_path}
    more |= {"targets": tuning.lora_target, "attention": getattr(model.flash_attn, "value", model.flash_attn)}
    more |= {"length": data.cutoff_len, "packing": data.packing}
    more["pure_bf16"] = tuning.pure_bf16
    more["gradient_checkpointing"] = not model.disable_gradient_checkpointing
    return said(training) | more


def of_axolotl(words):
    """Return what Axolotl's schema says of its YAML and arguments, as Fire gives them to it."""
    import yaml
    from axolotl.utils.config import validate_config
    from axolotl.utils.dict import DictDefault
    from fire.parser import DefaultParseValue

    tree = DictDefault(yaml.safe_load(Path(words[0]).read_text()))
    for word in words[1:]:
        name, _, value = word.removeprefix("--").partition("=")
        tree[name] = DefaultParseValue(value)
    can = {"bf16": True, "n_gpu": 4, "compute_capability": "sm_90", "fp8": True, "tf32": True}
    found = validate_config(tree, capabilities=can, env_capabilities={"torch_version": "2.13.0"})
    renamed = {"per_device_train_batch_size": "micro_batch_size", "optim": "optimizer"}
    names = {name: found.get(renamed.get(name, name)) for name in NAMES if name != "packing"}
    sharded = found.get("fsdp_config")
    names["fsdp"] = bool(sharded) and {
        "version": int(found.fsdp_version),
        "reshard_after_forward": sharded.get("reshard_after_forward"),
        "activation_checkpointing": sharded.get("activation_checkpointing"),
    }
    names |= {
        "zero": found.get("deepspeed"),
        "packing": found.sample_packing,
        "method": found.adapter or "full",
    }
    names |= {"rank": found.get("lora_r"), "model": found.base_model, "length": found.sequence_len}
    names |= {"targets": found.get("lora_target_modules"), "data": found.datasets[0].get("path")}
    return {name: getattr(value, "value", value) for name, value in names.items()}


if __name__ == "__main__":
    answer_lines(derive)
