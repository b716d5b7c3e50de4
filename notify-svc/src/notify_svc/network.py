"""Where connections to addresses may go, and whom they trust."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

import aiohttp

from millrace_core.errors import ErrorCode, MillraceError
from notify_svc.settings import NotifySettings

Network = IPv4Network | IPv6Network


class Forbidden(PermissionError):
    """The address lies outside the allowed networks."""


def networks(text: str) -> tuple[Network, ...]:
    """The networks of a setting, ``10.0.0.0/8, ::1/128``.

    :raises MillraceError: INVALID_VALUE for one that is none.
    """
    try:
        return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise MillraceError(ErrorCode.INVALID_VALUE, f"MILLRACE_NOTIFY_NETWORKS: {error}") from error


def connector(settings: NotifySettings) -> aiohttp.TCPConnector:
    """Makes the connections to addresses. No limit of their number.

    :raises MillraceError: INVALID_VALUE for a wrong network or a file without certificates.
    """
    allowed = networks(settings.notify_networks)
    trust = ssl.create_default_context()
    if settings.notify_ca_file:
        try:
            trust.load_verify_locations(settings.notify_ca_file)
        except (OSError, ssl.SSLError) as error:
            raise MillraceError(
                ErrorCode.INVALID_VALUE, f"MILLRACE_NOTIFY_CA_FILE = {settings.notify_ca_file!r}: {error}"
            ) from error
    factory = _within(allowed) if allowed else None
    return aiohttp.TCPConnector(limit=0, ssl=trust, socket_factory=factory)


def _within(allowed: Sequence[Network]) -> Callable[[Any], socket.socket]:
    """Sockets for these networks alone. Every connection passes here with the very address that it goes to,
    after names were resolved and redirects followed."""

    def make(info: Any) -> socket.socket:
        family, kind, protocol, _, where = info
        found = ip_address(str(where[0]).partition("%")[0])
        if not any(found in network for network in allowed):
            raise Forbidden(errno.EACCES, f"{found} is outside the allowed networks")
        return socket.socket(family, kind, protocol)

    return make
