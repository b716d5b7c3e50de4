"""Statements typed at a terminal: what Enter sends, what is remembered."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from millrace.console import statements
from millrace.prompt import is_whole, terminal_lines


@pytest.fixture
def keys() -> Iterator[Any]:
    with create_pipe_input() as pipe:
        yield pipe


def typed(keys: Any, text: str, history: Path) -> list[str]:
    """The statements that come of these keys; Ctrl-D ends them."""
    keys.send_text(text + "\x04")
    return list(statements(terminal_lines(lambda: "d", history, keys, DummyOutput())))


def test_enter_sends_what_ends_with_a_semicolon(keys: Any, tmp_path: Path) -> None:
    found = typed(keys, "select 1,\r 2;\r\rselect 3;\r", tmp_path / "history")
    assert found == ["select 1,\n 2", "select 3"]


def test_quit_ends_it(keys: Any, tmp_path: Path) -> None:
    assert typed(keys, "select 1;\rquit\rselect 2;\r", tmp_path / "history") == ["select 1"]


def test_ctrl_c_drops_what_is_not_sent(keys: Any, tmp_path: Path) -> None:
    assert typed(keys, "select 1,\r\x03select 2;\r", tmp_path / "history") == ["select 2"]


def test_several_statements_may_be_pasted(keys: Any, tmp_path: Path) -> None:
    pasted = "\x1b[200~select 1;\nselect 2;\x1b[201~\r"
    assert typed(keys, pasted, tmp_path / "history") == ["select 1", "select 2"]


def test_statements_are_remembered_but_no_passwords(keys: Any, tmp_path: Path) -> None:
    file = tmp_path / "history"
    typed(keys, "select 1;\rcreate user ann pass 'secret';\r", file)
    assert "select 1;" in file.read_text()
    assert "secret" not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_was_remembered_can_be_sent_again(keys: Any, tmp_path: Path) -> None:
    typed(keys, "select 1;\r", tmp_path / "history")
    with create_pipe_input() as later:
        assert typed(later, "\x1b[A\r", tmp_path / "history") == ["select 1"]


@pytest.mark.parametrize(("text", "whole"), [
    ("select 1", False), ("select 1;", True), ("select 1; ", True), ("", True), ("quit", True),
    ("EXIT;", True), ("select 'quit", False),
])  # fmt: skip
def test_what_is_whole(text: str, whole: bool) -> None:
    assert is_whole(text) is whole
