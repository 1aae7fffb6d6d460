"""One tree of errors: each says where, what, and what would do, and knows its exit code."""

from __future__ import annotations

from planner import errors
from planner.errors import InputError, PlannerError, Problem, nearest
from tests.cases import every

CONTRACT_EXIT_CODES = {
    "InputError": 2,
    "UnsupportedPlan": 1,
    "Infeasible": 1,
    "CheckFailed": 1,
    "SolverError": 70,
}


def tree(root: type[PlannerError]) -> set[type[PlannerError]]:
    return {root}.union(*(tree(child) for child in root.__subclasses__()))


def test_every_error_exits_as_the_contract_says() -> None:
    found = {kind.__name__: kind.exit_code for kind in tree(PlannerError) if kind is not PlannerError}
    assert CONTRACT_EXIT_CODES.items() <= found.items()
    assert set(found.values()) <= {1, 2, 70}


def test_the_tree_drawn_at_the_top_is_the_real_one() -> None:
    drawn = {line.split()[1] for line in (errors.__doc__ or "").splitlines() if line[:2] in {"├─", "└─"}}
    defined = {kind.__name__ for kind in tree(PlannerError) if kind.__module__ == "planner.errors"}
    assert drawn == defined - {"PlannerError"}


def test_a_problem_names_place_value_expectation_and_the_nearest_choice() -> None:
    problem = Problem("profile.yaml: memory", "80 (no unit)", 'a size such as "80 GiB"', "80 GiB")
    assert str(problem) == (
        'profile.yaml: memory: found 80 (no unit); expected a size such as "80 GiB"; nearest: 80 GiB'
    )


def test_a_problem_without_a_near_choice_offers_none() -> None:
    assert str(Problem("--tp", "0", "at least 1")) == "--tp: found 0; expected at least 1"


def test_all_problems_of_an_input_are_told_at_once() -> None:
    problems = [Problem("--tp", "0", "at least 1"), Problem("--pp", "-3", "at least 1")]
    error = InputError(iter(problems))
    assert error.problems == tuple(problems)
    assert str(error).splitlines() == [str(problem) for problem in problems]


def test_a_single_problem_needs_no_list() -> None:
    problem = Problem("--tp", "0", "at least 1")
    assert InputError(problem).problems == (problem,)


@every(
    ("word", "choices", "first"),
    [
        ("llama3-70", ["llama2-70b", "llama3-70b", "gpt3-175b"], "llama3-70b"),
        ("DGX-H10", ["dgx-a100-80gb", "dgx-h100"], "dgx-h100"),
        ("dgx-h100", ["DGX-H100", "other"], "DGX-H100"),
    ],
)
def test_the_nearest_spelling_comes_first(word: str, choices: list[str], first: str) -> None:
    assert nearest(word, choices).split(", ")[0] == first


def test_nothing_near_is_nothing() -> None:
    assert nearest("zzzzz", ["llama3-70b"]) == ""
    assert nearest("llama", []) == ""
