"""What people see: progress lines with their time, result tables, and statements with their answers."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from millrace.prompt import LEAVING, terminal_lines
from millrace.sql_client import Rest, SqlResult
from millrace.stack import Status
from millrace_core.errors import MillraceError

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


class TimedLines:
    """Prints lines, each with the seconds since the command began."""

    def __init__(self, console: Console = err) -> None:
        self._began = time.monotonic()
        self._console = console

    def __call__(self, line: str) -> None:
        seconds = time.monotonic() - self._began
        self._console.print(Text(f"[{seconds:6.1f} s] {line}"), soft_wrap=True)


def table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """A table of plain values: numbers are right-aligned, NULL is shown as NULL."""
    kept = [list(row) for row in rows]
    shown = Table(title=title, title_justify="left")
    for number, name in enumerate(columns):
        values = [row[number] for row in kept if row[number] is not None]
        numeric = bool(values) and all(isinstance(value, int | float) for value in values)
        shown.add_column(Text(name), justify="right" if numeric else "left")
    for row in kept:
        shown.add_row(*(Text("NULL" if value is None else str(value)) for value in row))
    return shown


def status_table(rows: Sequence[Status]) -> Table:
    """``millrace status``."""
    lines = []
    for row in rows:
        state = "ready" if row.ready else "not ready" if row.pid else "not running"
        up = f"{row.seconds:.0f} s" if row.pid else ""
        memory = f"{row.memory / 1e6:.0f} MB" if row.pid else ""
        lines.append((row.name, state, row.port, row.pid or "", up, memory, row.restarts, row.last_exit))
    columns = ("part", "state", "port", "pid", "up", "memory", "restarts", "last unexpected exit")
    return table(None, columns, lines)


def problems(rows: Sequence[Status]) -> list[str]:
    """Why parts are not ready, one line for each."""
    return [f"{row.name}: {row.problem}" for row in rows if row.problem]


def followed(rows: Sequence[Status]) -> list[str]:
    """One line that names the services whose next process stands by; no line if there are none."""
    names = [row.name for row in rows if row.followed]
    return [f"a standby process is running for {', '.join(names)}"] if names else []


def print_answer(answer: SqlResult) -> None:
    """A result as a table with a count below it."""
    if [name for name, _, _ in answer.columns] == ["affected_rows"]:
        touched = f"OK, {answer.rows[0][0] if answer.rows else 0} rows affected"
        out.print(f"OK: {answer.note}" if answer.note else touched, markup=False)
        return
    out.print(table(None, [name for name, _, _ in answer.columns], answer.rows))
    out.print(f"{len(answer.rows)} row{'' if len(answer.rows) == 1 else 's'}")


def prompt(rest: Rest, db: str | None) -> int:
    """Reads statements that end with ``;`` until ``quit`` or the end of input; ``use <db>``
    changes the database. Shows an error and goes on. Returns 1 if a statement failed and input was
    not from a terminal."""
    failed = 0
    typed = sys.stdin.isatty()
    read = terminal_lines(lambda: db) if typed else map(str.rstrip, sys.stdin)
    for statement in statements(read):
        words = statement.split()
        if len(words) == 2 and words[0].lower() == "use":
            db = words[1].strip("`")
            continue
        failed |= run_one(rest, statement, db)
    return 0 if typed else failed


def statements(lines: Iterable[str]) -> Iterator[str]:
    """Splits lines into statements, each ended by a line that ends with ``;``; stops at
    ``quit`` or ``exit``."""
    pending = ""
    for line in lines:
        if not pending and line.strip().lower() in LEAVING:
            return
        pending = f"{pending}\n{line}" if pending else line
        if not pending.rstrip().endswith(";"):
            pending = pending if pending.strip() else ""
            continue
        statement, pending = pending.strip().rstrip(";"), ""
        yield statement


def run_one(rest: Rest, statement: str, db: str | None) -> int:
    """Runs one statement and shows its rows, or its error (then 1)."""
    if not statement.strip():
        return 0
    try:
        print_answer(rest.execute(statement, db))
    except MillraceError as error:
        err.print(Text(f"error: {error}"), style="red")
        return 1
    return 0
