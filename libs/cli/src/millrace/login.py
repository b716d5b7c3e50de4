"""Who logs in at the gateway: told by the environment, a file, or a question at the terminal. Everybody on
the machine can read a command line, so a password never appears on one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from getpass import getpass

from pydantic import Field, SecretStr

from millrace.settings import CommandSettings
from millrace_core.errors import ErrorCode, MillraceError
from millrace_service import load_settings, read_secret

FIRST = "taosdata"
"""Root's password until it is changed."""


@dataclass(frozen=True)
class Login:
    user: str
    password: str = field(repr=False)


class LoginSettings(CommandSettings):
    """The settings of whoever logs in at the gateway, and those that set root's first password."""

    root_password: SecretStr = Field(default=SecretStr(""))
    root_password_file: str = Field(default="")


def find_login(user: str | None = None, environment: Mapping[str, str] | None = None) -> Login:
    """The login that the environment, or these variables, give; as ``user`` if that is given. If no password
    is named for root, it is the first one that a stack gives to root.

    :raises MillraceError: INVALID_VALUE for a file that cannot be read; AUTHENTICATION for another user
        without a password.
    """
    given = load_settings(LoginSettings, environment)
    name = user or given.user
    password = _read("MILLRACE_PASSWORD_FILE", given.password, given.password_file)
    if not password and name == "root":
        password = (
            _read("MILLRACE_ROOT_PASSWORD_FILE", given.root_password, given.root_password_file) or FIRST
        )
    if not password:
        raise MillraceError(
            ErrorCode.AUTHENTICATION,
            f"no password for {name}: set MILLRACE_PASSWORD or MILLRACE_PASSWORD_FILE, or use -p to be "
            "asked for it",
        )
    return Login(name, password)


def asked_login(user: str | None = None) -> Login:
    """The same, but the password is typed, unseen."""
    name = user or load_settings(CommandSettings).user
    return Login(name, getpass(f"password for {name}: "))


def _read(variable: str, text: SecretStr, file: str) -> str:
    if text.get_secret_value() or not file:
        return text.get_secret_value()
    return read_secret(variable, file)
