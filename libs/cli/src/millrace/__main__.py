"""``millrace``: up, down, status, logs, sql, demo, anode, jars."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.text import Text

from millrace import console, jars
from millrace.java import find_java
from millrace.login import asked_login, find_login
from millrace.processes import tail
from millrace.settings import StackSettings, project_root
from millrace.sql_client import Rest
from millrace.stack import NAMES, Stack
from millrace.supervision import supervisor
from millrace_core.errors import MillraceError
from millrace_service import configure_logs
from millrace_service.web import serve

ANODE_PORT = 6035
"""Where newer TDengine releases look for an anode."""

Command = Callable[[argparse.Namespace], int]


def _stack() -> Stack:
    return Stack(StackSettings.from_environment(), console.TimedLines())


def up(_: argparse.Namespace) -> int:
    """Starts the stack. If a later part fails, the parts already started keep running, for their logs."""
    stack = _stack()
    if not stack.up():
        console.err.print("the stack is already running")
    return 0


def down(_: argparse.Namespace) -> int:
    """Stops the stack."""
    if not _stack().down():
        console.err.print("nothing was running")
    return 0


def status(_: argparse.Namespace) -> int:
    """Prints one row for each part; returns 1 unless all are ready."""
    stack = _stack()
    rows = stack.status()
    console.out.print(console.status_table(rows))
    for line in (*console.problems(rows), *console.followed(rows)):
        console.out.print(Text(line), soft_wrap=True)
    if any(row.pid for row in rows) and not stack.is_supervised():
        console.out.print(
            "no supervisor is running: a part that crashes stays down (`millrace up` starts a supervisor)"
        )
    return 0 if all(row.ready for row in rows) else 1


def logs(arguments: argparse.Namespace) -> int:
    """Prints the end of each part's log, or follows the logs."""
    place = _stack().place
    files = [place.log_file(name) for name in arguments.parts or (*NAMES, supervisor.NAME)]
    if arguments.follow:
        return _follow([file for file in files if file.exists()])
    for file in files:
        console.out.print(Text(f"==> {file} <=="), style="bold", soft_wrap=True)
        console.out.print(Text(tail(file, arguments.lines)), soft_wrap=True)
    return 0


def _follow(files: Sequence[Path]) -> int:
    if not files:
        console.err.print("there are no logs yet")
        return 1
    try:
        # tail is whichever one the caller's PATH finds
        return subprocess.run(["tail", "-n", "20", "-F", *map(str, files)], check=False).returncode  # noqa: S607
    except KeyboardInterrupt:
        return 0


def sql(arguments: argparse.Namespace) -> int:
    """Runs one statement; without one, starts a prompt."""
    url = arguments.url or StackSettings.from_environment().url("api-gateway")
    login = asked_login(arguments.user) if arguments.ask else find_login(arguments.user)
    with Rest(url, login) as rest:
        if arguments.statement:
            return console.run_one(rest, arguments.statement, arguments.db)
        return console.prompt(rest, arguments.db)


def demo(arguments: argparse.Namespace) -> int:
    """Runs the demo, on the running stack or on one started for it."""
    from millrace.demo.run import run  # only the demo needs DuckDB and the data

    return run(_stack(), keep=arguments.keep)


def anode(arguments: argparse.Namespace) -> int:
    """Serves the analysis algorithms over HTTP until it is told to stop."""
    from millrace_analytics.anode_app import anode_app  # only this command needs it

    configure_logs("anode", "INFO")
    serve(anode_app(), arguments.host, arguments.port)
    return 0


def fetch_jars(_: argparse.Namespace) -> int:
    """Resolves the Java jars."""
    folder = StackSettings.from_environment().jars_dir
    if not jars.resolve(find_java(), project_root() / "ivy.xml", folder, console.TimedLines()):
        console.err.print(Text(f"the jars in {folder} already match ivy.xml"), soft_wrap=True)
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    root = argparse.ArgumentParser(prog="millrace", description="Millrace on one machine")
    commands = root.add_subparsers(dest="command", required=True, metavar="command")

    def add(name: str, run: Command, about: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=about, description=about)
        one.set_defaults(run=run)
        return one

    add("up", up, "start the broker and the four services, and return once all are ready")
    add("down", down, "stop the broker and the services")
    add("status", status, "show what is running; the exit status is 1 unless everything is ready")
    log = add("logs", logs, "show the ends of the logs")
    log.add_argument("parts", nargs="*", metavar="part", help=f"any of {', '.join(NAMES)} (default: all)")
    log.add_argument("-f", "--follow", action="store_true", help="keep showing new lines")
    log.add_argument(
        "-n", "--lines", type=int, default=20, help="how many lines of each log to show (default: 20)"
    )
    query = add("sql", sql, "run one SQL statement; without one, start a prompt")
    query.add_argument("statement", nargs="?")
    query.add_argument("-d", "--db", help="the database of table names that do not name one")
    query.add_argument("-u", "--user", help="the user to log in as (default: MILLRACE_USER, or root)")
    query.add_argument(
        "-p", dest="ask", action="store_true",
        help="ask for the password (default: the one in MILLRACE_PASSWORD or MILLRACE_PASSWORD_FILE)",
    )  # fmt: skip
    query.add_argument("--url", help="the gateway's address (default: that of the stack in this folder)")
    show = add(
        "demo", demo, "calculate daily temperatures of two cities with streams, and check them against DuckDB"
    )
    show.add_argument("--keep", action="store_true", help="do not stop a stack that the demo has started")
    node = add("anode", anode, "serve the analysis algorithms over TDgpt's protocol, for TDengine")
    node.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: loopback)")
    node.add_argument("--port", type=int, default=ANODE_PORT, help=f"default: {ANODE_PORT}")
    add("jars", fetch_jars, "resolve the Java jars of ivy.xml")
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; an expected error gives one line on stderr and status 1."""
    given = parser().parse_args(arguments)
    run: Command = given.run
    try:
        return run(given)
    except MillraceError as error:
        console.err.print(Text(f"error: {error}"), style="red", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.err.print("interrupted")
        return 130


if __name__ == "__main__":
    sys.exit(main())
