"""Graphs of layers cut into stages: against every cut there is, limits, files, and what its authors print."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from planner.errors import Infeasible, InputError
from planner.inputs.layer_graph import GraphLayer, LayerGraph, load_graph
from planner.inputs.record import Sourced
from planner.search.graph.cut import best_cut, ordered_cut
from planner.search.graph.problem import CutProblem, border_bytes, cut_stages, slowest
from tests.cases import every
from tests.cli.command import planner


def layer(name: str, seconds: float, weights: float, kept: float, after: dict[str, float]) -> GraphLayer:
    return GraphLayer(
        name=name, forward=Sourced(seconds / 3), backward=Sourced(2 * seconds / 3), weights=Sourced(weights),
        kept=Sourced(kept), after={source: Sourced(nbytes) for source, nbytes in after.items()},
    )  # fmt: skip


def random_graph(seed: int, layers: int) -> LayerGraph:
    dice = np.random.default_rng(seed)
    made: list[GraphLayer] = []
    for place in range(layers):
        earlier = [one.name for one in made if dice.uniform() < 2.0 / layers]
        reads = {name: float(dice.integers(1, 9)) for name in earlier}
        made.append(layer(f"l{place}", float(dice.integers(1, 20)), *dice.integers(1, 9, 2), reads))
    return LayerGraph(layers=tuple(made))


def all_cuts(problem: CutProblem) -> float:
    """The least slowest stage over every assignment that no reader is ahead of."""
    results, best = problem.graph.results(), np.inf
    for stages in itertools.product(range(problem.stages), repeat=len(problem.graph.layers)):
        if all(stages[source] <= stages[reader] for source, _, readers in results for reader in readers):
            best = min(best, slowest(problem, stages))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_a_cut_is_the_best_of_all(seed: int) -> None:
    graph = random_graph(seed, 8)
    total = sum(float(one.weights) + float(one.kept) for one in graph.layers)
    problem = CutProblem(graph, 3, 4, [np.inf, total * 0.8][seed % 2], [np.inf, 2.0][seed // 2 % 2])
    wanted = all_cuts(problem)
    if not np.isfinite(wanted):
        with pytest.raises(Infeasible):
            best_cut(problem)
        return
    found = best_cut(problem)
    assert found.proved
    assert slowest(problem, found.stages) == pytest.approx(wanted, rel=2e-4)
    assert found.bound <= wanted * (1 + 1e-6)


def test_branches_may_lie_in_another_order_than_the_file_has() -> None:
    """Four towers of 4, 5, 1 and 2 seconds: in order 4 and 8 at best, in any order 6 and 6."""
    towers = tuple(layer(f"tower{time}", time, 0, 0, {}) for time in (4, 5, 1, 2))
    problem = CutProblem(LayerGraph(layers=towers), 2, 2, np.inf, np.inf)
    known = ordered_cut(problem)
    assert known is not None
    assert slowest(problem, known) == pytest.approx(8.0)
    assert slowest(problem, best_cut(problem).stages) == pytest.approx(6.0)


def chain_of(layers: int, nbytes: float, weights: float = 0.0, kept: float = 0.0) -> LayerGraph:
    return LayerGraph(
        layers=tuple(
            layer(f"l{place}", 1.0, weights, kept, {f"l{place - 1}": nbytes} if place else {})
            for place in range(layers)
        )
    )


@pytest.mark.parametrize(("layers", "stages"), [(32, 8), (64, 8), (112, 4)])
def test_a_pipeline_sends_less_by_the_number_of_layers(layers: int, stages: int) -> None:
    """GNNPipe (arXiv:2308.10087, abstract) cuts the volume "by a factor of the number of GNN layers".

    Graph parallelism sends every layer's embeddings of vertices that other parts read, at most to all other
    parts; a pipeline all vertices' once over each border. Measured were up to 22.89 times, 8.69 on average,
    where fewer vertices have copies.
    """
    vertices = 7.0
    problem = CutProblem(chain_of(layers, vertices), stages, 4, np.inf, 1e3)
    sent = sum(border_bytes(problem, best_cut(problem).stages))
    most = layers * vertices * (stages - 1) / sent
    assert most == pytest.approx(layers)
    # What was measured takes 5 and 1.9 copies of a vertex on eight parts of 32 layers: fewer than seven.
    if layers == 32:
        for measured in (22.89, 8.69):
            copies = measured * sent / (layers * vertices)
            assert 1.0 < copies < stages - 1


def test_activations_in_flight_move_layers_to_later_stages() -> None:
    """Under 1F1B the first of four stages keeps four micro-batches, the last one."""
    problem = CutProblem(chain_of(12, 0.0, kept=1.0), 4, 8, 9.0, np.inf)
    found = cut_stages(problem, best_cut(problem).stages)
    assert all(one.held <= 9.0 for one in found)
    assert len(found[0].layers) == 2
    assert max(len(one.layers) for one in found) == 4
    few = CutProblem(problem.graph, 4, 1, 9.0, np.inf)
    assert [len(one.layers) for one in cut_stages(few, best_cut(few).stages)] == [3, 3, 3, 3]


def test_a_result_that_two_layers_read_crosses_once_and_passes_through() -> None:
    graph = LayerGraph(
        layers=(
            layer("a", 1, 0, 0, {}), layer("b", 1, 0, 0, {"a": 4}), layer("c", 1, 0, 0, {"a": 4, "b": 2}),
        )
    )  # fmt: skip
    problem = CutProblem(graph, 3, 2, np.inf, 2.0)
    assert border_bytes(problem, (0, 1, 2)) == [4.0, 6.0]
    assert [one.messages for one in cut_stages(problem, (0, 1, 2))] == [2.0, 5.0, 3.0]


def test_a_hundred_layers_are_cut_in_a_second() -> None:
    graph = random_graph(3, 100)
    problem = CutProblem(graph, 8, 16, np.inf, 50.0)
    found = best_cut(problem, 1.0)
    known = ordered_cut(problem)
    assert known is not None
    assert slowest(problem, found.stages) <= slowest(problem, known)


ROWS = [
    {"name": "b", "forward": "1 ms", "backward": "2 ms", "kept": "1 MB", "after": {"a": "3 MB"}},
    {"name": "a", "forward": "2 ms", "backward": "2 ms", "weights": "1 GB"},
]


def test_json_and_csv_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text(json.dumps({"layers": ROWS}))
    (tmp_path / "g.csv").write_text(
        "name,forward,backward,weights,kept,after\nb,1 ms,2 ms,,1 MB,a=3 MB\na,2 ms,2 ms,1 GB,,\n"
    )
    read = [load_graph(tmp_path / name) for name in ("g.json", "g.csv")]
    assert read[0] == read[1]
    assert [one.name for one in read[0].layers] == ["a", "b"]
    assert float(read[0].layers[1].after["a"]) == 3e6


@every(
    ("rows", "told"),
    [
        ([ROWS[0]], "a layer of the file"),
        ([ROWS[1], ROWS[1]], "a name of its own"),
        ([ROWS[1] | {"after": {"a": "1 MB"}}], "circle"),
        ([{"name": "a", "forward": "2", "backward": "1 s"}], "no unit"),
        ([{"name": "a", "forward": "2 s"}], "backward"),
        ([{"name": "a", "forward": "0 s", "backward": "0 s"}], "time"),
    ],
)
def test_faults_of_a_file_are_told(rows: list[dict[str, object]], told: str, tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_text(json.dumps({"layers": rows}))
    with pytest.raises(InputError, match=told):
        load_graph(path)


@every("text", ["name,forwards\n", "name,forward,backward,after\na,1 s,1 s,b\n", "name\na,b\n"])
def test_faults_of_a_table_are_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "g.csv"
    path.write_text(text)
    with pytest.raises(InputError):
        load_graph(path)


def test_the_command_cuts_proves_and_tells_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_text(json.dumps({"layers": ROWS}))
    told = planner("partition", str(path), "--stages", "2", "--link", "1 GB/s", "--format", "json").json
    assert told["schema"] == "planner/partition/1"
    assert told["optimality"]["proved"]
    assert [stage["layers"] for stage in told["stages"]] == [["a"], ["b"]]
    assert told["slowest_s"] == pytest.approx(4e-3 + 3e-3)
    assert told["step_at_least_s"] == pytest.approx(7e-3 + 6e-3 + 7e-3)
    assert planner("partition", str(path), "--stages", "2", "--memory-limit", "0.5").code == 1
    wrong = planner("partition", str(path), "--stages", "3", "--link", "fast")
    assert wrong.code == 2
    assert all(option in wrong.err for option in ("--stages", "--link"))
