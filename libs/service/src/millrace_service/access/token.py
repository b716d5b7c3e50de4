"""The service token: services of a stack show it to each other, so that nobody else is taken for one.

It is kept in a file that only its owner can read. Whoever starts first makes the file; services that do not
share a folder are given the token by a setting.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from pathlib import Path

from millrace_core.errors import ErrorCode, MillraceError
from millrace_service.access.secret import kept_secret, read_secret

FILE = "service-token"
"""The file's name in a stack's folder."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")


class ServiceToken:
    """One token. It is only ever shown in headers."""

    def __init__(self, text: str) -> None:
        """:raises MillraceError: INVALID_VALUE for a text that is too short, or not allowed in a header."""
        if not _TOKEN.fullmatch(text):
            raise MillraceError(
                ErrorCode.INVALID_VALUE,
                "the service token must consist of 16 to 512 letters, digits and characters of ._~+/=-",
            )
        self._expected = f"Bearer {text}".encode()

    @property
    def header(self) -> Mapping[str, str]:
        """The header with which a request shows it."""
        return {"Authorization": self._expected.decode()}

    def is_shown(self, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers, whose names are in lower case, shows it. The time that this
        takes does not reveal how much of a wrong token was right."""
        given = headers.get("authorization", "").encode()
        return hmac.compare_digest(given, self._expected)

    def require(self, headers: Mapping[str, str]) -> None:
        """:raises MillraceError: AUTHENTICATION if a request with these headers does not show it."""
        if not self.is_shown(headers):
            raise MillraceError(
                ErrorCode.AUTHENTICATION,
                "this is only for services of the same stack: the service token is missing or wrong "
                "(MILLRACE_SERVICE_TOKEN_FILE)",
            )


def find_token(text: str, file: str, folder: Path) -> ServiceToken:
    """The token of a setting, or of a file that a setting names, or of the file in a stack's folder, which is
    made if it does not exist.

    :raises MillraceError: INVALID_VALUE: what is wrong with the setting or the file.
    """
    if text:
        return ServiceToken(text)
    if file:
        return ServiceToken(read_secret("MILLRACE_SERVICE_TOKEN_FILE", file).strip())
    return ServiceToken(kept_secret(folder / FILE, "service token"))
