"""Statements typed at a terminal: lines can be edited and found again, and are coloured as SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.output import Output

LEAVING = ("quit", "exit", "quit;", "exit;")
HISTORY = ".millrace_history"
"""A file in the home folder that only its owner can read."""
_SECRET = re.compile(r"\bpass\b", re.IGNORECASE)


def terminal_lines(
    db: Callable[[], str | None],
    history: Path | None = None,
    keys: Input | None = None,
    screen: Output | None = None,
) -> Iterator[str]:
    """The lines that are typed, until Ctrl-D; Ctrl-C drops what has not been sent. Enter sends a text that
    ends with ``;`` (or is ``quit``), and begins a new line in any other.

    ``db``: the database, which the prompt shows; ``history``: where statements are remembered, except those
    with passwords; ``keys`` and ``screen``: used instead of the terminal.
    """
    session = _session(Path.home() / HISTORY if history is None else history, keys, screen)
    while True:
        try:
            text = session.prompt(f"{db() or 'millrace'}> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        yield from text.split("\n")


def is_whole(text: str) -> bool:
    """Whether Enter sends this text."""
    plain = text.strip().lower()
    return not plain or plain.endswith(";") or plain in LEAVING


def _session(history: Path, keys: Input | None, screen: Output | None) -> PromptSession[str]:
    # imported here, because they take a while to import, and neither a script nor another command needs them
    from prompt_toolkit import PromptSession
    from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    class Remembered(FileHistory):
        """A history file that leaves out statements with passwords."""

        def store_string(self, string: str) -> None:
            if not _SECRET.search(string):
                super().store_string(string)

    history.touch(mode=0o600)
    return PromptSession(
        history=Remembered(str(history)), auto_suggest=AutoSuggestFromHistory(), multiline=True,
        lexer=PygmentsLexer(SqlLexer), prompt_continuation="-> ", key_bindings=_enter(),
        input=keys, output=screen,
    )  # fmt: skip


def _enter() -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    bindings = KeyBindings()

    @bindings.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings
