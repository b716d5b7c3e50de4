"""Where connections to addresses may go, and which authorities they trust."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable
from typing import Any

import aiohttp

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.notice.allowed_addresses import AllowedAddresses, place_of
from notify_svc.settings import NotifySettings


class Forbidden(PermissionError):
    """Notifications may not go to the address."""


def connector(settings: NotifySettings) -> aiohttp.TCPConnector:
    """Makes the connections to addresses, without a limit on their number.

    :raises MillraceError: INVALID_VALUE for a file that has no certificates.
    """
    trust = ssl.create_default_context()
    if settings.notify_ca_file:
        try:
            trust.load_verify_locations(settings.notify_ca_file)
        except (OSError, ssl.SSLError) as error:
            raise MillraceError(
                ErrorCode.INVALID_VALUE, f"MILLRACE_NOTIFY_CA_FILE = {settings.notify_ca_file!r}: {error}"
            ) from error
    return aiohttp.TCPConnector(limit=0, ssl=trust, socket_factory=_within(settings.reach))


def inside(settings: NotifySettings) -> aiohttp.TCPConnector:
    """Makes the connections to other services."""
    return aiohttp.TCPConnector(ssl=settings.trust)


def _within(reach: AllowedAddresses) -> Callable[[Any], socket.socket]:
    """Makes sockets only to where notifications may go. Every connection comes through here with the actual
    address that it goes to, after names were resolved and redirects followed. So a name that has changed
    since CREATE is checked again."""

    def make(info: Any) -> socket.socket:
        family, kind, protocol, _, where = info
        if not reach.permits(place_of(str(where[0]))):
            raise Forbidden(errno.EACCES, "notifications may not be sent there")
        return socket.socket(family, kind, protocol)

    return make
