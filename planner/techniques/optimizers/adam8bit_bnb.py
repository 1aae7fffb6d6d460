"""8-bit Adam of bitsandbytes under Hugging Face's Trainer: as `adam8bit`, an embedding's moments in fp32."""

from planner.dataclasses import replace
from planner.techniques.optimizers import adam8bit

ENTRY = replace(
    adam8bit.ENTRY,
    name="adam8bit-bnb",
    cite="arXiv:2110.02861; transformers 5.24, trainer.py, create_optimizer: 32 bits for each nn.Embedding; "
    "blocks of 256 in bitsandbytes 0.50, bitsandbytes/optim/optimizer.py",
    embedding_state_bytes=4.0,
    aliases=("adamw-bnb-8bit", "adamw_bnb_8bit"),
)
