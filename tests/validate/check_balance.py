"""Run the loss of an emitted script on a small model of its config.json, in an interpreter with its library.

Takes lines of JSON on stdin, each with ``folder``, and answers each with the script's loss in training and in
evaluation, and transformers' own loss of the same tokens, which has the balance of the experts in it.
"""

import sys
import types
from pathlib import Path

import torch
from answering import answer_lines
from transformers import AutoConfig, AutoModelForCausalLM

SMALL = {
    "hidden_size": 32, "intermediate_size": 48, "moe_intermediate_size": 16, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 64,
}  # fmt: skip


def derive(case):
    """Return the losses, and that of the tokens alone."""
    folder = Path(case["folder"])
    sys.modules.setdefault("datasets", types.SimpleNamespace(load_dataset=None))
    scope = {"__name__": "emitted", "__file__": str(folder / "train.py")}
    exec(compile((folder / "train.py").read_text(), "train.py", "exec"), scope)
    config = AutoConfig.from_pretrained(folder)
    config.update({name: value for name, value in SMALL.items() if hasattr(config, name)})
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    for name, weight in model.named_parameters():
        if "gate" in name:
            torch.nn.init.normal_(weight, std=0.5)
    tokens = torch.randint(64, (2, 17))
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    positions = torch.arange(16).unsqueeze(0)
    scope["comm"] = types.SimpleNamespace(get_rank=lambda: 0)
    asked = (model, inputs, targets) if "SP" in scope else (model, inputs, targets, positions)
    with torch.no_grad():
        silent = scope["loss_of"](*asked)
    trained = scope["loss_of"](*asked)
    own = model(input_ids=inputs, labels=targets, shift_labels=targets)
    alone = torch.nn.functional.cross_entropy(own.logits.flatten(0, 1), targets.flatten())
    trained.backward()
    moved = sum(float(w.grad.norm()) for n, w in model.named_parameters() if "gate" in n)
    return {"trained": float(trained), "evaluated": float(silent), "own": float(own.loss),
            "alone": float(alone), "routers": moved}  # fmt: skip


if __name__ == "__main__":
    answer_lines(derive)
