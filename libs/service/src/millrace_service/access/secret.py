"""Secrets in files: read if they exist, made if they do not. No secret appears in a command line or a log."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from millrace_core.errors import ErrorCode, MillraceError


def read_secret(variable: str, file: str) -> str:
    """The content of the file that a setting names, without the line break at its end.

    :raises MillraceError: INVALID_VALUE for a file that cannot be read or is empty.
    """
    try:
        # the mode is not checked: a secret that an orchestrator mounts has whatever mode that sets
        found = Path(file).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise MillraceError(ErrorCode.INVALID_VALUE, f"{variable} = {file!r}: {_why(error)}") from error
    if not found:
        raise MillraceError(ErrorCode.INVALID_VALUE, f"{variable}: {file} is empty")
    return found


def kept_secret(file: Path, what: str) -> str:
    """The secret that a stack keeps in a file that only its owner can read; made if it does not exist.

    :raises MillraceError: INVALID_VALUE for a file that others may read, or that cannot be made.
    """
    try:
        if not file.exists():
            _make(file)
        if not file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            return file.read_text().strip()
    except OSError as error:
        raise MillraceError(ErrorCode.INVALID_VALUE, f"{file}: {_why(error)}") from error
    raise MillraceError(
        ErrorCode.INVALID_VALUE,
        f"{file}: other users may read the {what}: remove the file, or run chmod 600 on it",
    )


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _make(file: Path) -> None:
    """Several processes may do this at once: the first one's file stays, and nobody sees a
    half-written file."""
    draft = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    write_secret(draft, secrets.token_urlsafe(32))
    try:
        with suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink()


def write_secret(file: Path, text: str) -> None:
    """Write a new file that only its owner could ever read."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
