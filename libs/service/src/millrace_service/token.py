"""The service token: what the services of a stack show each other, so that nobody else is taken for one.

It stands in a file that its owner alone reads. Whoever starts first makes the file; services that do not
share a folder are given one token by a setting.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fastapi import Request

from millrace_core.errors import ErrorCode, MillraceError

FILE = "service-token"
"""The file's name in a stack's folder."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")


class ServiceToken:
    """One token. It shows itself in headers alone."""

    def __init__(self, text: str) -> None:
        """:raises MillraceError: INVALID_VALUE for a text that is short, or that no header takes."""
        if not _TOKEN.fullmatch(text):
            raise MillraceError(
                ErrorCode.INVALID_VALUE,
                "the service token must have 16 to 512 letters, digits or characters of ._~+/=-",
            )
        self._expected = f"Bearer {text}".encode()

    @property
    def header(self) -> Mapping[str, str]:
        """What a request carries to show it."""
        return {"Authorization": self._expected.decode()}

    def is_shown(self, request: Request) -> bool:
        """Whether the request carries it. How long this takes does not say how much of it was right."""
        given = request.headers.get("authorization", "").encode()
        return hmac.compare_digest(given, self._expected)

    def required(self, request: Request) -> None:
        """A dependency of routes. :raises MillraceError: AUTHENTICATION without the token."""
        if not self.is_shown(request):
            raise MillraceError(
                ErrorCode.AUTHENTICATION,
                "this is for services of the same stack: the service token is missing or another one "
                "(MILLRACE_SERVICE_TOKEN_FILE)",
            )


def find_token(text: str, file: str, folder: Path) -> ServiceToken:
    """The token of a setting, of a file that a setting names, or of the file in a stack's folder, which is
    made if it is not there.

    :raises MillraceError: INVALID_VALUE: what is wrong with the setting or the file.
    """
    if text:
        return ServiceToken(text)
    try:
        # a secret that an orchestrator mounts has the mode that it gives it
        return ServiceToken(Path(file).read_text().strip() if file else _kept(folder / FILE))
    except OSError as error:
        where = f"MILLRACE_SERVICE_TOKEN_FILE = {file!r}" if file else str(folder / FILE)
        raise MillraceError(ErrorCode.INVALID_VALUE, f"{where}: {error.strerror}") from error


def _kept(file: Path) -> str:
    if not file.exists():
        _make(file)
    if file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise MillraceError(
            ErrorCode.INVALID_VALUE, f"{file}: others may read the service token: remove it, or chmod 600 it"
        )
    return file.read_text().strip()


def _make(file: Path) -> None:
    """Several services may do so at once: the first one's file stays, and nobody sees half of one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(secrets.token_urlsafe(32))
    try:
        with suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink()
