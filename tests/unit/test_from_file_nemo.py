"""Programs of NeMo 2.0 in Python: read by their syntax, nothing of them is run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from planner.errors import InputError
from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.megatron_bridge.reading.recipe_table import nemo_names, nemo_recipe
from tests.cases import every

RECIPE: Final = """import nemo_run as run
from nemo.collections import llm

def configure(nodes: int = 1, gpus_per_node: int = 8):
    recipe = llm.llama3_70b.pretrain_recipe(name="x", num_nodes=nodes, num_gpus_per_node=gpus_per_node)
    recipe.trainer.max_steps = 100
    CHANGE
    return recipe

if __name__ == "__main__":
    run.run(configure(nodes=2 * 4), executor=run.LocalExecutor())
"""
OWN: Final = """import argparse
from nemo import lightning as nl
from nemo.collections import llm

parser = argparse.ArgumentParser()
parser.add_argument("--pipeline", type=int, default=2)
parser.add_argument("--tensor", type=int)
args = parser.parse_args()
strategy = nl.MegatronStrategy(
    tensor_model_parallel_size=TENSOR, pipeline_model_parallel_size=args.pipeline, sequence_parallel=True,
    pipeline_dtype=torch.bfloat16,
)
precision = nl.MegatronMixedPrecision(precision="bf16-mixed")
trainer = nl.Trainer(devices=8, num_nodes=2, strategy=strategy, plugins=precision)
model = llm.LlamaModel(llm.Llama3Config8B(seq_length=8192))
data = llm.PreTrainingDataModule(paths="x", seq_length=8192, global_batch_size=64, micro_batch_size=1)
optim = llm.distributed_fused_adam_with_cosine_annealing()
llm.pretrain(model=model, data=data, trainer=trainer, optim=optim)
"""


def _read(tmp_path: Path, text: str) -> Imported:
    path = tmp_path / "train.py"
    path.write_text(text, encoding="utf-8")
    return read_runner_file(path)


def test_a_recipe_is_read_with_what_the_program_sets_otherwise(tmp_path: Path) -> None:
    """Its trainer has tp 4, pp 4 in five chunks, cp 2, sequence parallelism; its data 512 of 8,192 tokens."""
    found = _read(tmp_path, RECIPE.replace("CHANGE", "recipe.trainer.strategy.context_parallel_size = 4"))
    wanted = {"gpus": "64", "tp": "4", "pp": "4", "vpp": "5", "cp": "4", "sequence_parallel": "true"}
    wanted |= {"seq_len": "8192", "global_batch": "512", "micro_batch": "1", "zero": "1", "precision": "bf16"}
    assert {name: found.options.get(name) for name in wanted} == wanted
    assert (found.runtime, found.model_name, found.faults) == ("megatron-bridge", "llama3-70b", ())


@every(
    ("change", "option", "value"),
    [
        ("recipe.data.global_batch_size = recipe.data.micro_batch_size or 128", "global_batch", None),
        ("recipe.trainer.strategy.tensor_model_parallel_size = 8 if nodes > 4 else 2", "tp", "8"),
        ("recipe.model.config.recompute_granularity = 'selective'", "recompute", "selective"),
        ("recipe.trainer.plugins = bf16_with_fp8_current_scaling_mixed()", "precision", "fp8"),
    ],
)
def test_what_is_set_is_followed(tmp_path: Path, change: str, option: str, value: str | None) -> None:
    found = _read(tmp_path, RECIPE.replace("CHANGE", change))
    assert found.options.get(option) == value
    assert [said for said, _ in found.faults] == ([option] if value is None else [])


def test_a_degree_under_a_condition_that_is_not_known_is_a_fault(tmp_path: Path) -> None:
    change = "if many():\n        recipe.trainer.strategy.tensor_model_parallel_size = 8"
    (option, fault), *more = _read(tmp_path, RECIPE.replace("CHANGE", change)).faults
    assert (option, more) == ("tp", [])
    assert "8 if many(...)" in fault.found


@every(
    "made",
    [
        "if args.size == '8b':\n    r = SMALL\nelse:\n    r = LARGE\n",
        "def make():\n    if args.size == '8b':\n        return SMALL\n    return LARGE\nr = make()\n",
        "if args.size != '8b':\n    r = LARGE\n",
    ],
)
def test_a_layout_under_a_condition_that_is_not_known_is_asked_for(tmp_path: Path, made: str) -> None:
    head = (
        "import argparse\nfrom nemo.collections import llm\np = argparse.ArgumentParser()\n"
        "p.add_argument('--size', required=True)\nargs = p.parse_args()\n"
    )
    for word, name in (("SMALL", "llama3_8b"), ("LARGE", "llama3_70b")):
        made = made.replace(word, f"llm.{name}.pretrain_recipe(num_nodes=8)")
    faults = _read(tmp_path, f"{head}{made}r.data.global_batch_size = 128\n").faults
    assert [option for option, _ in faults] == ["model", "tp", "pp", "cp"]
    assert all("args.size" in fault.found for _, fault in faults)


def test_a_trainer_of_its_own_is_read(tmp_path: Path) -> None:
    found = _read(tmp_path, OWN.replace("TENSOR", "4"))
    wanted = {"gpus": "16", "tp": "4", "pp": "2", "cp": None, "sequence_parallel": "true", "seq_len": "8192"}
    assert {name: found.options.get(name) for name in wanted} == wanted
    assert (found.model_name, found.faults) == ("llama3-8b", ())


def test_an_argument_without_a_default_is_a_fault_that_an_option_lifts(tmp_path: Path) -> None:
    found = _read(tmp_path, OWN.replace("TENSOR", "args.tensor * 1"))
    assert [option for option, _ in found.faults] == ["tp"]
    assert found.checked(["tp"]).options["pp"] == "2"


def test_a_model_that_is_not_known_is_a_fault(tmp_path: Path) -> None:
    found = _read(tmp_path, OWN.replace("TENSOR", "4").replace("Llama3Config8B", "HyenaConfig1B"))
    assert [(option, fault.found) for option, fault in found.faults] == [("model", "'HyenaConfig1B'")]


def test_arguments_of_a_recipe_are_read(tmp_path: Path) -> None:
    head = "from nemo.collections import llm\nr = llm.llama3_8b.finetune_recipe"
    found = _read(tmp_path, f"{head}(num_nodes=2, peft_scheme='lora', seq_length=8192)\n")
    wanted = {"seq_len": "8192", "method": "lora", "gpus": "16"}
    assert {name: found.options.get(name) for name in wanted} == wanted
    assert [option for option, _ in _read(tmp_path, f"{head}(peft_scheme=mine())\n").faults] == ["method"]


def test_what_benchmarks_set_is_read(tmp_path: Path) -> None:
    """NeMo's scripts/performance/helpers.py, set_primary_perf_configs: by place and by name."""
    sizes = "num_nodes=16, num_gpus_per_node=4, mbs=1, gbs=1024, max_steps=9, tp_size=2, pp_size=4, cp_size=1"
    more = "vp_size=1, ep_size=1, compute_dtype='fp8', fp8_recipe='cs', use_mcore_fsdp=False"
    change = f"recipe = set_primary_perf_configs(recipe, 'pre_train', {sizes}, {more})"
    found = _read(tmp_path, RECIPE.replace("CHANGE", change))
    wanted = {"gpus": "64", "tp": "2", "pp": "4", "vpp": None, "cp": "1", "global_batch": "1024"}
    wanted |= {"precision": "fp8", "gradient_dtype": "bf16", "sequence_parallel": "true"}
    assert {name: found.options.get(name) for name in wanted} == wanted
    assert found.faults == ()
    assert "low_bit_weights=alone" in found.changes


