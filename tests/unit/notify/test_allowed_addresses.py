"""Which addresses notifications may go to."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.notice.allowed_addresses import ON_ONE_MACHINE, AllowedAddresses, networks, place_of
from notify_svc.network import Forbidden, connector

INSIDE = [
    "127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.169.254", "100.64.0.1", "0.0.0.0", "0.1.2.3", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "fec0::1",
    "ff02::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "::127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a00:1::1", "2001:0:7f00:1::",
]  # fmt: skip
OUTSIDE = [
    "8.8.8.8",
    "172.32.0.1",
    "192.167.255.255",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
]


@pytest.mark.parametrize("text", INSIDE)
def test_what_lies_behind_our_own_door_is_refused(text: str) -> None:
    assert not AllowedAddresses().permits(place_of(text))


@pytest.mark.parametrize("text", OUTSIDE)
def test_what_everybody_reaches_is_not(text: str) -> None:
    assert AllowedAddresses().permits(place_of(text))


def test_a_network_that_is_named_is_allowed_whichever_way_it_is_written() -> None:
    reach = AllowedAddresses(allowed="10.1.0.0/16, fd00::/8")
    for text in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203", "fd12::1", "8.8.8.8"):
        assert reach.permits(place_of(text)), text
    for text in ("10.2.0.1", "::ffff:10.2.0.1", "127.0.0.1", "fe80::1"):
        assert not reach.permits(place_of(text)), text


def test_only_some_networks_may_be_told() -> None:
    reach = AllowedAddresses(only="127.0.0.2/32, 9.0.0.0/8", allowed="10.0.0.0/8")
    assert [reach.permits(place_of(text)) for text in ("127.0.0.2", "9.1.1.1")] == [True, True]
    assert not any(reach.permits(place_of(text)) for text in ("127.0.0.1", "8.8.8.8", "10.0.0.1", "::1"))


def test_a_stack_of_one_machine_does_not_tell_link_local_addresses() -> None:
    reach = AllowedAddresses(allowed=ON_ONE_MACHINE)
    assert all(reach.permits(place_of(text)) for text in ("127.0.0.1", "::1", "192.168.1.1", "10.9.9.9"))
    assert not any(reach.permits(place_of(text)) for text in ("169.254.169.254", "fe80::1", "0.0.0.0", "::"))


@given(st.ip_addresses(v=4))
def test_an_address_is_judged_alike_however_ipv6_carries_it(inner: IPv4Address) -> None:
    reach = AllowedAddresses()
    for outer in (
        IPv6Address(f"::ffff:{inner}"), IPv6Address(int(IPv6Address("64:ff9b::")) + int(inner))
    ):  # fmt: skip
        assert reach.permits(outer) == reach.permits(inner)
    # a tunnel's own address must be public as well
    assert reach.permits(IPv6Address((0x2002 << 112) + (int(inner) << 80))) <= reach.permits(inner)


@pytest.mark.parametrize("text", ["10.0.0.0/8, here", "10.0.0.1/8", "1.2.3"])
def test_a_network_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        networks(text)


def test_what_counts_is_where_a_connection_goes_behind_redirects_and_names(lab: Any) -> None:
    """A name means what it means now, and an address that is allowed may send on to one that is not."""
    outer, inner = lab.free_port(), lab.free_port()
    reached: list[str] = []

    async def sends_on(request: web.Request) -> web.StreamResponse:
        reached.append("outer")
        raise web.HTTPFound(f"http://127.0.0.2:{inner}/")

    async def hidden(request: web.Request) -> web.StreamResponse:
        reached.append("inner")
        return web.Response()

    async def run() -> None:
        through = connector(lab.settings(notify_allow="127.0.0.1/32"))
        async with (
            lab.serving(outer, sends_on), lab.serving(inner, hidden, host="127.0.0.2"),
            aiohttp.ClientSession(connector=through) as session,
        ):  # fmt: skip
            known = (f"127.0.0.1:{outer}", f"localhost:{outer}")
            for host in (*known, f"127.0.0.2:{inner}", f"[::ffff:127.0.0.2]:{inner}"):
                with pytest.raises(aiohttp.ClientConnectorError) as caught:
                    await session.ws_connect(f"ws://{host}/")
                assert isinstance(caught.value.os_error, Forbidden), host

    asyncio.run(run())
    assert reached == ["outer", "outer"]
