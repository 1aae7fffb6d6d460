"""The whole-number arithmetic of a shell script."""

from __future__ import annotations

import ast
import re
from typing import Final

_ARITHMETIC: Final = re.compile(r"[\d\s+*/()%-]{1,200}")


def arithmetic(text: str) -> str:
    """Return the value of whole-number arithmetic, or it as a shell script would write it.

    Examples
    --------
    >>> arithmetic("4 * 2"), arithmetic("512/${GPUS}")
    ('8', '$((512/${GPUS}))')
    """
    whole = f"$(({text}))"
    if not _ARITHMETIC.fullmatch(text) or "**" in text:
        return whole
    try:
        return str(_number(ast.parse(text.strip(), mode="eval").body))
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return whole


def _number(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(node.operand)
    if isinstance(node, ast.BinOp):
        left, right = _number(node.left), _number(node.right)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Div | ast.FloorDiv):
            return left // right
        if isinstance(node.op, ast.Mod):
            return left % right
    raise ValueError("not whole-number arithmetic")
