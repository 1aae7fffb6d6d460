"""The training script that Accelerate or torchrun starts for an FSDP plan."""

from planner.runtimes.script_data import DATA
from planner.runtimes.script_run import LOOP

HEAD = '''"""Train the model of config.json from random weights, or from the folder CHECKPOINT if set.

Needs torch 2.13, accelerate 1.15 and transformers; datasets where it is no smoke run. Tensor parallelism
needs transformers 4.57 to 5.0, whose plans Accelerate's FSDP2 path uses. It goes on from the last checkpoint
in the output folder. On SIGTERM or SIGUSR1 it ends the step, saves and stops. Start it with torchrun and the
environment of the launch file, or with: accelerate launch --config_file accelerate.yaml train.py ARGUMENTS
"""

import argparse
import contextlib
import json
import math
import os
import shutil
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin, InitProcessGroupKwargs, init_empty_weights
from accelerate.utils import set_seed
from torch.distributed.fsdp import MixedPrecisionPolicy
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

# SETTINGS
HERE = Path(__file__).resolve().parent
'''

BODY = '''
COMPUTE_DTYPE, DTYPE = (getattr(torch, name) for name in (PRECISION, WEIGHT_DTYPE))


def make_accelerator(minutes):
    """Compute in 16 bits, reduce sharded gradients in the dtype that the plan was priced with."""
    limit = InitProcessGroupKwargs(timeout=timedelta(minutes=minutes))
    if os.environ.get("ACCELERATE_USE_FSDP") != "true":
        return Accelerator(kwargs_handlers=[limit])
    policy = MixedPrecisionPolicy(param_dtype=COMPUTE_DTYPE, reduce_dtype=getattr(torch, REDUCE_DTYPE))
    plugin = FullyShardedDataParallelPlugin(mixed_precision_policy=policy)
    return Accelerator(fsdp_plugin=plugin, kwargs_handlers=[limit])


def new_model(config, empty):
    """Build weights on the host, or room for them that the first rank's will fill."""
    with init_empty_weights() if empty else contextlib.nullcontext():
        model = AutoModelForCausalLM.from_config(config, dtype=DTYPE, attn_implementation=ATTENTION)
    if empty:
        for module in model.modules():
            for name, weight in module.named_parameters(recurse=False):
                room = torch.nn.Parameter(torch.empty_like(weight, device="cpu"), weight.requires_grad)
                setattr(module, name, room)
        model.tie_weights()
    return model


def make_model(accelerator, output):
    """Return the model before sharding; tensor parallelism loads it split."""
    config = AutoConfig.from_pretrained(HERE)
    checkpoint = os.environ.get("CHECKPOINT")
    if TP == 1:
        if checkpoint:
            kinds = {"dtype": DTYPE, "attn_implementation": ATTENTION}
            return AutoModelForCausalLM.from_pretrained(checkpoint, **kinds)
        lean = os.environ.get("FSDP_CPU_RAM_EFFICIENT_LOADING") == "true"
        return new_model(config, lean and not accelerator.is_main_process)
    if not checkpoint:
        checkpoint = str(Path(output) / "initial-weights")
        if accelerator.is_main_process:
            new_model(config, False).save_pretrained(checkpoint)
        accelerator.wait_for_everyone()
    mesh = accelerator.torch_device_mesh["tp"]
    return AutoModelForCausalLM.from_pretrained(
        checkpoint, dtype=DTYPE, tp_plan="auto", device_mesh=mesh, attn_implementation=ATTENTION
    )


def quantised_model(accelerator):
    """Load CHECKPOINT with linear layers in 4-bit NormalFloat: whole, or on the host for FSDP to shard."""
    from transformers import BitsAndBytesConfig

    storage = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=COMPUTE_DTYPE,
        bnb_4bit_quant_storage=COMPUTE_DTYPE,
    )
    sharded = os.environ.get("ACCELERATE_USE_FSDP") == "true"
    return AutoModelForCausalLM.from_pretrained(
        os.environ["CHECKPOINT"],
        quantization_config=storage,
        dtype=COMPUTE_DTYPE,
        device_map=None if sharded else {"": accelerator.local_process_index},
        attn_implementation=ATTENTION,
    )


def add_adapters(model):
    """Freeze the 16-bit model and train low-rank adapters in float32 on its linear layers."""
    from peft import LoraConfig, get_peft_model

    adapters = LoraConfig(
        r=LORA_RANK, target_modules=LORA_TARGETS, lora_dropout=LORA_DROPOUT, task_type="CAUSAL_LM"
    )
    return get_peft_model(model, adapters)


def loss_of(model, inputs, targets, positions):
    """Return the mean loss of the next tokens, in float32; in training with that of the experts' balance."""
    balanced = BALANCE > 0 and torch.is_grad_enabled()
    routed = {"output_router_logits": True} if balanced else {}
    out = model(input_ids=inputs, position_ids=positions, use_cache=False, **routed)
    loss = torch.nn.functional.cross_entropy(out.logits.flatten(0, 1).float(), targets.flatten())
    return loss + BALANCE * out.aux_loss if balanced else loss


@contextlib.contextmanager
def placed(accelerator, inputs, targets):
    """Give inputs, targets and positions, the sequence split over context-parallel ranks if there are any."""
    positions = torch.arange(inputs.shape[1], device=inputs.device).unsqueeze(0).contiguous()
    parts = [inputs, targets, positions]
    if CP == 1:
        yield parts
        return
    with accelerator.maybe_context_parallel(
        buffers=parts, buffer_seq_dims=[1, 1, 1], no_restore_buffers=set(parts)
    ):
        yield parts


def train_step(accelerator, model, optimizer, data, accumulation):
    """Run one optimizer step over ``accumulation`` micro-batches and return the mean loss."""
    total = 0.0
    for micro in range(accumulation):
        last = micro == accumulation - 1 or accelerator.is_fsdp2
        quiet = contextlib.nullcontext() if last or CP > 1 else accelerator.no_sync(model)
        with quiet, placed(accelerator, *next(data)) as parts:
            with contextlib.nullcontext() if CP > 1 else accelerator.autocast():
                loss = loss_of(model, *parts)
            accelerator.backward(loss / accumulation)
        total += loss.detach()
    accelerator.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    optimizer.zero_grad()
    return total / accumulation


def evaluated(accelerator, model, data, count):
    """Return the mean loss of ``count`` batches."""
    model.eval()
    total = 0.0
    for _ in range(count):
        with torch.no_grad(), placed(accelerator, *next(data)) as parts, accelerator.autocast():
            total += loss_of(model, *parts)
    model.train()
    return total / count


def more_arguments(parser):
    """Add the batch."""
    parser.add_argument("--per_device_train_batch_size", type=int, required=True)
    parser.add_argument("--gradient_accumulation_steps", type=int, required=True)


def last_saved(output):
    """Return the folder of the last whole checkpoint, or None."""
    found = [path for path in Path(output).glob("step-*") if path.name.removeprefix("step-").isdecimal()]
    return max(found, key=lambda path: int(path.name.removeprefix("step-")), default=None)


def save_to(accelerator, reader, output, step):
    """Save everything under the number of a step; a checkpoint has that name once it is whole."""
    whole, part = Path(output) / f"step-{step}", Path(output) / f"step-{step}.part"
    if accelerator.is_main_process:
        shutil.rmtree(part, ignore_errors=True)
    accelerator.wait_for_everyone()
    accelerator.save_state(str(part))
    keep_reader(part, reader)
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        part.rename(whole)
    accelerator.wait_for_everyone()


def make_trained(accelerator, options):
    """Return the model, as it is trained, before sharding."""
    if QUANTISED:
        model = quantised_model(accelerator)
    else:
        model = make_model(accelerator, options.output_dir)
    if LORA_RANK:
        model = add_adapters(model)
    if RECOMPUTE:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model


def eight_bit_adam():
    """Return torchao's AdamW, its states read as float32: it cannot trace sharded bfloat16 ones."""
    from torchao.optim import AdamW8bit
    from torchao.optim.subclass_8bit import OptimState8bit

    class Adam(AdamW8bit):
        @staticmethod
        def _subclass_zeros(weight, signed, block_size):
            return OptimState8bit.zeros(weight.shape, signed, block_size, weight.device)

    return Adam


def make_optimizer(learned, rate):
    """Return what steps the weights that learn."""
    rates = {"lr": rate, "weight_decay": WEIGHT_DECAY}
    if OPTIMIZER == "adam8bit":
        return eight_bit_adam()(learned, betas=BETAS, **rates)
    if OPTIMIZER == "sgd":
        return torch.optim.SGD(learned, momentum=BETAS[0], **rates)
    return torch.optim.AdamW(learned, betas=BETAS, fused=True, **rates)


def stepped(accelerator, model, optimizer, data, accumulation, rate):
    """Run one optimizer step at a rate, which torchao keeps in a tensor."""
    for group in optimizer.param_groups:
        group["lr"] = group["lr"].fill_(rate) if torch.is_tensor(group["lr"]) else rate
    return train_step(accelerator, model, optimizer, data, accumulation)


def run(accelerator, options):
    """Train from the last checkpoint on."""
    set_seed(options.seed)
    model = make_trained(accelerator, options)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model, optimizer = accelerator.prepare(model, make_optimizer(learned, options.learning_rate))
    model.train()
    part, parts = (number // (TP * CP) for number in (accelerator.process_index, accelerator.num_processes))
    reader, first = reader_of(options, part, parts), 0
    if not options.smoke and (saved := last_saved(options.output_dir)):
        accelerator.load_state(str(saved))
        restore_reader(saved, reader)
        first = int(saved.name.removeprefix("step-"))
    batch, device = options.per_device_train_batch_size, accelerator.device
    data, held = reader.batches(batch, device), examples(options, batch, part, parts, device)
    several = options.gradient_accumulation_steps
    evaluate = held and (lambda: evaluated(accelerator, model, held, options.eval_steps))
    train(
        options,
        first,
        lambda rate: stepped(accelerator, model, optimizer, data, several, rate),
        evaluate,
        lambda step: save_to(accelerator, reader, options.output_dir, step),
        accelerator.is_main_process,
        device,
    )


def main():
    """Train, then shut down.

    The model goes before the process group: DDP's reducer would end the group under Python's lock, for
    which a thread of gloo may be waiting.
    """
    options = arguments()
    if LORA_RANK and not options.smoke and not os.environ.get("CHECKPOINT"):
        sys.exit("Set the variable CHECKPOINT before starting: adapters stand beside trained weights.")
    accelerator = make_accelerator(options.timeout_minutes)
    run(accelerator, options)
    accelerator.free_memory()
    accelerator.end_training()


if __name__ == "__main__":
    main()
'''

SCRIPT = HEAD + DATA + LOOP + BODY
