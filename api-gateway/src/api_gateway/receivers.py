"""Checks NOTIFY's addresses at CREATE: an address that notifications may not go to is refused."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from urllib.parse import urlsplit

from millrace_core.errors import ErrorCode, SqlError
from millrace_core.language.statements import CreateLegacyStream, CreateStream
from millrace_core.notice.allowed_addresses import AllowedAddresses, place_of

Resolve = Callable[[str], Sequence[str]]
"""Gives the IP addresses of a host; none for a name that cannot be resolved now."""
SECONDS = 2.0
"""How long CREATE waits for the addresses of a name."""
_ASKING = ThreadPoolExecutor(4, "resolve")


def resolve(host: str) -> Sequence[str]:
    """Resolves an address as a connection would, however it is written."""
    try:
        found = _ASKING.submit(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM).result(SECONDS)
    except (OSError, UnicodeError, NotInTime):
        return ()
    return [str(where[0]) for *_, where in found]


def refuse_private(
    statement: CreateStream | CreateLegacyStream, reach: AllowedAddresses, resolve: Resolve
) -> None:
    """:raises SqlError: NOT_ALLOWED for an address that lies where notifications may not go. A name that
    cannot be resolved now is checked by notify-svc, which checks every name at every connection."""
    for url in statement.notify.urls if statement.notify is not None else ():
        host = urlsplit(url.text).hostname or ""
        if not all(reach.permits(place_of(found)) for found in resolve(host)):
            raise SqlError(
                ErrorCode.NOT_ALLOWED,
                "NOTIFY: the address is in a network that notifications may not be sent to; private, "
                "loopback and link-local networks must be listed in MILLRACE_NOTIFY_ALLOW",
                url.position,
            )
