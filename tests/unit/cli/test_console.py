"""What the commands print, and their exit status."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from millrace import console
from millrace.__main__ import main
from millrace.sql_client import SqlResult, answer


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    text = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=text, width=100, highlight=False))
    return text


@pytest.fixture
def own_stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stack of this test's own, where nothing runs."""
    monkeypatch.setenv("MILLRACE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("MILLRACE_BROKER", "127.0.0.1:1")


def test_rows_with_null_and_markup_are_shown_as_they_are(shown: io.StringIO) -> None:
    columns = (("n", "INT", 4), ("text", "VARCHAR", 16))
    console.print_answer(SqlResult(columns, ((1, "[red]x"), (None, None))))
    lines = shown.getvalue()
    assert "[red]x" in lines
    assert "NULL" in lines
    assert "2 rows" in lines


def test_a_statement_without_rows_tells_how_many_it_touched(shown: io.StringIO) -> None:
    console.print_answer(SqlResult((("affected_rows", "INT", 4),), ((3,),)))
    assert shown.getvalue() == "OK, 3 rows affected\n"


def test_a_note_is_told_in_place_of_a_number(shown: io.StringIO) -> None:
    body = {"code": 0, "column_meta": [["affected_rows", "INT", 4]], "data": [[0]], "rows": 1}
    console.print_answer(answer(body | {"note": "the rows were deleted, but could not be counted: [red]"}))
    assert shown.getvalue() == "OK: the rows were deleted, but could not be counted: [red]\n"


@pytest.mark.usefixtures("own_stack")
def test_status_of_nothing(shown: io.StringIO) -> None:
    assert main(["status"]) == 1
    assert shown.getvalue().count("not running") == 5


@pytest.mark.usefixtures("own_stack")
def test_down_of_nothing_is_no_error() -> None:
    assert main(["down"]) == 0


def test_an_expected_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MILLRACE_GATEWAY_PORT", "many")
    monkeypatch.setattr(console, "err", Console(stderr=True, width=200))
    assert main(["status"]) == 1
    said = capsys.readouterr().err
    assert said.strip() == "error: MILLRACE_GATEWAY_PORT must be a port from 1 to 65535, not 'many'"


def test_the_prompt_runs_whole_statements_and_fails_as_a_script(
    monkeypatch: pytest.MonkeyPatch, shown: io.StringIO
) -> None:
    asked: list[tuple[str, str | None]] = []

    class Gateway:
        """Takes statements as the client does, and refuses one."""

        def execute(self, sql: str, db: str | None = None) -> SqlResult:
            asked.append((sql, db))
            return SqlResult((("n", "INT", 4),), ((len(asked),),))

    monkeypatch.setattr("sys.stdin", io.StringIO("use d1;\n\nselect 1,\n 2;\nselect 3;\nquit\nselect 4;\n"))
    assert console.prompt(Gateway(), None) == 0  # type: ignore[arg-type]
    assert asked == [("select 1,\n 2", "d1"), ("select 3", "d1")]
    assert shown.getvalue().count("1 row\n") == 2
