"""The small script that fills a user's run into nanotron's YAML and hands over to nanotron."""

START = '''"""Fill the user's paths and numbers into nanotron.yaml and hand over to nanotron's run_train.py.

The folder of nanotron's checkout is NANOTRON, by default the working directory. A smoke run of N steps is
start.py --smoke N: made-up tokens, no tokenizer, and nothing is saved.
"""

import argparse
import os
import runpy
import sys
import tempfile
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
SCRIPT = Path(os.environ.get("NANOTRON", ".")) / "run_train.py"


def told(name, value):
    """Return the user's variable as a number of the kind of ``value``, or that."""
    given = os.environ.get(name)
    return type(value)(float(given)) if given else value


def blend(given):
    """Return one path or name, or what nanotron mixes: weights and paths such as "0.7 a 0.3 b"."""
    words = [given] if os.path.exists(given) else given.split()
    if len(words) == 1:
        return given
    try:
        weights, paths = [float(word) for word in words[::2]], words[1::2]
    except ValueError:
        weights, paths = [1.0] * len(words), words
    return dict(zip(paths, weights, strict=True))


def schedule(config):
    """Put the user's numbers in the place of the plan's."""
    rates = config["optimizer"]["learning_rate_scheduler"]
    last = told("DECAY_STEPS", rates["lr_decay_starting_step"] + rates["lr_decay_steps"])
    rates["learning_rate"] = told("LEARNING_RATE", rates["learning_rate"])
    rates["min_decay_lr"] = told("MIN_LEARNING_RATE", rates["min_decay_lr"])
    rates["lr_warmup_steps"] = told("WARMUP_STEPS", rates["lr_warmup_steps"])
    rates["lr_decay_starting_step"] = rates["lr_warmup_steps"]
    rates["lr_decay_steps"] = max(1, last - rates["lr_warmup_steps"])
    data, steps = config["data_stages"][0]["data"], config["tokens"]["train_steps"]
    config["general"]["seed"] = data["seed"] = told("SEED", config["general"]["seed"])
    config["tokens"]["train_steps"] = told("TRAIN_STEPS", steps)
    saves, logs = config["checkpoints"], config["logging"]
    saves["checkpoint_interval"] = told("SAVE_INTERVAL", saves["checkpoint_interval"])
    logs["iteration_step_info_interval"] = told("LOG_INTERVAL", logs["iteration_step_info_interval"])


def real(config):
    """Name data, tokenizer and folder; go on from the last checkpoint in the folder, if there is one."""
    folder = Path(os.environ["OUTPUT_DIR"])
    config["tokenizer"]["tokenizer_name_or_path"] = os.environ["TOKENIZER_PATH"]
    config["checkpoints"]["checkpoints_path"] = str(folder)
    if (folder / "latest.txt").exists():
        config["checkpoints"]["resume_checkpoint_path"] = str(folder)
    data = config["data_stages"][0]["data"]
    data["dataset"]["hf_dataset_or_datasets"] = blend(os.environ["DATA_PATH"])


def made_up(config, steps, folder):
    """Train on random tokens and save nothing."""
    config["tokens"]["train_steps"] = steps
    config["data_stages"][0]["data"]["dataset"] = None
    saves = config["checkpoints"]
    saves.update(checkpoints_path=folder, checkpoint_interval=steps + 1, save_final_state=False)


def main():
    """Write the resolved YAML to a folder of this rank's own and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", type=int, metavar="STEPS")
    parser.add_argument("--project", help="the project in Weights & Biases")
    options = parser.parse_args()
    config = yaml.safe_load((HERE / "nanotron.yaml").read_text())
    if options.project:
        config["general"]["project"] = options.project
    with tempfile.TemporaryDirectory() as folder:
        schedule(config)
        if options.smoke:
            made_up(config, options.smoke, folder)
        else:
            real(config)
        if os.environ.get("DATA_CACHE"):
            os.environ["HF_DATASETS_CACHE"] = os.environ["DATA_CACHE"]  # read when nanotron imports datasets
        resolved = Path(folder) / "nanotron.yaml"
        resolved.write_text(yaml.safe_dump(config, sort_keys=False))
        sys.argv = [str(SCRIPT), "--config-file", str(resolved)]
        runpy.run_path(str(SCRIPT), run_name="__main__")


if __name__ == "__main__":
    main()
'''
"""Reads the variables that the launch file exports."""
