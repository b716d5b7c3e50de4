"""Logins over IoTDB's protocols, for Millrace's users. As long as root has Millrace's initial password,
IoTDB's initial password (``root``) is accepted as well."""

from __future__ import annotations

from api_gateway.access.login import Logins
from millrace_core.catalog import User
from millrace_core.errors import ErrorCode, MillraceError

ROOT = "root"


class IotdbLogins:
    """``first``: the password that Millrace gave to root."""

    def __init__(self, logins: Logins, first: str) -> None:
        self._logins, self._first = logins, first

    def check(self, name: str, password: str, address: str) -> User:
        """:raises MillraceError: AUTHENTICATION for an unknown user or a wrong password."""
        if (name, password) == (ROOT, ROOT) and self._logins.holds(name, self._first):
            password = self._first
        return self._logins.check(name, password, address)

    def stands(self, user: User) -> None:
        """:raises MillraceError: AUTHENTICATION if a session's user is gone, or has another password now."""
        if not self._logins.stands(user):
            raise MillraceError(
                ErrorCode.AUTHENTICATION,
                f"the user {user.name} was dropped or has a new password: log in again",
            )
