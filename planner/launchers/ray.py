"""Ray Train: one worker for each accelerator, each running the program as torchrun would."""

from __future__ import annotations

from collections.abc import Iterable

from planner.launchers._shell import comment, placed, whence
from planner.launchers.card import PLAN
from planner.launchers.family import VARIABLES, Launcher, LauncherSettings, node_shape
from planner.runtimes.family import Command, Job, StepLine

NAME = "train_ray.py"
WHERE = "Every worker gets a copy of the files; the folders are on storage that all nodes share."

BODY = '''\
def filled(part):
    """Return a text with the user's variables put in; everything else stays as it is."""
    names = "|".join([*MEANINGS, "HERE"])
    return re.sub(r"\\$\\{(" + names + r")\\}", lambda name: os.environ[name[1]], part)


def words(part):
    """Return an argument, or of a variable that holds several all of them."""
    several = re.fullmatch(r"\\$\\{(\\w+)\\[@\\]\\}", part)
    if not several or several[1] not in MEANINGS:
        return [filled(part)]
    text = os.environ[several[1]]
    return [text] if os.path.exists(text) or os.path.exists(text + ".bin") else text.split()


def arguments():
    """Return the program and its arguments, by the kind of run."""
    parts = list(PROGRAM)
    if os.environ["SMOKE"]:
        parts += SMOKE
    else:
        parts += PRODUCTION
        parts += [part for name, those in WHERE_SET.items() if os.environ[name] for part in those]
    return [word for part in parts + CLOSING for word in words(part)]


def own_folder():
    """Return where this worker has the files: Ray puts their copy on its path, else storage is shared."""
    places = (place for place in sys.path if os.path.isfile(os.path.join(place, FILES[0])))
    return next(places, os.environ["HERE"])


def train():
    """Run the program in one worker; Ray Train has set its rank and the address of the first."""
    os.environ["HERE"] = own_folder()
    if os.path.isdir(os.environ["WORK"]):
        os.chdir(os.environ["WORK"])
    sys.path.insert(0, os.environ["HERE"])
    sys.argv = arguments()
    if MODULE:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
        runpy.run_path(sys.argv[0], run_name="__main__")


def settle():
    """Put defaults where the user says nothing, or stop at a variable that is missing."""
    os.environ.setdefault("SMOKE", DEFAULT_SMOKE)
    if os.environ["SMOKE"] == "0":
        os.environ["SMOKE"] = ""
    if os.environ["SMOKE"] and NO_SMOKE:
        sys.exit(f"There is no smoke run: {NO_SMOKE}.")
    needed = [*NEEDS, *([] if os.environ["SMOKE"] else PRODUCTION_NEEDS)]
    needed += [] if os.environ.get("STORAGE_PATH") else ["OUTPUT_DIR"]
    missing = next((name for name in needed if not os.environ.get(name)), None)
    if missing:
        sys.exit(f"Set the variable {missing} to {MEANINGS[missing]} before starting this script.")
    for name in MEANINGS:
        os.environ[name] = os.environ.get(name) or filled(DEFAULTS.get(name, ""))
    os.environ["STORAGE_PATH"] = os.environ["STORAGE_PATH"] or os.environ["OUTPUT_DIR"]


def join(here):
    """Join the cluster, which gets a copy of the files alone, without results that may lie beside them."""
    variables = ENVIRONMENT | {name: os.environ[name] for name in MEANINGS}
    environment = {"env_vars": variables | {"HERE": here, "WORK": os.getcwd()}}
    if "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ:  # ray job submit has sent a folder of its own
        ray.init(runtime_env=environment)
        return
    with tempfile.TemporaryDirectory() as copy:
        for name in FILES:
            os.makedirs(os.path.dirname(os.path.join(copy, name)), exist_ok=True)
            shutil.copy(os.path.join(here, name), os.path.join(copy, name))
        ray.init(runtime_env=environment | {"working_dir": copy})


def main():
    """Start the workers, and after a smoke run say how to hold it against the plan."""
    settle()
    here = os.path.dirname(os.path.abspath(__file__))
    join(here)
    scaling = ScalingConfig(
        num_workers=WORKERS, use_gpu=True, resources_per_worker={"GPU": 1}, placement_strategy="PACK"
    )
    run = RunConfig(name=JOB, storage_path=os.environ["STORAGE_PATH"])
    TorchTrainer(train, scaling_config=scaling, run_config=run).fit()
    if os.environ["SMOKE"]:
        print(f"Hold it against the estimate: planner mfu {os.path.join(here, PLAN)} {MEASURE}")


if __name__ == "__main__":
    main()
'''


