"""What a Python program would build, followed by its syntax tree: nothing of it is run.

Names, attributes, whole-number arithmetic, functions of the same file and the defaults of ``argparse`` are
followed. What is not known stays its source text; so does what is set under a condition that is not known.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Final

from planner.runtimes.imports.literals import tree_of
from planner.runtimes.imports.python_values import (
    COMPARED,
    COUNTED,
    Made,
    Unread,
    are_equal,
    as_read,
    followed_method,
    is_open,
    sign_of,
)

STEPS, DEPTH, LONGEST = 20_000, 12, 10**12
"""At most so many expressions, calls within calls, and as great a number."""

CHANGES: Final = ("set_", "configure_", "apply_", "override_", "update_")
"""How functions begin that give back what they were given."""


class Ended(Exception):
    """The program is longer than is followed."""


def objects(text: str) -> list[Made]:
    r"""Return what a program makes, in its order; nothing where it is no Python.

    A program that starts nothing by itself is followed into its functions, in their order.

    Examples
    --------
    >>> [made.fields for made in objects("def f(n=2): return Mesh(tp=n)\nm = f(4)\nm.pp = 8 // 2\n")]
    [{'tp': 4, 'pp': 4}]
    """
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    program = _Program()
    try:
        program.body(tree.body, program.names)
        for function in list(program.functions.values()):
            if function.name not in program.called:
                program.inline(function, [], {})
    except (Ended, _Returned, RecursionError):
        pass
    return program.made


SHOWN: Final = 200
"""Characters of a value in the words that tell of it: values made of values would double them each time."""


def _words(value: Any) -> str:
    """Return a value as words tell of it."""
    return type(value).__name__ if isinstance(value, list | tuple | dict | set) else str(value)[:SHOWN]


class _Returned(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class _Program:
    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.functions: dict[str, ast.FunctionDef] = {}
        self.called: set[str] = set()
        self.made: list[Made] = []
        self.defaults: dict[str, Any] = {}
        self.doubts: list[str] = []
        self.steps = self.depth = 0

    def body(self, statements: list[ast.stmt], scope: dict[str, Any]) -> None:
        for statement in statements:
            handler = getattr(self, f"do_{type(statement).__name__}", None)
            if handler is not None:
                handler(statement, scope)

    def do_FunctionDef(self, node: ast.FunctionDef, scope: dict[str, Any]) -> None:
        self.functions[node.name] = node

    def do_ImportFrom(self, node: ast.ImportFrom, scope: dict[str, Any]) -> None:
        for name in node.names:
            scope[name.asname or name.name] = Unread(f"{node.module}.{name.name}")

    def do_Return(self, node: ast.Return, scope: dict[str, Any]) -> None:
        value = self.value(node.value, scope) if node.value is not None else None
        raise _Returned(value)

    def do_Expr(self, node: ast.Expr, scope: dict[str, Any]) -> None:
        self.value(node.value, scope)

    def do_Assign(self, node: ast.Assign, scope: dict[str, Any]) -> None:
        value = self.value(node.value, scope)
        for target in node.targets:
            self.put(target, value, scope)

    def do_AnnAssign(self, node: ast.AnnAssign, scope: dict[str, Any]) -> None:
        if node.value is not None:
            self.put(node.target, self.value(node.value, scope), scope)

    def do_AugAssign(self, node: ast.AugAssign, scope: dict[str, Any]) -> None:
        self.put(node.target, self.value(ast.BinOp(as_read(node.target), node.op, node.value), scope), scope)

    def do_With(self, node: ast.With, scope: dict[str, Any]) -> None:
        self.body(node.body, scope)

    def do_Try(self, node: ast.Try, scope: dict[str, Any]) -> None:
        self.body([*node.body, *node.orelse, *node.finalbody], scope)

    def do_For(self, node: ast.For | ast.While, scope: dict[str, Any]) -> None:
        self.doubtful(node.body, "in a loop", scope)

    do_While = do_For

    def do_If(self, node: ast.If, scope: dict[str, Any]) -> None:
        test = self.value(node.test, scope)
        if is_open(test):
            self.doubtful(node.body, f"if {_words(test)}", scope)
            self.doubtful(node.orelse, f"if not {_words(test)}", scope)
        else:
            self.body(node.body if test else node.orelse, scope)

    def doubtful(self, statements: list[ast.stmt], doubt: str, scope: dict[str, Any]) -> None:
        """Follow what may not run; where it gives a value back, what comes after it may not run either."""
        known = len(self.doubts)
        self.doubts.append(doubt)
        try:
            self.body(statements, scope)
        except _Returned:
            del self.doubts[known:]
            self.doubts.append(f"unless {doubt.removeprefix('if ')}")
        else:
            del self.doubts[known:]

    def put(self, target: ast.expr, value: Any, scope: dict[str, Any]) -> None:
        """Assign; under a condition that is not known a plain value is not known either."""
        if isinstance(target, ast.Tuple | ast.List):
            parts = value if isinstance(value, list | tuple) and len(value) == len(target.elts) else None
            for at, part in enumerate(target.elts):
                self.put(part, parts[at] if parts is not None else Unread(ast.unparse(part)), scope)
            return
        place, name = scope, ""
        if isinstance(target, ast.Name):
            name = target.id
        elif isinstance(target, ast.Attribute):
            owner, name = self.owner(target.value, scope), target.attr
            if not isinstance(owner, Made):
                return
            place = owner.fields
        elif isinstance(target, ast.Subscript):
            owner, key = self.value(target.value, scope), self.value(target.slice, scope)
            if not isinstance(owner, dict) or isinstance(key, Unread) or not isinstance(key, str):
                return
            place, name = owner, key
        if name:
            same = name in place and (place[name] is value or are_equal(place[name], value))
            doubted = self.doubts and not same and not isinstance(value, Made)
            place[name] = Unread(f"{_words(value)} {_words(self.doubts[-1])}") if doubted else value

    def owner(self, node: ast.expr, scope: dict[str, Any]) -> Any:
        """Return what an attribute is set of; a part of a made thing that nobody set before is made here."""
        if not isinstance(node, ast.Attribute):
            return self.value(node, scope)
        above = self.owner(node.value, scope)
        if isinstance(above, Made):
            return above.fields.setdefault(node.attr, Made(""))
        return above

    def value(self, node: ast.expr, scope: dict[str, Any]) -> Any:
        self.steps += 1
        if self.steps > STEPS:
            raise Ended
        handler = getattr(self, f"of_{type(node).__name__}", None)
        found = handler(node, scope) if handler is not None else None
        return found if handler is not None else Unread(ast.unparse(node))

    def of_Constant(self, node: ast.Constant, scope: dict[str, Any]) -> Any:
        return node.value

    def of_Name(self, node: ast.Name, scope: dict[str, Any]) -> Any:
        if node.id == "__name__":
            return "__main__"
        return scope.get(node.id, self.names.get(node.id, Unread(node.id)))

    def of_Attribute(self, node: ast.Attribute, scope: dict[str, Any]) -> Any:
        owner = self.value(node.value, scope)
        if isinstance(owner, Made) and owner.kind.endswith(("parse_args", "parse_known_args")):
            return self.defaults.get(node.attr, Unread(ast.unparse(node)))
        if isinstance(owner, Made):
            return owner.fields.get(node.attr, Unread(ast.unparse(node)))
        return Unread(f"{owner}.{node.attr}" if isinstance(owner, Unread) else ast.unparse(node))

    def of_Subscript(self, node: ast.Subscript, scope: dict[str, Any]) -> Any:
        owner, key = self.value(node.value, scope), self.value(node.slice, scope)
        try:
            known = isinstance(owner, dict | list | tuple) and not isinstance(key, Unread)
            return owner[key] if known else Unread(ast.unparse(node))
        except (KeyError, IndexError, TypeError):
            return Unread(ast.unparse(node))

    def of_List(self, node: ast.List | ast.Tuple, scope: dict[str, Any]) -> Any:
        return [self.value(part, scope) for part in node.elts]

    of_Tuple = of_List

    def of_Dict(self, node: ast.Dict, scope: dict[str, Any]) -> Any:
        pairs = [(key, value) for key, value in zip(node.keys, node.values, strict=True) if key is not None]
        known = [(self.value(key, scope), self.value(value, scope)) for key, value in pairs]
        return {key: value for key, value in known if isinstance(key, str | int)}

    def of_IfExp(self, node: ast.IfExp, scope: dict[str, Any]) -> Any:
        test = self.value(node.test, scope)
        if is_open(test):
            return Unread(ast.unparse(node))
        return self.value(node.body if test else node.orelse, scope)

    def of_BoolOp(self, node: ast.BoolOp, scope: dict[str, Any]) -> Any:
        stops, found = isinstance(node.op, ast.Or), None
        for part in node.values:
            found = self.value(part, scope)
            if is_open(found):
                return Unread(ast.unparse(node))
            if bool(found) is stops:
                return found
        return found

    def of_UnaryOp(self, node: ast.UnaryOp, scope: dict[str, Any]) -> Any:
        value = self.value(node.operand, scope)
        if is_open(value):
            return Unread(ast.unparse(node))
        if isinstance(node.op, ast.Not):
            return not value
        number = isinstance(value, int | float) and isinstance(node.op, ast.USub)
        return -value if number else Unread(ast.unparse(node))

    def of_BinOp(self, node: ast.BinOp, scope: dict[str, Any]) -> Any:
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        joined = isinstance(left, list) and isinstance(right, list) and isinstance(node.op, ast.Add)
        if joined and len(left) + len(right) < STEPS:
            return left + right
        whole = all(type(part) is int and abs(part) <= LONGEST for part in (left, right))
        work = COUNTED.get(type(node.op))
        if not whole or work is None or (right == 0 and isinstance(node.op, ast.FloorDiv | ast.Mod)):
            return Unread(ast.unparse(node))
        return work(left, right)

    def of_Compare(self, node: ast.Compare, scope: dict[str, Any]) -> Any:
        parts = [self.value(part, scope) for part in (node.left, *node.comparators)]
        if len(parts) != 2 or any(is_open(part) for part in parts):
            return Unread(ast.unparse(node))
        try:
            return bool(COMPARED[sign_of(node.ops[0])](*parts))
        except TypeError:
            return Unread(ast.unparse(node))

    def of_Call(self, node: ast.Call, scope: dict[str, Any]) -> Any:
        args = [self.value(part, scope) for part in node.args if not isinstance(part, ast.Starred)]
        named = {word.arg: self.value(word.value, scope) for word in node.keywords if word.arg is not None}
        for word in node.keywords:
            more = self.value(word.value, scope) if word.arg is None else None
            named |= more if isinstance(more, dict) else {}
        own = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value, scope)
            done, result = followed_method(owner, own, args)
            if done:
                return result
        called = self.value(node.func, scope)
        if isinstance(called, Made):
            called.fields |= named
            return called
        full = str(called)
        if own == "add_argument" and args:
            self.argument(args, named)
        if own in ("int", "bool", "str") and len(args) == 1 and isinstance(args[0], int | str | Unread):
            return args[0] if own != "bool" or isinstance(args[0], Unread) else bool(args[0])
        if own in ("Config", "Partial", "partial") and args and isinstance(args[0], Unread):
            full, args = str(args[0]), args[1:]
        function = self.functions.get(full)
        if function is not None and self.depth < DEPTH:
            return self.inline(function, args, named)
        made = Made(full, tuple(args), named, doubt=self.doubts[-1] if self.doubts else "")
        self.made.append(made)
        given = [value for value in (*args, *named.values()) if isinstance(value, Made)]
        for value in given:
            value.handed.append(made)
        return given[0] if given and own.startswith(CHANGES) else made

    def argument(self, args: list[Any], named: Mapping[str, Any]) -> None:
        """Keep the default of an argument of the command line, unless it must be given."""
        if named.get("required") or not str(args[0]).startswith("-"):
            return
        flags = [str(word) for word in args if str(word).startswith("--")] or [str(args[0])]
        name = named.get("dest") or flags[0].lstrip("-").replace("-", "_")
        off = False if named.get("action") == "store_true" else None
        self.defaults[str(name)] = named.get("default", off)

    def inline(self, function: ast.FunctionDef, args: list[Any], named: Mapping[str, Any]) -> Any:
        """Follow a function of the file; an argument that nobody gives is a thing of its own."""
        self.called.add(function.name)
        own, spec = dict[str, Any](), function.args
        places = [*spec.posonlyargs, *spec.args]
        late = dict(zip([arg.arg for arg in reversed(places)], reversed(spec.defaults), strict=False))
        late |= {
            arg.arg: value
            for arg, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
            if value is not None
        }
        for at, arg in enumerate([*places, *spec.kwonlyargs]):
            if at < len(args):
                own[arg.arg] = args[at]
            elif arg.arg in named:
                own[arg.arg] = named[arg.arg]
            elif arg.arg in late:
                own[arg.arg] = self.value(late[arg.arg], self.names)
            else:
                own[arg.arg] = Made("", (), {})
        if spec.kwarg is not None:
            own[spec.kwarg.arg] = {name: value for name, value in named.items() if name not in own}
        self.depth += 1
        known = len(self.doubts)
        try:
            self.body(function.body, own)
        except _Returned as end:
            return end.value
        finally:
            self.depth -= 1
            del self.doubts[known:]
        return None
