"""Files of Megatron-Bridge that Megatron-Bridge refuses: each names the field that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from planner.inputs.load import load_model
from planner.inputs.numerics import RopeScaling
from planner.runtimes.imports.dispatch import read_runner_file
from tests.cases import every

FILE: Final = """from megatron.bridge.training.config import ConfigContainer
config = ConfigContainer(
    model=GPTModelProvider(num_layers=32, hidden_size=4096, ffn_hidden_size=14336, num_attention_heads=32,
        num_query_groups=8, seq_length=4096, vocab_size=128256, normalization="RMSNorm",
        gated_linear_unit=True,
        position_embedding_type="rope", add_bias_linear=False, share_embeddings_and_output_weights=False,
        tensor_model_parallel_size=2 MODEL),
    train=TrainingConfig(train_iters=100, global_batch_size=64, micro_batch_size=1 TRAIN),
    optimizer=OptimizerConfig(optimizer="adam", use_distributed_optimizer=True),
    scheduler=SchedulerConfig(lr_warmup_iters=10 SCHEDULER),
    ddp=DistributedDataParallelConfig(DDP),
    dist=DistributedInitConfig(DIST),
    dataset=GPTDatasetConfig(DATA),
    checkpoint=CheckpointConfig(save="x" CHECKPOINT),
    comm_overlap=CommOverlapConfig(tp_comm_overlap=False OVERLAP),
    mixed_precision=MIXED,
)
"""
DATA: Final = "seq_length=4096, reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False"
MIXED: Final = '"bf16_mixed"'
SPEC: Final = "model.transformer_layer_spec"
DEFERRED: Final = "defer_embedding_wgrad_compute=True, wgrad_deferral_limit=0"


@every(
    ("section", "text", "key"),
    [
        ("TRAIN", "", None),
        ("TRAIN", ", train_samples=6400", "train.train_samples"),
        ("SCHEDULER", ", lr_warmup_fraction=0.1", "scheduler.lr_warmup_fraction"),
        ("SCHEDULER", ", lr_decay_samples=100", "scheduler"),
        ("SCHEDULER", ", lr_decay_iters=-1", "scheduler.lr_decay_iters"),
        ("SCHEDULER", ", lr_decay_iters='all'", "scheduler.lr_decay_iters"),
        ("SCHEDULER", ", lr_decay_iters=int(STEPS)", None),
        ("DATA", f"{DATA}, split=3", "dataset.split"),
        ("DATA", f"{DATA}, data_path=['x']", "dataset.split"),
        ("DATA", f"{DATA}, data_path=['x'], split='99,1,0'", None),
        ("DATA", f"{DATA}, data_path=3", "dataset.data_path"),
        ("MODEL", ", activation_func=None", "activation_func"),
        ("SCHEDULER", ", start_weight_decay=-1.0", "scheduler.start_weight_decay"),
        ("DATA", DATA.replace("seq_length=4096, ", ""), "dataset.seq_length"),
        ("DATA", DATA.replace(", eod_mask_loss=False", ""), "dataset.eod_mask_loss"),
        ("CHECKPOINT", ', async_save=True, ckpt_format="torch_dist"', None),
        ("CHECKPOINT", ', async_save=True, ckpt_format="torch"', "checkpoint.async_save"),
        ("CHECKPOINT", ', ckpt_format="fsdp_dtensor"', "checkpoint.ckpt_format"),
        ("DIST", "use_megatron_fsdp=True, use_torch_fsdp2=True", "dist.use_torch_fsdp2"),
        ("DIST", "use_decentralized_pg=True", "dist.use_decentralized_pg"),
        ("OVERLAP", f", {DEFERRED}", "defer_embedding_wgrad_compute"),
        ("OVERLAP", f", {DEFERRED.replace('0', '-1')}", "defer_embedding_wgrad_compute"),
        ("MODEL", ", make_vocab_size_divisible_by=-1", "make_vocab_size_divisible_by"),
        ("MIXED", '"foo"', "mixed_precision"),
        ("MIXED", '"bf16-with-fp8-current-scaling-mixed"', None),
    ],
)
def test_what_bridge_refuses_is_a_fault_at_its_field(
    tmp_path: Path, section: str, text: str, key: str | None
) -> None:
    assert key in [where.rpartition(": ")[2] for where in _faults(tmp_path, section, text)] or key is None
    assert key is not None or not _faults(tmp_path, section, text)


def test_a_section_says_what_has_no_default(tmp_path: Path) -> None:
    without = FILE.replace("tp_comm_overlap=False OVERLAP", "overlap_grad_reduce=True OVERLAP")
    assert [where.rpartition(": ")[2] for where in _faults(tmp_path, "OVERLAP", "", without)] == [
        "comm_overlap.tp_comm_overlap"
    ]


@every(
    ("old", "new", "key"),
    [
        ('optimizer="adam"', 'optimizer=""', "optimizer.optimizer"),
        (
            "mixed_precision=",
            "peft=LoRA(target_modules=None, dim=8), mixed_precision=",
            "peft.target_modules",
        ),
        ("mixed_precision=", "peft=LoRA(dim=8), mixed_precision=", ""),
        (" MODEL", ", transformer_layer_spec=partial(get_gpt_decoder_block_spec, LAYERS=True)", ""),
        (" MODEL", ", transformer_layer_spec=partial(specs.get_gpt_decoder_block_spec, LAYERSs=True)", SPEC),
        (" MODEL", ", transformer_layer_spec=partial(own_spec, LAYERSs=True)", ""),
    ],
)
def test_what_says_nothing_is_none_of_its_choices(old: str, new: str, key: str, tmp_path: Path) -> None:
    text = FILE.replace("MIXED", MIXED).replace(old, new).replace("LAYERS", "use_transformer_engine")
    found = [where.rpartition(": ")[2] for where in _faults(tmp_path, "DIST", "", text)]
    assert found == ([key] if key else [])


def test_heads_of_latent_attention_need_not_divide_the_hidden_size(tmp_path: Path) -> None:
    """Megatron-core rounds the unused width of a head down (d98e8a64, transformer_config.py)."""
    wide = ", multi_latent_attention=True, kv_lora_rank=512, q_lora_rank=768"
    text = FILE.replace("num_attention_heads=32", "num_attention_heads=24").replace(" MODEL", wide)
    assert not _faults(tmp_path, "DIST", "", text)


def test_a_tokenizer_tells_models_of_one_padded_table_apart(tmp_path: Path) -> None:
    """32,000, 32,016 and 32,256 tokens are padded to 32,256 where four ranks share them."""
    llama = FILE.replace("14336", "11008").replace("num_query_groups=8,", "").replace("size=2", "size=4")
    named = llama.replace("128256", "32256").replace(" MODEL", ", rotary_base=1000000")
    for tokens in (32000, 32016, 32256):
        text = named.replace(
            "mixed_precision", f"tokenizer=TokenizerConfig(vocab_size={tokens}), mixed_precision"
        )
        found = read_runner_file(_written(tmp_path, "DIST", "", text))
        model = found.model or load_model(str(found.model_name))
        assert model.vocab == tokens


def test_interpolated_positions_are_read(tmp_path: Path) -> None:
    text = FILE.replace(" MODEL", ", seq_len_interpolation_factor=4.0, rotary_base=500000")
    found = read_runner_file(_written(tmp_path, "DIST", "", text))
    assert found.model is not None
    assert found.model.numerics.rope_scaling == RopeScaling(kind="linear", factor=4.0)


def test_embedding_gradients_are_deferred_in_pipelines(tmp_path: Path) -> None:
    both = FILE.replace(" MODEL", ", pipeline_model_parallel_size=2, pipeline_dtype=x")
    assert not _faults(tmp_path, "OVERLAP", f", {DEFERRED}", both)


def test_fields_that_a_section_does_not_have_are_told(tmp_path: Path) -> None:
    path = _written(tmp_path, "DIST", "lazy_init=True, use_sharp=False", FILE)
    assert read_runner_file(path).unknown == ("dist.lazy_init",)


def test_one_of_two_sections_shards_the_optimizer(tmp_path: Path) -> None:
    path = _written(tmp_path, "DDP", "use_distributed_optimizer=False", FILE)
    assert read_runner_file(path).options["zero"] == "1"


def _faults(tmp_path: Path, section: str, text: str, whole: str = FILE) -> list[str]:
    return [problem.where for _, problem in read_runner_file(_written(tmp_path, section, text, whole)).faults]


def _written(tmp_path: Path, section: str, text: str, whole: str) -> Path:
    usual = {"DATA": DATA, "MIXED": MIXED} | {section: text}
    for name in ("MODEL", "TRAIN", "SCHEDULER", "DDP", "DIST", "DATA", "CHECKPOINT", "OVERLAP", "MIXED"):
        whole = whole.replace(name, usual.get(name, ""))
    path = tmp_path / "train.py"
    path.write_text(whole, encoding="utf-8")
    return path


@every(("group", "wrong"), [(2, False), (8, False), (16, False), (1, True), (17, True), (15, True)])
def test_rounds_of_virtual_stages_are_micro_batches(tmp_path: Path, group: int, wrong: bool) -> None:
    """Eight ranks hold two copies of the model: 32 sequences are 16 passes of each."""
    more = (
        ", pipeline_model_parallel_size=2, pipeline_dtype=torch.bfloat16, "
        f"virtual_pipeline_model_parallel_size=4, microbatch_group_size_per_vp_stage={group}"
    )
    path = _written(tmp_path, "MODEL", more, FILE.replace("batch_size=64", "batch_size=32"))
    (tmp_path / "train.sh").write_text("torchrun --nnodes 1 --nproc_per_node 8 train.py\n")
    found = read_runner_file(path)
    named = [problem.where.rpartition(": ")[2] for _, problem in found.faults]
    assert ("microbatch_group_size_per_vp_stage" in named) == wrong, found.faults


@every("degree", [0, -2, "'two'"])
def test_a_degree_that_is_none_is_a_fault(tmp_path: Path, degree: object) -> None:
    path = tmp_path / "train.py"
    text = FILE.replace("parallel_size=2 MODEL", f"parallel_size={degree}")
    for name in ("TRAIN", "SCHEDULER", "DDP", "DIST", "DATA", "CHECKPOINT", "OVERLAP"):
        text = text.replace(f" {name}", "").replace(f"({name})", "()")
    path.write_text(text.replace("MIXED", MIXED), encoding="utf-8")
    assert read_runner_file(path).faults


@every(("said", "kept"), [("", True), (", sequence_parallel_input_regather=True", False)])
def test_adapters_keep_their_whole_input_unless_they_gather_it_again(
    said: str, kept: bool, tmp_path: Path
) -> None:
    split = FILE.replace(" MODEL", ", tensor_model_parallel_size=2, sequence_parallel=True")
    text = split.replace("MIXED", MIXED).replace(
        "mixed_precision=", f"peft=LoRA(dim=8{said}), mixed_precision="
    )
    found = read_runner_file(_written(tmp_path, "DIST", "", text))
    assert ("adapter_regathers_input=false" in found.changes) == kept
    assert not found.unknown


def test_messages_of_adapters_are_read(tmp_path: Path) -> None:
    """Megatron-Bridge, peft/lora.py, ``a2a_experimental``; Megatron-core, ``tp_comm_overlap_disable_qkv``."""
    more = ", tensor_model_parallel_size=2, sequence_parallel=True, tp_comm_overlap_disable_qkv=True"
    text = FILE.replace(" MODEL", more).replace("MIXED", MIXED)
    text = text.replace("mixed_precision=", "peft=LoRA(dim=8, a2a_experimental=True), mixed_precision=")
    found = read_runner_file(_written(tmp_path, "DIST", "", text))
    assert {"adapter_all_to_all=true", "adapter_gathers_input=false"} <= set(found.changes)
    assert not found.unknown
