"""What transformers' layers with peft's adapters keep for backward, beside weights.

Each line on stdin is a folder with a ``config.json``, the adapters' dtype and the share of their input that
they drop. Answers are lines of JSON: bytes that the last of three layers saves under autocast, each storage
once. A GPU's kernel of dropout, which keeps a boolean for each element, stands for a processor's, which keeps
a number.
"""

import json
import sys

import torch
from check_kept import SMALL_VOCABULARY, STAND_IN, stand_in
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

RANK = 8
TOKENS = 320


def main() -> None:
    """Answer each line."""
    torch.manual_seed(0)
    ALL_ATTENTION_FUNCTIONS.register(STAND_IN, stand_in)
    ALL_MASK_ATTENTION_FUNCTIONS.register(STAND_IN, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    torch.nn.functional.dropout = lambda inputs, p=0.5, training=True, inplace=False: torch.native_dropout(
        inputs, p, training
    )[0]
    for line in sys.stdin:
        folder, dtype, dropout = line.split()
        kept = layer_bytes(AutoConfig.from_pretrained(folder), dtype, float(dropout))
        sys.stdout.write(json.dumps({"kept": kept}) + "\n")
        sys.stdout.flush()


def layer_bytes(config, dtype: str, dropout: float) -> int:
    """Return what the last of three layers saves beside weights and what autocast makes of them."""
    config.num_hidden_layers, config.vocab_size = 3, SMALL_VOCABULARY
    config.pad_token_id = config.bos_token_id = config.eos_token_id = 0
    model = AutoModelForCausalLM.from_config(config, attn_implementation=STAND_IN).to(torch.bfloat16)
    adapters = LoraConfig(r=RANK, target_modules="all-linear", lora_dropout=dropout, task_type="CAUSAL_LM")
    model = get_peft_model(model, adapters, autocast_adapter_dtype=dtype == "float32").train()
    model.enable_input_require_grads()
    shapes = {tuple(one.shape) for name, one in model.named_parameters() if "lora_" in name}
    shapes |= {shape[::-1] for shape in shapes}
    held = [*model.parameters(), *model.buffers()]
    weights = {tensor.untyped_storage().data_ptr() for tensor in held}
    saved, alive, marks = {}, [], []

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights and tuple(tensor.shape) not in shapes:
            saved[storage.data_ptr()] = storage.nbytes()
        alive.append(tensor)
        return tensor

    stack = next(part for part in model.modules() if isinstance(part, torch.nn.ModuleList) and len(part) == 3)
    stack[-1].register_forward_pre_hook(lambda *_: marks.append(sum(saved.values())))
    stack[-1].register_forward_hook(lambda *_: marks.append(sum(saved.values())))
    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", torch.bfloat16):
        model(input_ids=torch.randint(0, SMALL_VOCABULARY, (1, TOKENS)))
    return marks[1] - marks[0]


if __name__ == "__main__":
    main()
