#!/bin/sh
# Install the built wheel as a user would, into an empty environment, and use it from an empty folder.
set -eu
root=$(pwd)
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
"$1" -m venv "$empty/venv"
"$empty/venv/bin/python" -m pip install -q -c "$root/constraints.txt" "$root"/dist/parallelism_planner-*.whl
cd "$empty"
venv/bin/planner --help >help.txt
venv/bin/python -m planner --help >module-help.txt
venv/bin/planner models list --format json >models.json
venv/bin/planner hardware list --format json >hardware.json
venv/bin/planner search llama3-8b --hardware dgx-h100 --gpus 8 --seq-len 4096 --global-batch 64 --format json >search.json
venv/bin/python -c '
import importlib.util, json
assert importlib.util.find_spec("torch") is None, "torch came along"
assert json.load(open("models.json")) and json.load(open("hardware.json")), "the wheel finds no model or no machine"
assert json.load(open("search.json"))["plans"], "no plan was found"
'
echo "installed from the wheel: the zoo and the profiles are found, torch is not needed"
