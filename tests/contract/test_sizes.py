"""Modules and functions stay small enough to be read in one go."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from .statements import statements

ROOT = Path(__file__).parents[2]
MODULE_LINES = 400
FUNCTION_LINES = 50
FOLDERS = ("libs", "trigger-svc", "calc-svc", "notify-svc", "api-gateway", "bench", "tests", "examples")
MODULES = sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))


def too_long(source: str) -> Iterator[str]:
    """A line for a module of more than 400 lines, and for each function in it of more than 50, without its
    decorators and docstring (which may explain as much as it needs to)."""
    lines = len(source.splitlines())
    if lines > MODULE_LINES:
        yield f"{lines} lines"
    for node in statements(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            first = node.body[0]
            if ast.get_docstring(node) is not None:
                size -= (first.end_lineno or first.lineno) - first.lineno + 1
            if size > FUNCTION_LINES:
                yield f"line {node.lineno}: {node.name} has {size} lines"


def test_modules_and_functions_are_short() -> None:
    found = [f"{file.relative_to(ROOT)}: {what}" for file in MODULES for what in too_long(file.read_text())]
    assert found == []


def test_the_check_finds_what_is_too_long() -> None:
    assert MODULES
    long = "def f():\n    '''Doc.\n\n    More.'''\n" + "    x = 1\n" * 50
    assert list(too_long(long)) == ["line 1: f has 51 lines"]
    assert list(too_long("async def g():\n" + "    x = 1\n" * 49)) == []
    assert list(too_long("x = 1\n" * 401)) == ["401 lines"]


def test_no_statement_is_overlooked() -> None:
    source = """
try:
    with a: import b
except A:
    for x in y: c = lambda: 1
    else: d = 1 if x else 2
else:
    while x: pass
finally:
    match x:
        case [1]:
            async def f():
                if x: import e
                elif y: return 1
                else: raise g
        case _: class_ = [h for h in y]
class I:
    def j(self): yield 1
"""
    every = [ast.dump(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    found = [ast.dump(node) for node in statements(source) if isinstance(node, ast.stmt)]
    assert sorted(found) == sorted(every)
