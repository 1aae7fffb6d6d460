"""What a Python configuration says in plain values: read by its syntax tree, never run."""

from __future__ import annotations

import ast
from typing import Any

from planner.runtimes.imports.literals import tree_of
from planner.runtimes.imports.python_values import Unread

Fields = dict[str, Any]


def python_fields(text: str) -> Fields:
    r"""Return the keyword arguments and assigned attributes of a module as dotted names with plain values.

    An argument that is a call gives its own keywords below its name, a name stands for what was assigned to
    it, a class in ``run.Config(Class, ...)`` for the call itself. What is no plain value is its source text;
    so is what is set under a condition or in a loop, unless it was the same before.
    Nothing is returned for text that is no Python.

    Examples
    --------
    >>> python_fields("c = Config(model=Model(tp=2))\nc.model.pp = 4\n")
    {'Config.model': 'Model', 'Config.model.tp': 2, 'Config.model.pp': 4}
    """
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    reader = _Reader()
    try:
        reader.body(tree.body)
    except RecursionError:
        return {}
    return reader.fields


class _Reader:
    """Goes through the statements in their order; of a value that is said twice the last counts."""

    def __init__(self) -> None:
        self.fields: Fields = {}
        self.names: dict[str, str] = {}
        self.values: dict[str, Any] = {}
        self.doubt = ""

    def body(self, statements: list[ast.stmt], doubt: str = "") -> None:
        for statement in statements:
            self.doubt = doubt
            inner: list[ast.stmt] = []
            for part in ("body", "orelse", "finalbody"):
                inner += getattr(statement, part, [])
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                for target in targets:
                    if statement.value is not None:
                        self.assign(target, statement.value)
            elif isinstance(statement, ast.Return | ast.Expr) and isinstance(statement.value, ast.Call):
                self.call(statement.value, _name(statement.value))
            if not isinstance(statement, ast.ClassDef):
                self.body(inner, doubt or _condition(statement))

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            if isinstance(value, ast.Call):
                name = _name(value)
                self.names[target.id] = name
                self.call(value, name)
            else:
                self.values[target.id] = self.value(value)
        elif isinstance(target, ast.Attribute):
            place = ast.unparse(target).split(".")
            root = self.names.get(place[0], place[0])
            self.put(".".join((root, *place[1:])), value)

    def call(self, node: ast.Call, place: str) -> None:
        """Keep the keywords of a call below its place, and a first plain argument as its value."""
        if node.args and isinstance(node.args[0], ast.Constant):
            self.fields[place if "." not in place else f"{place}."] = node.args[0].value
        for keyword in node.keywords:
            if keyword.arg is not None:
                self.put(f"{place}.{keyword.arg}", keyword.value)

    def put(self, place: str, node: ast.expr) -> None:
        if isinstance(node, ast.Call):
            self.fields[place] = Unread(_name(node))
            self.call(node, place)
        elif isinstance(node, ast.Name) and node.id in self.names:
            kind = self.names[node.id]
            below = {key: value for key, value in self.fields.items() if key.startswith(f"{kind}.")}
            self.fields[place] = kind
            if kind in self.fields:
                self.fields[f"{place}."] = self.fields[kind]
            self.fields |= {f"{place}{key[len(kind) :]}": value for key, value in below.items()}
        else:
            value = self.value(node)
            same = place in self.fields and self.fields[place] == value
            self.fields[place] = Unread(f"{value} {self.doubt}") if self.doubt and not same else value

    def value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name) and node.id in self.values:
            return self.values[node.id]
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, RecursionError, MemoryError):
            return Unread(ast.unparse(node))


def _condition(statement: ast.stmt) -> str:
    """Return the condition under which the body of a statement runs; empty where it always does."""
    if isinstance(statement, ast.If) and not ast.unparse(statement.test).startswith("__name__"):
        return f"if {ast.unparse(statement.test)}"
    return "in a loop" if isinstance(statement, ast.For | ast.While) else ""


def _name(node: ast.Call) -> str:
    """Return the last name of what is called, or of what ``run.Config``, ``Partial`` or ``partial`` makes."""
    own = ast.unparse(node.func).rpartition(".")[2]
    if own in ("Config", "Partial", "partial") and node.args and not isinstance(node.args[0], ast.Constant):
        return ast.unparse(node.args[0]).rpartition(".")[2]
    if own == "Config" and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) != "Trainer":
        return ast.unparse(node.func.value).rpartition(".")[2]
    return own
