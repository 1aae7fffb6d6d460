"""What transformers' code keeps for backward of a layer, and how many parameters a model has there.

Each line on stdin is a folder with a ``config.json``, and in ``small`` one of layers that fit a processor.
Answers are lines of JSON: parameters, the classes of all modules, the names of linear layers, and the bytes
of tensors beside weights that one small layer saves.
"""

import json
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM

TOKENS = 256
SMALL_VOCABULARY = 512


def main() -> None:
    """Answer each folder."""
    torch.manual_seed(0)
    for line in sys.stdin:
        config = AutoConfig.from_pretrained(line.strip())
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        linear = {name for name, part in model.named_modules() if isinstance(part, torch.nn.Linear)}
        answer = {
            "params": sum(parameter.numel() for parameter in model.parameters()),
            "classes": sorted({type(module).__name__ for module in model.modules()}),
            "linear": sorted(linear),
            "kept": layer_bytes(AutoConfig.from_pretrained(line.strip() + "/small")),
        }
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def layer_bytes(config) -> int:
    """Return what the last of three layers saves beside weights, each storage once."""
    config.num_hidden_layers = 3
    config.vocab_size = SMALL_VOCABULARY
    config.pad_token_id = config.bos_token_id = config.eos_token_id = 0
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").to(torch.bfloat16).train()
    held = [*model.parameters(), *model.buffers()]
    weights = {tensor.untyped_storage().data_ptr() for tensor in held}
    saved, marks, alive = {}, [], []

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)
        return tensor

    layers = next(
        part for part in model.modules() if isinstance(part, torch.nn.ModuleList) and len(part) == 3
    )
    layers[-1].register_forward_pre_hook(lambda *_: marks.append(sum(saved.values())))
    layers[-1].register_forward_hook(lambda *_: marks.append(sum(saved.values())))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(input_ids=torch.randint(0, SMALL_VOCABULARY, (1, TOKENS)))
    return marks[1] - marks[0]


if __name__ == "__main__":
    main()
