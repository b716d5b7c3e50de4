"""Where notifications may go. Users name the addresses, so private networks are closed to them unless
allowed."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network
IpAddress = IPv4Address | IPv6Address

ON_ONE_MACHINE = "127.0.0.0/8, ::1/128, 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, fc00::/7"
"""What a stack on a single machine allows: whoever may send it a statement works there, and can reach these
networks anyway. Link-local addresses are left out, because clouds hand out credentials there."""
_GLOBAL = ip_network("2000::/3")
"""The IPv6 addresses that are publicly reachable."""
_NAT64 = ip_network("64:ff9b::/96")


def networks(text: str) -> tuple[Network, ...]:
    """The networks of a text, ``10.0.0.0/8, ::1/128``. :raises ValueError: for one that is not valid."""
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


def place_of(text: str) -> IpAddress:
    """An address as sockets write it, with or without a zone. :raises ValueError: if it is not one."""
    return ip_address(text.partition("%")[0])


class AllowedAddresses:
    """``only``: if any are given, notifications go to these networks alone. ``allowed``: private networks
    that may be notified nevertheless; those in ``only`` may be as well."""

    def __init__(self, only: str = "", allowed: str = "") -> None:
        """:raises ValueError: for what is not a network."""
        self._only = networks(only)
        self._allowed = (*self._only, *networks(allowed))

    def permits(self, place: IpAddress) -> bool:
        """Whether notifications may go there. If an address embeds another one, both are checked."""
        return all(self._permits_one(one) for one in _meant(place))

    def _permits_one(self, place: IpAddress) -> bool:
        if self._only and not _within(place, self._only):
            return False
        return _is_public(place) or _within(place, self._allowed)


def _within(place: IpAddress, found: tuple[Network, ...]) -> bool:
    return any(place in network for network in found)


def _is_public(place: IpAddress) -> bool:
    if isinstance(place, IPv6Address) and place not in _GLOBAL:
        return False
    return place.is_global and not place.is_multicast and not place.is_reserved


def _meant(place: IpAddress) -> Iterator[IpAddress]:
    """The addresses that packets to this one may reach: an IPv4 address in an IPv6 one may be mapped, or lie
    behind a translator or a tunnel."""
    if isinstance(place, IPv6Address):
        if place.ipv4_mapped is not None:
            yield place.ipv4_mapped
            return
        if place in _NAT64:
            yield IPv4Address(int(place) & 0xFFFF_FFFF)
            return
        if place.sixtofour is not None:
            yield place.sixtofour
        if place.teredo is not None:
            yield from place.teredo
    yield place
