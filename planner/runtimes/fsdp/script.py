"""The training script that Accelerate or torchrun starts for an FSDP plan."""

from planner.runtimes._script_data import DATA

HEAD = '''"""Train the model of config.json from random weights, or from the folder CHECKPOINT if set.

Needs torch 2.13, accelerate 1.15, transformers and datasets. Tensor parallelism needs transformers 4.57
to 5.0, whose plans Accelerate's FSDP2 path uses. Start it with torchrun and the environment of the launch
file, or with: accelerate launch --config_file accelerate.yaml train.py ARGUMENTS
"""

import argparse
import contextlib
import os
import sys
import time
from pathlib import Path

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin, init_empty_weights
from datasets import load_dataset
from torch.distributed.fsdp import MixedPrecisionPolicy
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

# SETTINGS
HERE = Path(__file__).resolve().parent
'''

BODY = '''

def make_accelerator():
    """Compute in bfloat16, reduce gradients in the dtype that the plan was priced with."""
    if os.environ.get("ACCELERATE_USE_FSDP") != "true":
        return Accelerator()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=getattr(torch, REDUCE_DTYPE))
    return Accelerator(fsdp_plugin=FullyShardedDataParallelPlugin(mixed_precision_policy=policy))


DTYPE = torch.bfloat16 if LORA_RANK else torch.float32


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
        checkpoint = str(output / "initial-weights")
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
        bnb_4bit_compute_dtype=torch.bfloat16,
        bnb_4bit_quant_storage=torch.bfloat16,
    )
    sharded = os.environ.get("ACCELERATE_USE_FSDP") == "true"
    return AutoModelForCausalLM.from_pretrained(
        os.environ["CHECKPOINT"],
        quantization_config=storage,
        dtype=torch.bfloat16,
        device_map=None if sharded else {"": accelerator.local_process_index},
        attn_implementation=ATTENTION,
    )


def add_adapters(model):
    """Freeze the 16-bit model and train low-rank adapters in float32 on its linear layers."""
    from peft import LoraConfig, get_peft_model

    adapters = LoraConfig(r=LORA_RANK, target_modules=LORA_TARGETS, task_type="CAUSAL_LM")
    return get_peft_model(model, adapters)


def loss_of(model, inputs, targets):
    """Return the mean loss of the next tokens, in float32."""
    positions = torch.arange(inputs.shape[1], device=inputs.device).unsqueeze(0)
    logits = model(input_ids=inputs, position_ids=positions, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def context_loss(accelerator, model, inputs, targets, accumulation):
    """As ``loss_of``, with the sequence split over context-parallel ranks."""
    positions = torch.arange(inputs.shape[1], device=inputs.device).unsqueeze(0).contiguous()
    buffers = [inputs, targets, positions]
    with accelerator.maybe_context_parallel(
        buffers=buffers, buffer_seq_dims=[1, 1, 1], no_restore_buffers=set(buffers)
    ):
        logits = model(input_ids=inputs, position_ids=positions, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
        accelerator.backward(loss / accumulation)
    return loss


def train_step(accelerator, model, optimizer, data, accumulation):
    """Run one optimizer step over ``accumulation`` micro-batches and return the last loss."""
    for micro in range(accumulation):
        inputs, targets = next(data)
        if CP > 1:
            loss = context_loss(accelerator, model, inputs, targets, accumulation)
            continue
        last = micro == accumulation - 1 or accelerator.is_fsdp2
        with contextlib.nullcontext() if last else accelerator.no_sync(model), accelerator.autocast():
            loss = loss_of(model, inputs, targets)
            accelerator.backward(loss / accumulation)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def arguments():
    """Read the batch and the length of the run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--per_device_train_batch_size", type=int, required=True)
    parser.add_argument("--gradient_accumulation_steps", type=int, required=True)
    parser.add_argument("--max_steps", type=int, required=True)
    parser.add_argument("--output_dir", required=True)
    return parser.parse_args()


def main():
    """Train and save the state."""
    options = arguments()
    if LORA_RANK and not os.environ.get("CHECKPOINT"):
        sys.exit("Set the variable CHECKPOINT before starting: adapters stand beside trained weights.")
    accelerator = make_accelerator()
    if QUANTISED:
        model = quantised_model(accelerator)
    else:
        model = make_model(accelerator, Path(options.output_dir))
    if LORA_RANK:
        model = add_adapters(model)
    if RECOMPUTE:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    model.train()
    copies = TP * CP
    reader, readers = accelerator.process_index // copies, accelerator.num_processes // copies
    data = batches(options.per_device_train_batch_size, reader, readers, accelerator.device)
    for step in range(options.max_steps):
        start = time.perf_counter()
        loss = train_step(accelerator, model, optimizer, data, options.gradient_accumulation_steps).item()
        seconds = time.perf_counter() - start
        accelerator.print(f"step {step + 1} loss {loss:.4f} seconds {seconds:.3f}")
    accelerator.save_state(str(Path(options.output_dir) / "final"))


if __name__ == "__main__":
    main()
'''

SCRIPT = HEAD + DATA + BODY
