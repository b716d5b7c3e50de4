"""Addresses that hang, close, answer with something else, lie elsewhere, or speak TLS."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from millrace_wal import MemoryLog
from notify_svc import metrics

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def dropped(stream: str, cause: str) -> float:
    return float(metrics.DROPPED.labels(stream, cause)._value.get())


async def hang(request: web.Request) -> web.StreamResponse:
    """Opens, and reads nothing."""
    ours = web.WebSocketResponse()
    await ours.prepare(request)
    await asyncio.sleep(30)
    return ours


async def mute(request: web.Request) -> web.StreamResponse:
    """Reads, and never answers a ping."""
    ours = web.WebSocketResponse(autoping=False)
    await ours.prepare(request)
    async for _ in ours:
        pass
    return ours


async def close(request: web.Request) -> web.StreamResponse:
    """Closes at the first message."""
    ours = web.WebSocketResponse()
    await ours.prepare(request)
    await ours.receive()
    await ours.close()
    return ours


async def page(request: web.Request) -> web.StreamResponse:
    """Is no WebSocket."""
    return web.Response(text="hello")


@pytest.mark.parametrize(
    ("handle", "cause"), [(hang, "silent"), (mute, "silent"), (close, "closed"), (page, "handshake")]
)
def test_a_bad_receiver_loses_its_events_and_holds_nobody_up(
    lab: Any, log: MemoryLog, handle: Handler, cause: str
) -> None:
    async def run() -> None:
        good, port = lab.Receiver(lab.free_port()), lab.free_port()
        chosen = lab.settings(notify_answer_seconds=0.2)
        before = dropped("db.s", cause)
        async with (
            lab.serving(good.port, good.handle),
            lab.serving(port, handle),
            lab.pushing(log, chosen) as pusher,
        ):
            lab.write(log, range(20), port, good.port)
            await lab.until(lambda: good.numbers == list(range(20)), 2)
            await lab.until(lambda: pusher.waiting == 0)
        assert dropped("db.s", cause) == before + 20
        assert lab.unread(log) == []

    asyncio.run(run())


@pytest.mark.parametrize("handle", [hang, mute, close, page])
def test_nothing_is_lost_at_a_bad_receiver_that_gets_well(lab: Any, log: MemoryLog, handle: Handler) -> None:
    async def run() -> None:
        receiver = lab.Receiver(lab.free_port())
        chosen = lab.settings(notify_answer_seconds=0.2)
        async with lab.pushing(log, chosen):
            async with lab.serving(receiver.port, handle):
                lab.write(log, range(20), receiver.port, pause_on_failure=True)
                await lab.until(lambda: lab.paused(log))
                lab.write(log, range(20, 30), receiver.port, pause_on_failure=True)
            async with lab.serving(receiver.port, receiver.handle):
                await lab.until(lambda: list(dict.fromkeys(receiver.numbers)) == list(range(30)))
                await lab.until(lambda: not lab.paused(log))

    asyncio.run(run())


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A self-signed certificate of 127.0.0.1: its file, and the server's side of it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "receiver")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    file, private = folder / "receiver.pem", folder / "receiver.key"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, private)
    return file, context


def test_wss_needs_a_certificate_that_is_trusted(lab: Any, log: MemoryLog, tmp_path: Path) -> None:
    file, context = certificate(tmp_path)

    async def run() -> None:
        receiver = lab.Receiver(lab.free_port())
        before = dropped("db.s", "tls")
        async with lab.serving(receiver.port, receiver.handle, context):
            async with lab.pushing(log, lab.settings()) as pusher:
                lab.write(log, range(3), receiver.port, scheme="wss")
                await lab.until(lambda: dropped("db.s", "tls") == before + 3)
                assert pusher.waiting == 0
            async with lab.pushing(log, lab.settings(notify_ca_file=str(file))):
                lab.write(log, range(3, 6), receiver.port, scheme="wss")
                await lab.until(lambda: receiver.numbers == [3, 4, 5])

    asyncio.run(run())


def test_only_allowed_networks_are_connected_to(lab: Any, log: MemoryLog) -> None:
    async def run() -> None:
        receiver, port = lab.Receiver(lab.free_port()), lab.free_port()

        async def elsewhere(request: web.Request) -> web.StreamResponse:
            raise web.HTTPFound(f"http://127.0.0.1:{receiver.port}/")

        before = dropped("db.s", "forbidden")
        async with (
            lab.serving(receiver.port, receiver.handle),
            lab.serving(port, elsewhere, host="127.0.0.2"),
        ):
            async with lab.pushing(log, lab.settings(notify_networks="127.0.0.2/32, 10.0.0.0/8")) as pusher:
                lab.write(log, range(3), receiver.port)
                await lab.until(lambda: dropped("db.s", "forbidden") == before + 3)
                # an allowed address that leads to one that is not
                lab.write(log, range(3, 5), port, host="127.0.0.2")
                await lab.until(lambda: dropped("db.s", "forbidden") == before + 5)
                # a name that stands for one
                lab.write(log, range(5, 6), receiver.port, host="localhost")
                await lab.until(lambda: dropped("db.s", "forbidden") == before + 6)
                assert pusher.waiting == 0
            assert receiver.connections == 0
            async with lab.pushing(log, lab.settings(notify_networks="127.0.0.0/8")):
                lab.write(log, range(6, 9), receiver.port)
                await lab.until(lambda: receiver.numbers == [6, 7, 8])

    asyncio.run(run())
