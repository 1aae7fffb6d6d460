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
venv/bin/python -c '
import importlib.util, json
assert importlib.util.find_spec("torch") is None, "torch came along"
assert json.load(open("models.json")) and json.load(open("hardware.json")), "the wheel finds no model or no machine"
'
echo "installed from the wheel: the zoo and the profiles are found, torch is not needed"
