"""Who asks: passwords, the token of TDengine's REST login, and the Authorization header."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import threading
from collections.abc import Mapping

from cachetools import LRUCache
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.modes import ECB
from fastapi import Request

from api_gateway.access.attempts import Attempts
from millrace_core.catalog import User
from millrace_core.errors import ErrorCode, MillraceError

# the protocol's own constant, the same in every client (docs/decisions/0003-login-token.md)
_TOKEN_KEY = bytes((64, 182, 122, 48, 86, 115, 253, 68))
_FIELD = 24  # bytes that the token has for the name, and as many for the password
_REMEMBERED = 1024
# it is no secret, which is why the gateway warns of it
DEFAULT_PASSWORD = "taosdata"  # noqa: S105
_NO_SALT = "00" * 16
COST = 1 << 12
"""Takes some milliseconds and 4 MB per password. Stored hashes do not say how they were made, so this must
not change."""


def hash_password(password: str, salt: str) -> str:
    """What is stored instead of the password: scrypt over it, in hexadecimal digits."""
    return hashlib.scrypt(password.encode(), salt=bytes.fromhex(salt), n=COST, r=8, p=1).hex()


def new_user(name: str, password: str, *, superuser: bool = False) -> User:
    salt = secrets.token_hex(16)
    return User(name, hash_password(password, salt), salt, superuser)


# the same key three times makes TripleDES plain DES, which ``cryptography`` does not offer by itself
def _cipher() -> Cipher[ECB]:
    # the protocol demands it: a token hides nothing, it is just the password in another form
    return Cipher(TripleDES(_TOKEN_KEY * 3), ECB())  # noqa: S305


def address_of(request: Request) -> str:
    """The address that a request comes from; empty if the server does not know it."""
    return request.client.host if request.client else ""


def make_token(name: str, password: str) -> str:
    """The token that ``GET /rest/login`` gives.

    :raises MillraceError: TOO_LARGE if name or password have more than 24 bytes: a token has no more room.
    """
    encryptor = _cipher().encryptor()
    padded = b""
    for part in (name.encode(), password.encode()):
        if len(part) > _FIELD:
            raise MillraceError(
                ErrorCode.TOO_LARGE,
                f"the name and the password in a login token may have at most {_FIELD} bytes each; use "
                "Basic credentials",
            )
        padded += part.ljust(_FIELD, b"\0")
    return base64.b64encode(encryptor.update(padded) + encryptor.finalize()).decode()


def read_token(token: str) -> tuple[str, str]:
    """Name and password in a token; :raises MillraceError: AUTHENTICATION if it is not one."""
    try:
        data = base64.b64decode(token, validate=True)
        if len(data) != 2 * _FIELD:
            raise ValueError
        decryptor = _cipher().decryptor()
        plain = decryptor.update(data) + decryptor.finalize()
        return plain[:_FIELD].rstrip(b"\0").decode(), plain[_FIELD:].rstrip(b"\0").decode()
    except (ValueError, binascii.Error):
        raise MillraceError(
            ErrorCode.AUTHENTICATION, "this is not a token that /rest/login has issued"
        ) from None


def read_authorization(header: str | None) -> tuple[str, str]:
    """Name and password of ``Basic …``, ``Taosd …`` or ``Bearer …``.

    :raises MillraceError: AUTHENTICATION if the header is missing or none of these.
    """
    scheme, _, value = (header or "").strip().partition(" ")
    match scheme.lower():
        case "basic":
            try:
                name, colon, password = base64.b64decode(value.strip(), validate=True).decode().partition(":")
            except (ValueError, binascii.Error):
                colon = ""
            if not colon:
                raise MillraceError(ErrorCode.AUTHENTICATION, "the Basic credentials are malformed")
            return name, password
        case "taosd" | "bearer":
            return read_token(value.strip())
        case _:
            raise MillraceError(
                ErrorCode.AUTHENTICATION,
                "no credentials: send the header Authorization with Basic credentials, or with Taosd and a "
                "login token",
            )


class Logins:
    """Checks credentials against the catalog's users. A password that was right once is not hashed again."""

    def __init__(self, users: Mapping[str, User], attempts: Attempts | None = None) -> None:
        self._users = users
        self._attempts = attempts or Attempts()
        self._key = secrets.token_bytes(32)
        self._right: LRUCache[tuple[str, str], bytes] = LRUCache(_REMEMBERED)
        self._lock = threading.Lock()

    def check(self, name: str, password: str, address: str = "") -> User:
        """The user. ``address``: where the request comes from.

        :raises MillraceError: AUTHENTICATION, the same for an unknown name and a wrong password; also while
            :class:`Attempts` makes them wait.
        """
        self._attempts.check(name, address)
        user = self._users.get(name)
        if user is None:
            hash_password(password, _NO_SALT)  # takes as long as for a user who is there
        if user is None or not self._matches(user, password):
            self._attempts.failed(name, address)
            raise MillraceError(ErrorCode.AUTHENTICATION, "Authentication failure")
        self._attempts.passed(name, address)
        return user

    def holds(self, name: str, password: str) -> bool:
        """Whether this is the user's password; does not count as an attempt to log in."""
        user = self._users.get(name)
        return user is not None and self._matches(user, password)

    def stands(self, user: User) -> bool:
        """Whether somebody who was let in as this user would still be let in now."""
        found = self._users.get(user.name)
        return found is not None and (found.password, found.salt) == (user.password, user.salt)

    def _matches(self, user: User, password: str) -> bool:
        # keyed, so that the remembered digests of right passwords are of no use to anyone else
        digest = hmac.digest(self._key, password.encode(), "sha256")
        entry = (user.name, user.password)
        with self._lock:
            remembered = self._right.get(entry)
        if remembered is not None and hmac.compare_digest(remembered, digest):
            return True
        if not hmac.compare_digest(hash_password(password, user.salt), user.password):
            return False
        with self._lock:
            self._right[entry] = digest
        return True
