"""The training script of a DeepSpeed plan: a whole model, or one stage of it for each pipeline rank."""

from planner.runtimes._script_data import DATA

HEAD = '''"""Train the model of config.json with the settings of ds_config.json.

Needs torch 2.13, deepspeed 0.19.8, transformers 5 and datasets. Weights are random, or those of the folder
CHECKPOINT where it is set (without a pipeline). Start it with torchrun or with the deepspeed launcher.
"""

import argparse
import contextlib
import json
import os
import sys
import time
from pathlib import Path

import deepspeed
import torch
from datasets import load_dataset
from deepspeed import comm
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

# SETTINGS
HERE = Path(__file__).resolve().parent
'''

WHOLE = '''

def make_model(config, settings):
    """Return the model in the training dtype; ZeRO-3 shards it as it is built."""
    dtype = torch.bfloat16 if settings.get("bf16", {}).get("enabled") else torch.float16
    kinds = {"dtype": dtype, "attn_implementation": ATTENTION}
    path = os.environ.get("CHECKPOINT")
    if LORA_RANK and not path:
        sys.exit("Set the variable CHECKPOINT before starting: adapters stand beside trained weights.")
    whole = settings["zero_optimization"]["stage"] < 3 or TP > 1
    with contextlib.nullcontext() if whole else deepspeed.zero.Init(config_dict_or_path=settings):
        if path:
            model = AutoModelForCausalLM.from_pretrained(path, **kinds)
        else:
            model = AutoModelForCausalLM.from_config(config, **kinds)
    if LORA_RANK:
        from peft import LoraConfig, get_peft_model

        lora = LoraConfig(r=LORA_RANK, target_modules=LORA_TARGETS, task_type="CAUSAL_LM")
        model = get_peft_model(model, lora)
    if RECOMPUTE:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model


def sequence_groups(model, micro_batch):
    """Split attention over the ranks of a sequence, and return their groups."""
    if SP == 1:
        return None
    from deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPAttentionHF

    return UlyssesSPAttentionHF.register_with_transformers(
        model_name_or_path=model,
        core_attn_implementation=ATTENTION,
        sequence_parallel_size=SP,
        micro_batch_size=micro_batch,
        seq_length=SEQ_LEN,
        seq_length_is_variable=False,
    )


def loss_of(engine, inputs, targets):
    """Return the mean loss of this rank's part of the sequence, in float32."""
    positions = torch.arange(inputs.shape[1], device=inputs.device).unsqueeze(0).expand_as(inputs)
    part = comm.get_rank() % SP
    inputs, targets, positions = (whole.chunk(SP, 1)[part] for whole in (inputs, targets, positions))
    logits = engine(input_ids=inputs, position_ids=positions, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def make_engine(settings):
    """Return the engine and this rank's batches."""
    micro_batch = settings["train_micro_batch_size_per_gpu"]
    model = make_model(AutoConfig.from_pretrained(HERE), settings)
    groups = sequence_groups(model, micro_batch)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    engine, *_ = deepspeed.initialize(model=model, model_parameters=learned, config=settings, mpu=groups)
    copies = TP * SP
    reader, readers = comm.get_rank() // copies, comm.get_world_size() // copies
    return engine, batches(micro_batch, reader, readers, engine.device)


def train_step(engine, data):
    """Run one optimizer step and return the last loss."""
    for _ in range(engine.gradient_accumulation_steps()):
        loss = loss_of(engine, *next(data))
        engine.backward(loss)
        engine.step()
    return loss.item()
'''

PIPED = '''

class Stage(torch.nn.Module):
    """The layers of one pipeline rank, with the embedding on the first and the head on the last."""

    def __init__(self, index):
        super().__init__()
        config = AutoConfig.from_pretrained(HERE, attn_implementation=ATTENTION)
        with torch.device("meta"):
            whole = AutoModelForCausalLM.from_config(config, attn_implementation=ATTENTION)
        first = sum(STAGE_LAYERS[:index])
        self.layers = whole.model.layers[first : first + STAGE_LAYERS[index]]
        self.embedding = whole.model.embed_tokens if index == 0 else None
        last = index == len(STAGE_LAYERS) - 1
        self.norm, self.head = (whole.model.norm, whole.lm_head) if last else (None, None)
        self.to_empty(device="cpu")
        for module in self.modules():
            if module is not self:
                whole._init_weights(module)
        self.rotary = type(whole.model.rotary_emb)(config)

    def forward(self, values):
        """Turn tokens or hidden states into hidden states or logits."""
        hidden = values if self.embedding is None else self.embedding(values)
        positions = torch.arange(hidden.shape[1], device=hidden.device).unsqueeze(0)
        rotations = self.rotary(hidden, positions)

        def run(layer, hidden):
            out = layer(hidden, attention_mask=None, position_ids=positions, position_embeddings=rotations)
            return out[0] if isinstance(out, tuple) else out

        for layer in self.layers:
            hidden = checkpoint(run, layer, hidden, use_reentrant=False) if RECOMPUTE else run(layer, hidden)
        return hidden if self.head is None else self.head(self.norm(hidden))


def loss_of(logits, targets):
    """Return the mean loss in float32."""
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def make_engine(settings):
    """Return the engine and this rank's batches; the cut puts one ``Stage`` on each pipeline rank."""
    from deepspeed.pipe import LayerSpec, PipelineModule

    stages = [LayerSpec(Stage, index) for index in range(len(STAGE_LAYERS))]
    model = PipelineModule(
        layers=stages, num_stages=len(stages), loss_fn=loss_of, partition_method="uniform",
        activation_checkpoint_interval=0,
    )
    engine, *_ = deepspeed.initialize(model=model, model_parameters=list(model.parameters()), config=settings)
    reader, readers = engine.grid.get_data_parallel_rank(), engine.grid.get_data_parallel_world_size()
    return engine, batches(settings["train_micro_batch_size_per_gpu"], reader, readers, engine.device)


def train_step(engine, data):
    """Run one optimizer step and return its loss."""
    return engine.train_batch(data_iter=data).item()
'''

TAIL = '''

def main():
    """Train and save a checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max_steps", type=int, required=True)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--local_rank", type=int, default=-1)
    parser.add_argument("--deepspeed_config", required=True)
    options = parser.parse_args()
    settings = json.loads((HERE / options.deepspeed_config).read_text())
    deepspeed.init_distributed()
    engine, data = make_engine(settings)
    if COMPILED:
        engine.compile()
    for step in range(options.max_steps):
        start = time.perf_counter()
        loss = train_step(engine, data)
        if comm.get_rank() == 0:
            print(f"step {step + 1} loss {loss:.4f} seconds {time.perf_counter() - start:.3f}", flush=True)
    engine.save_checkpoint(options.output_dir)


if __name__ == "__main__":
    main()
'''


def script(settings: dict[str, object], piped: bool) -> str:
    """Return ``train.py`` with the plan's settings at its top."""
    lines = "".join(f"{name} = {value!r}\n" for name, value in settings.items())
    return HEAD.replace("# SETTINGS\n", lines) + DATA + (PIPED if piped else WHOLE) + TAIL
