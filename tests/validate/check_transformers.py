"""Count the parameters of each ``config.json`` named on stdin, as transformers builds it without memory."""

import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM


def main() -> None:
    """Answer each folder with its parameters and the class of its layers."""
    for line in sys.stdin:
        config = AutoConfig.from_pretrained(line.strip())
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        count = sum(parameter.numel() for parameter in model.parameters())
        classes = {type(module).__name__ for module in model.modules()}
        sys.stdout.write(f"{count} {' '.join(sorted(classes))}\n")


if __name__ == "__main__":
    main()
