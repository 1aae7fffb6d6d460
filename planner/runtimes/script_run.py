"""What the planner's own training scripts are told of a run, and the loop that they share."""

from __future__ import annotations

from typing import Final

from planner.runtimes.family import StepLine
from planner.runtimes.training_run import SMOKE_STEPS, TrainingRun

VARIABLES: Final = (
    "TRAIN_STEPS", "LEARNING_RATE", "MIN_LEARNING_RATE", "WARMUP_STEPS", "DECAY_STEPS", "SEED",
    "LOG_INTERVAL", "EVAL_INTERVAL", "EVAL_STEPS", "SAVE_INTERVAL", "TIMEOUT_MINUTES",
)  # fmt: skip
"""The user's variables that a script takes, each as the option of its name in small letters."""

WHERE_SET: Final[dict[str, tuple[str, ...]]] = {
    "MINUTES": ("--minutes", "${MINUTES}"),
    "TENSORBOARD_DIR": ("--tensorboard_dir", "${TENSORBOARD_DIR}"),
    "WANDB_PROJECT": ("--wandb_project", "${WANDB_PROJECT}"),
}
"""Options of a real run that stand only where the user sets a variable."""

STEP_LINE: Final = StepLine(r"seconds ([0-9.]+)")
"""Where a script's log says how long a step took."""

SMOKE: Final = ("--train_steps", str(SMOKE_STEPS), "--smoke")
"""Arguments of a smoke run: it needs no data, no tokenizer and no folder."""


def production() -> tuple[str, ...]:
    """Return the arguments of a real run, each a variable of the user's."""
    named = (part for name in VARIABLES for part in (f"--{name.lower()}", f"${{{name}}}"))
    return (*named, "--output_dir", "${OUTPUT_DIR}")


def where_set(method: str, piped: bool = False) -> dict[str, tuple[str, ...]]:
    """Return them, and weights to start from where these may be left out and a script reads them."""
    return WHERE_SET | ({"CHECKPOINT": ()} if method == "full" and not piped else {})


def defaults(run: TrainingRun) -> dict[str, str]:
    """Return the variables with the values of the run."""
    return run.defaults(*VARIABLES)


