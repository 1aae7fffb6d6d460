"""Read orders of passes with PyTorch's own reader, lower them to messages, and play them; run beside PyTorch.

Takes lines of JSON on stdin, each with ``file``, ``ranks``, ``stages`` and ``microbatches``, and answers each
with a line of JSON: what PyTorch refused, or the passes of each rank as it understood them.
"""

from unittest.mock import MagicMock

from answering import answer_lines
from torch.distributed.pipelining import schedules
from torch.distributed.pipelining.stage import _PipelineStageBase

LETTERS = {schedules.FORWARD: "F", schedules.BACKWARD_INPUT: "B", schedules.BACKWARD_WEIGHT: "W"}


def stages_of(case, rank):
    """Return stand-ins for the stages of a rank."""
    stages = []
    for place in range(case["stages"] // case["ranks"]):
        stage = MagicMock(spec=_PipelineStageBase)
        stage.num_stages, stage.group_size, stage.group_rank = case["stages"], case["ranks"], rank
        stage.stage_index, stage.has_backward, stage.submod = place * case["ranks"] + rank, True, None
        stage.is_first, stage.is_last = stage.stage_index == 0, stage.stage_index == case["stages"] - 1
        stages.append(stage)
    return stages


def derive(case):
    """Return what PyTorch makes of one file."""
    made = schedules._PipelineScheduleRuntime(
        stages_of(case, 0), case["microbatches"], loss_fn=lambda *_: None
    )
    made._load_csv(case["file"])
    home = made.stage_index_to_group_rank.__getitem__
    orders = {rank: list(row) for rank, row in made.pipeline_order.items()}
    sent = schedules._add_send_recv(orders, stage_to_rank=home, num_stages=case["stages"])
    schedules._simulate_comms_compute(sent, home, case["stages"])
    passes = [
        [
            [LETTERS[one.computation_type], one.stage_index, one.microbatch_index]
            for one in made.pipeline_order[rank]
        ]
        for rank in range(case["ranks"])
    ]
    return {"passes": passes, "ranks": [made.stage_index_to_group_rank[s] for s in range(case["stages"])]}


if __name__ == "__main__":
    answer_lines(derive)