def _listing(name: str, values: Iterable[str]) -> str:
    return f"{name} = [\n" + "".join(f"    {value!r},\n" for value in values) + "]\n"


def _mapping(name: str, values: Iterable[tuple[str, object]]) -> str:
    return f"{name} = {{\n" + "".join(f"    {key!r}: {value!r},\n" for key, value in values) + "}\n"


RUN = '    run = RunConfig(name=JOB, storage_path=os.environ["STORAGE_PATH"])\n'
AGAIN = """\
    again = FailureConfig(max_failures=int(os.environ["RESTARTS"]))
    run = RunConfig(name=JOB, storage_path=os.environ["STORAGE_PATH"], failure_config=again)
"""
"""The same with starts after a failure."""


def _literal(name: str, value: object) -> str:
    return f"{name} = {value!r}\n"


def _constants(command: Command, job: Job, settings: LauncherSettings) -> str:
    """Return what the script knows of the command."""
    nodes, ranks = node_shape(job)
    program = [part for part in placed(command) if part != "-m" or not command.module]
    line = command.step_line or StepLine("")
    known = (*command.variables, "OUTPUT_DIR", "STORAGE_PATH")
    return "".join(
        [
            _mapping("MEANINGS", ((name, VARIABLES[name]) for name in dict.fromkeys(known))),
            _listing("NEEDS", command.needs),
            _listing("PRODUCTION_NEEDS", command.production_needs),
            _mapping("DEFAULTS", command.defaults.items()),
            _literal("DEFAULT_SMOKE", "1" if settings.smoke else ""),
            _literal("NO_SMOKE", command.no_smoke if command.smoke is None else ""),
            _listing("FILES", (NAME, *(command.files or {}))),
            _literal("PLAN", PLAN),
            _literal("MEASURE", f"{line.option} {'SECONDS' if line.option == '--step-time' else 'TOKENS'}"),
            _literal("JOB", settings.name),
            _literal("WORKERS", nodes * ranks),
            _literal("MODULE", command.module),
            _mapping("ENVIRONMENT", command.environment.items()),
            _listing("PROGRAM", program),
            _listing("PRODUCTION", placed(command, command.production)),
            _listing("SMOKE", placed(command, command.smoke or ())),
            _listing("CLOSING", placed(command, command.closing)),
            _mapping(
                "WHERE_SET", ((name, [*placed(command, parts)]) for name, parts in command.where_set.items())
            ),
        ]
    )


def files(command: Command, job: Job, settings: LauncherSettings) -> dict[str, str]:
    """Return the Python script that Ray runs on its head node."""
    start = f"Start it on the head of a Ray cluster, {whence(command, settings.runtime)}: python {NAME}"
    text = (
        comment(f"{settings.title}\n{start}\n{WHERE}")
        + "import os\nimport re\nimport runpy\nimport shutil\nimport sys\nimport tempfile\n\nimport ray\n"
        + f"from ray.train import {'FailureConfig, ' * command.restarts}RunConfig, ScalingConfig\n"
        + "from ray.train.torch import TorchTrainer\n\n"
        + _constants(command, job, settings)
        + "\n\n"
        + (BODY.replace(RUN, AGAIN) if command.restarts else BODY)
    )
    return {NAME: text, **(command.files or {})}


ENTRY = Launcher(
    name="ray",
    title="Ray Train",
    cite="https://docs.ray.io/en/latest/train/getting-started-pytorch.html",
    start=f"python {NAME}",
    files=files,
    needs=("OUTPUT_DIR",),
    remote=True,
)