LOOP = '''

STOP = []


def arguments():
    """Read how long to train, at which rate, and when to log, evaluate and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train_steps", type=int, required=True)
    parser.add_argument("--output_dir", help="where checkpoints go, and where the last one is looked for")
    parser.add_argument("--smoke", action="store_true", help="made-up data, and nothing is saved")
    parser.add_argument("--learning_rate", type=float, default=1e-4)
    parser.add_argument("--min_learning_rate", type=float, default=1e-5)
    parser.add_argument("--warmup_steps", type=int, default=0)
    parser.add_argument("--decay_steps", type=int, help="the step of the lowest rate; the last one if unset")
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--log_interval", type=int, default=1)
    parser.add_argument("--eval_interval", type=int, default=1000)
    parser.add_argument("--eval_steps", type=int, default=0, help="batches of an evaluation")
    parser.add_argument("--save_interval", type=int, default=1000)
    parser.add_argument("--timeout_minutes", type=float, default=10)
    parser.add_argument("--minutes", type=float, help="minutes after which to save and stop")
    parser.add_argument("--tensorboard_dir")
    parser.add_argument("--wandb_project")
    more_arguments(parser)
    options = parser.parse_args()
    if not options.smoke and not options.output_dir:
        parser.error("--output_dir, where checkpoints go, or --smoke")
    for name in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(name, lambda number, frame: STOP.append(number))
    return options


def rate_at(options, step):
    """Return the learning rate of a step, the first one being 1: up in a line, down in a cosine."""
    if step <= options.warmup_steps:
        return options.learning_rate * step / options.warmup_steps
    last = options.decay_steps or options.train_steps
    passed = min(1.0, (step - options.warmup_steps) / max(1, last - options.warmup_steps))
    depth = options.learning_rate - options.min_learning_rate
    return options.min_learning_rate + depth * (1 + math.cos(math.pi * passed)) / 2


def over_ranks(value, device, operation):
    """Return a number summed, or compared, over all ranks."""
    number = torch.tensor(float(value), device=device)
    if torch.distributed.is_initialized():
        torch.distributed.all_reduce(number, op=operation)
    return number.item()


def must_stop(options, began, device):
    """Return on every rank whether any was told to stop, or the time is up."""
    late = options.minutes is not None and time.monotonic() - began > 60 * options.minutes
    return over_ranks(bool(STOP) or late, device, torch.distributed.ReduceOp.MAX) > 0


def of_devices(device):
    """Return what a log says of the devices at the end: the most that one of them held, or what they were."""
    kind = torch.device(device).type
    if kind != "cuda":
        return f"devices: {kind}"
    held = torch.cuda.max_memory_reserved() / 2**30
    return f"peak memory {over_ranks(held, device, torch.distributed.ReduceOp.MAX):.2f} GiB reserved"


def writer_of(options):
    """Return what takes the numbers of a step beside the log: TensorBoard and Weights & Biases, if asked."""
    takers = []
    if options.tensorboard_dir:
        from torch.utils.tensorboard import SummaryWriter

        board = SummaryWriter(options.tensorboard_dir)
        takers.append(lambda step, values: [board.add_scalar(*pair, step) for pair in values.items()])
    if options.wandb_project:
        import wandb

        wandb.init(project=options.wandb_project, resume="allow")
        takers.append(lambda step, values: wandb.log(values, step=step))
    return lambda step, values: [taker(step, values) for taker in takers]


def train(options, first, step, evaluate, save, leads, device):
    """Train after step ``first``; log, evaluate and save when due, and when told to stop save and return.

    ``step`` runs an optimizer step at a rate and returns the loss of this rank; ``evaluate`` returns a loss,
    or is None; ``save`` writes a checkpoint under the number of a step.
    """
    write = writer_of(options) if leads and not options.smoke else None
    began, total, logged = time.monotonic(), torch.distributed.ReduceOp.SUM, first
    ranks = over_ranks(1, device, total)
    start = time.perf_counter()
    for number in range(first + 1, options.train_steps + 1):
        rate = rate_at(options, number)
        loss = float(step(rate))
        if number % options.log_interval == 0 or number == options.train_steps:
            loss = over_ranks(loss, device, total) / ranks
            seconds, logged = (time.perf_counter() - start) / (number - logged), number
            if leads:
                print(f"step {number} loss {loss:.4f} rate {rate:.3e} seconds {seconds:.3f}", flush=True)
            if write:
                write(number, {"loss": loss, "learning_rate": rate, "seconds": seconds})
            start = time.perf_counter()
        if evaluate and number % options.eval_interval == 0:
            loss = over_ranks(float(evaluate()), device, total) / ranks
            if leads:
                print(f"step {number} evaluation loss {loss:.4f}", flush=True)
            if write:
                write(number, {"evaluation_loss": loss})
            logged, start = number, time.perf_counter()
        stop = must_stop(options, began, device)
        due = stop or number % options.save_interval == 0 or number == options.train_steps
        if due and not options.smoke:
            save(number)
            logged, start = number, time.perf_counter()
        if stop:
            if leads:
                print(f"stopped after step {number}; the next start goes on from there", flush=True)
            break
    devices = of_devices(device)
    if leads:
        print(devices, flush=True)


def keep_reader(folder, reader):
    """Write where this rank's reader stands beside a checkpoint."""
    folder = Path(folder) / "readers"
    folder.mkdir(parents=True, exist_ok=True)
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    (folder / f"{rank}.json").write_text(json.dumps(reader.state()))


def restore_reader(folder, reader):
    """Go on where this rank's reader stood, or the first rank's where there was none."""
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    for name in (f"{rank}.json", "0.json"):
        if (path := Path(folder) / "readers" / name).exists():
            return reader.restore(json.loads(path.read_text()))
'''
"""The options and the loop; a script adds ``more_arguments`` for options of its own."""
