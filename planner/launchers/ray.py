"""Ray Train: one worker for each accelerator, each running the program as torchrun would."""

from __future__ import annotations

from collections.abc import Iterable

from planner.launchers._family import VARIABLES, Launcher, Settings, node_shape
from planner.launchers._shell import comment, placed, whence
from planner.plan import Plan
from planner.runtimes._family import Command, Job

NAME = "train_ray.py"

BODY = '''\
def filled(part):
    """Return an argument with the user's variables put in; everything else stays as it is."""
    return re.sub(r"\\$\\{(" + "|".join([*NEEDS, "HERE"]) + r")\\}", lambda name: os.environ[name[1]], part)


def train():
    """Run the program in one worker; Ray Train has set its rank and the address of the first."""
    if os.path.isdir(os.environ["WORK"]):
        os.chdir(os.environ["WORK"])
    sys.path.insert(0, os.environ["HERE"])
    sys.argv = [filled(part) for part in PROGRAM]
    if MODULE:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
        runpy.run_path(sys.argv[0], run_name="__main__")


def main():
    """Start the workers, or say which variable is missing."""
    missing = next((name for name in NEEDS if not os.environ.get(name)), None)
    if missing:
        sys.exit(f"Set the variable {missing} to {NEEDS[missing]} before starting this script.")
    here = os.path.dirname(os.path.abspath(__file__))
    variables = ENVIRONMENT | {name: os.environ[name] for name in NEEDS} | {"HERE": here, "WORK": os.getcwd()}
    ray.init(runtime_env={"env_vars": variables})
    scaling = ScalingConfig(
        num_workers=WORKERS, use_gpu=True, resources_per_worker={"GPU": 1}, placement_strategy="PACK"
    )
    run = RunConfig(name=JOB, storage_path=os.environ["OUTPUT_DIR"])
    TorchTrainer(train, scaling_config=scaling, run_config=run).fit()


if __name__ == "__main__":
    main()
'''


def _listing(name: str, values: Iterable[str]) -> str:
    return f"{name} = [\n" + "".join(f"    {value!r},\n" for value in values) + "]\n"


def _mapping(name: str, values: Iterable[tuple[str, str]]) -> str:
    return f"{name} = {{\n" + "".join(f"    {key!r}: {value!r},\n" for key, value in values) + "}\n"


def files(command: Command, plan: Plan, job: Job, settings: Settings) -> dict[str, str]:
    """Return the Python script that Ray runs on its head node."""
    nodes, ranks = node_shape(job)
    needs = dict.fromkeys((*command.needs, "OUTPUT_DIR"))
    program = [part for part in placed(command) if part != "-m" or not command.module]
    start = f"Start it on the head of a Ray cluster, {whence(command, settings.runtime)}: python {NAME}"
    text = (
        comment(f"{settings.title}\n{start}\nThe folders are on storage that all nodes share.")
        + "import os\nimport re\nimport runpy\nimport sys\n\nimport ray\n"
        + "from ray.train import RunConfig, ScalingConfig\nfrom ray.train.torch import TorchTrainer\n\n"
        + _mapping("NEEDS", ((name, VARIABLES[name]) for name in needs))
        + f"JOB = {settings.name!r}\nWORKERS = {nodes * ranks}\nMODULE = {command.module}\n"
        + _mapping("ENVIRONMENT", command.environment.items())
        + _listing("PROGRAM", program)
        + "\n\n"
        + BODY
    )
    return {NAME: text, **(command.files or {})}


ENTRY = Launcher(
    name="ray",
    title="Ray Train",
    cite="https://docs.ray.io/en/latest/train/getting-started-pytorch.html",
    start=f"python {NAME}",
    files=files,
    needs=("OUTPUT_DIR",),
)