@every(
    ("change", "setting"),
    [
        ("recipe.trainer.plugins = bf16_with_fp8_current_scaling_mixed()", "low_bit_weights=alone"),
        ("recipe.model.config.enable_cuda_graph = True", "cuda_graphs=attention"),
    ],
)
def test_settings_of_the_model_and_its_precision_are_read(tmp_path: Path, change: str, setting: str) -> None:
    """NeMo's recipes/precision/mixed_precision.py: ``fp8_param_gather`` is on in its recipes for fp8."""
    found = _read(tmp_path, RECIPE.replace("CHANGE", change))
    assert setting in found.changes
    off = "recipe.trainer.plugins.fp8_param_gather = False"
    plain = _read(tmp_path, RECIPE.replace("CHANGE", f"{change}\n    {off}"))
    assert "low_bit_weights=alone" not in plain.changes


def test_degrees_that_an_unknown_function_may_change_are_asked_for(tmp_path: Path) -> None:
    change = "recipe.trainer.strategy.context_parallel_size = 1\n    recipe = configure_mine(recipe, 4)"
    found = _read(tmp_path, RECIPE.replace("CHANGE", change))
    assert [option for option, _ in found.faults] == ["tp", "pp"]


@every(
    "text",
    [
        "return recipe\n",
        "x = " + "-" * 5000 + "1\n",
        "x = [1]\n" + "x = x + x\n" * 200,
        "def f(): return f()\nf()\n",
        "x = 'a' < 3 in {}\nx[[]] = x['b']\n",
    ],
)
def test_odd_programs_are_no_recipes(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="settings stand in its own code"):
        _read(tmp_path, f"import nemo\n{text}")


def test_every_recipe_of_the_table_is_read(tmp_path: Path) -> None:
    for name in nemo_names():
        for kind in ("pretrain", "sft", "lora"):
            recipe, scheme = nemo_recipe(name, kind), "lora" if kind == "lora" else "none"
            call = "pretrain_recipe()" if kind == "pretrain" else f"finetune_recipe(peft_scheme='{scheme}')"
            if recipe is not None:
                found = _read(tmp_path, f"from nemo.collections import llm\nr = llm.{name}.{call}\n")
                assert found.options.get("method") == ("lora" if kind == "lora" else None)
                assert found.options.get("tp", "1") == str(
                    recipe.fields.get("model.tensor_model_parallel_size", 1)
                )
