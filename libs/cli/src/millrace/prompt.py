"""Statements typed at a terminal: lines that can be edited, found again, and are coloured as SQL."""

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
"""A file in the home folder, for its owner alone."""
_SECRET = re.compile(r"\bpass\b", re.IGNORECASE)


def terminal_lines(
    db: Callable[[], str | None],
    history: Path | None = None,
    keys: Input | None = None,
    screen: Output | None = None,
) -> Iterator[str]:
    """Lines of what is typed, until Ctrl-D; Ctrl-C drops what is not sent. Enter sends what ends with ``;``
    (or ``quit``), and begins a new line in anything else.

    ``db``: the database, which the prompt shows; ``history``: where statements are remembered, but those with
    passwords; ``keys`` and ``screen``: in the place of the terminal.
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
    """Whether Enter sends it."""
    plain = text.strip().lower()
    return not plain or plain.endswith(";") or plain in LEAVING


def _session(history: Path, keys: Input | None, screen: Output | None) -> PromptSession[str]:
    # a script, and every other command, does without: they take a while to import
    from prompt_toolkit import PromptSession
    from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    class Remembered(FileHistory):
        """Passwords stay out of the file."""

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
