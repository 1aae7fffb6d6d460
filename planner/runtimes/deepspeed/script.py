"""The training script of a DeepSpeed plan: a whole model, or one stage of it for each pipeline rank."""

from planner.runtimes.hub.script_masks import with_masks
from planner.runtimes.hub.script_sources import with_sources
from planner.runtimes.script_data import DATA
from planner.runtimes.script_run import LOOP

HEAD = '''"""Train the model of config.json with the settings of ds_config.json.

Needs torch 2.13, deepspeed 0.19.8 and transformers 5; datasets where it is no smoke run. It goes on from the
last checkpoint in the output folder; without one, weights are random, or those of the folder CHECKPOINT where
that is set (without a pipeline). On SIGTERM or SIGUSR1 it ends the step, saves and stops. Start it with
torchrun or with the deepspeed launcher.
"""

import argparse
import contextlib
import importlib
import json
import math
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import deepspeed
import torch
from deepspeed import comm
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

# SETTINGS
HERE = Path(__file__).resolve().parent
'''

WHOLE = '''

def make_model(config, settings, smoke):
    """Return the model in the training dtype; ZeRO-3 shards it as it is built."""
    dtype = torch.bfloat16 if settings.get("bf16", {}).get("enabled") else torch.float16
    kinds = {"dtype": dtype, "attn_implementation": ATTENTION}
    path = os.environ.get("CHECKPOINT")
    if LORA_RANK and not path and not smoke:
        sys.exit("Set the variable CHECKPOINT before starting: adapters stand beside trained weights.")
    whole = settings["zero_optimization"].get("stage", 0) < 3 or TP > 1
    importlib.import_module("torch._dynamo")  # it cannot be imported once ZeRO-3 makes the tensors
    with contextlib.nullcontext() if whole else deepspeed.zero.Init(config_dict_or_path=settings):
        if path:
            model = AutoModelForCausalLM.from_pretrained(path, **kinds)
        else:
            if not whole:
                draw_whole_weights()
            model = AutoModelForCausalLM.from_config(config, **kinds)
    if LORA_RANK:
        from peft import LoraConfig, get_peft_model

        lora = LoraConfig(
            r=LORA_RANK, target_modules=LORA_TARGETS, lora_dropout=LORA_DROPOUT, task_type="CAUSAL_LM"
        )
        model = get_peft_model(model, lora)
    if RECOMPUTE:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        if settings.get("activation_checkpointing", {}).get("cpu_checkpointing"):
            keep_inputs_on_host(model)
    if MLP_TILES > 1:
        for layer in model.base_model.layers:
            tile_feed_forward(layer.mlp)
    if LOSS_TILES > 1:
        tile_loss(model)
    return model


def draw_whole_weights():
    """Let a model draw its first weights whole: ZeRO-3 has cut them by then, and would leave them undrawn."""
    from transformers import PreTrainedModel

    draw = PreTrainedModel._initialize_weights

    def drawn(model, module, *told):
        own = list(module.parameters(recurse=False))
        with deepspeed.zero.GatheredParameters(own, modifier_rank=0):
            draw(model, module, *told)

    PreTrainedModel._initialize_weights = drawn


def keep_inputs_on_host(model):
    """Let the input of each recomputed layer wait in host memory for its backward, where that is another."""
    deepspeed.checkpointing.configure(None, checkpoint_in_cpu=torch.cuda.is_available())
    model._set_gradient_checkpointing(True, deepspeed.checkpointing.checkpoint)


def tile_feed_forward(mlp):
    """Let a feed-forward run tile by tile over the sequence, and once more forward in backward."""
    from deepspeed.runtime.sequence_parallel.ulysses_sp import TiledMLP

    whole = type(mlp).forward
    mlp.forward = lambda hidden: TiledMLP.apply(whole, mlp, hidden, MLP_TILES, list(mlp.parameters()))


def tile_loss(model):
    """Let a model return its mean loss, the logits of one tile of the sequence there at a time."""
    from deepspeed.runtime.sequence_parallel.ulysses_sp import sequence_tiled_compute

    head = model.get_output_embeddings()

    def loss_of_tile(hidden, targets):
        return torch.nn.functional.cross_entropy(head(hidden).flatten(0, 1).float(), targets.flatten())

    def forward(input_ids, position_ids, targets):
        body = model.base_model(input_ids=input_ids, position_ids=position_ids, use_cache=False)
        return sequence_tiled_compute(
            loss_of_tile,
            targets.shape[1],
            LOSS_TILES,
            kwargs_to_shard={"hidden": body.last_hidden_state, "targets": targets},
            kwargs_to_pass={},
            grad_requiring_tensor_key="hidden",
            compute_params=[head.weight],
            output_unshard_dimension=0,
            output_reduction="mean",
        )

    model.forward = forward


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
    """Return the mean loss of this rank's part of the sequence, in float32; see BALANCE for training."""
    positions = torch.arange(inputs.shape[1], device=inputs.device).unsqueeze(0).expand_as(inputs)
    part = comm.get_rank() % SP
    inputs, targets, positions = (whole.chunk(SP, 1)[part] for whole in (inputs, targets, positions))
    if LOSS_TILES > 1:
        return engine(input_ids=inputs, position_ids=positions, targets=targets)
    balanced = BALANCE > 0 and torch.is_grad_enabled()
    routed = {"output_router_logits": True} if balanced else {}
    out = engine(input_ids=inputs, position_ids=positions, use_cache=False, **routed)
    loss = torch.nn.functional.cross_entropy(out.logits.flatten(0, 1).float(), targets.flatten())
    return loss + BALANCE * out.aux_loss if balanced else loss


def make_engine(settings, smoke):
    """Return the engine, and which of how many readers this rank is."""
    micro_batch = settings["train_micro_batch_size_per_gpu"]
    model = make_model(AutoConfig.from_pretrained(HERE), settings, smoke)
    groups = sequence_groups(model, micro_batch)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    engine, *_ = deepspeed.initialize(model=model, model_parameters=learned, config=settings, mpu=groups)
    copies = TP * SP
    return engine, comm.get_rank() // copies, comm.get_world_size() // copies


def train_step(engine, data):
    """Run one optimizer step and return the mean loss."""
    total, several = 0.0, engine.gradient_accumulation_steps()
    for _ in range(several):
        loss = loss_of(engine, *next(data))
        engine.backward(loss)
        engine.step()
        total += loss.detach()
    return total / several


def evaluated(engine, data, count):
    """Return the mean loss of ``count`` batches."""
    engine.eval()
    with torch.no_grad():
        loss = sum(loss_of(engine, *next(data)) for _ in range(count)) / count
    engine.train()
    return loss
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


def make_engine(settings, smoke):
    """Return the engine, and which of how many readers this rank is; each rank has one ``Stage``."""
    from deepspeed.pipe import LayerSpec, PipelineModule

    stages = [LayerSpec(Stage, index) for index in range(len(STAGE_LAYERS))]
    model = PipelineModule(
        layers=stages, num_stages=len(stages), loss_fn=loss_of, partition_method="uniform",
        activation_checkpoint_interval=0,
    )
    engine, *_ = deepspeed.initialize(model=model, model_parameters=list(model.parameters()), config=settings)
    return engine, engine.grid.get_data_parallel_rank(), engine.grid.get_data_parallel_world_size()


def train_step(engine, data):
    """Run one optimizer step and return its loss."""
    return engine.train_batch(data_iter=data)


def evaluated(engine, data, count):
    """Return the mean loss of ``count`` batches of as many micro-batches as a step has."""
    return sum(engine.eval_batch(data_iter=data) for _ in range(count)) / count
'''

TAIL = '''

def more_arguments(parser):
    """Add what DeepSpeed's launchers say."""
    parser.add_argument("--local_rank", type=int, default=-1)
    parser.add_argument("--deepspeed_config", required=True)


def use_disk(settings):
    """Put the folder that the variable NVME_PATH names in the place of that name."""
    for part in (settings.get("offload_optimizer", {}), settings.get("offload_param", {})):
        if "nvme_path" in part:
            part["nvme_path"] = os.environ["NVME_PATH"]


def stepped(engine, data, rate):
    """Run one optimizer step at a rate."""
    for group in engine.optimizer.param_groups:
        group["lr"] = rate
    return train_step(engine, data)


def keeps_its_part(engine):
    """Whether each rank has a part of the states that DeepSpeed 0.19 saves for the first rank alone."""
    return type(engine.optimizer).__name__ == "BF16_Optimizer" and not engine.zero_optimization()


def resumed(engine, reader, folder):
    """Load the last checkpoint in ``folder``, if there is one, and return its step."""
    if folder is None or not (Path(folder) / "latest").exists():
        return 0
    apart = keeps_its_part(engine)
    path, state = engine.load_checkpoint(folder, load_optimizer_states=not apart)
    place = Path(folder) / f"step-{state['step']}"
    if apart:
        part = torch.load(place / f"optimizer-{comm.get_rank()}.pt", weights_only=False)
        rank = comm.get_rank(group=engine.optimizer.dp_process_group)
        engine.optimizer.load_state_dict({rank: part}, load_from_fp32_weights=True)
    restore_reader(place, reader)
    return state["step"]


def save_to(engine, reader, folder, step):
    """Save everything under the number of a step; it is the last checkpoint once it is whole."""
    name, latest = f"step-{step}", Path(folder) / "latest"
    engine.save_checkpoint(folder, tag=name, client_state={"step": step}, save_latest=False)
    if keeps_its_part(engine):
        torch.save(engine.optimizer.state_dict(), Path(folder) / name / f"optimizer-{comm.get_rank()}.pt")
    keep_reader(Path(folder) / name, reader)
    comm.barrier()
    if comm.get_rank() == 0:
        latest.with_suffix(".new").write_text(name)
        latest.with_suffix(".new").replace(latest)


def main():
    """Train from the last checkpoint on."""
    options = arguments()
    settings = json.loads((HERE / options.deepspeed_config).read_text())
    settings["optimizer"]["params"]["lr"] = options.learning_rate
    use_disk(settings["zero_optimization"])
    deepspeed.init_distributed(timeout=timedelta(minutes=options.timeout_minutes))
    torch.manual_seed(options.seed)
    engine, part, parts = make_engine(settings, options.smoke)
    if COMPILED:
        engine.compile()
    reader = reader_of(options, part, parts)
    first = resumed(engine, reader, None if options.smoke else options.output_dir)
    micro_batch = settings["train_micro_batch_size_per_gpu"]
    data = reader.batches(micro_batch, engine.device)
    held = examples(options, micro_batch, part, parts, engine.device)

    evaluate = None if held is None else lambda: evaluated(engine, held, options.eval_steps)
    leads = comm.get_rank() == 0
    train(
        options,
        first,
        lambda rate: stepped(engine, data, rate),
        evaluate,
        lambda step: save_to(engine, reader, options.output_dir, step),
        leads,
        engine.device,
    )
    comm.destroy_process_group()


if __name__ == "__main__":
    main()
'''


def script(settings: dict[str, object], piped: bool) -> str:
    """Return ``train.py`` with the plan's settings at its top."""
    lines = "".join(f"{name} = {value!r}\n" for name, value in settings.items())
    text = HEAD.replace("# SETTINGS\n", lines) + DATA + LOOP + (PIPED if piped else WHOLE) + TAIL
    text = with_sources(text) if "SOURCE_LEN" in settings else text
    return with_masks(text) if "MASKED_SHARE" in settings else text
