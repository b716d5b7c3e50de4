"""A stack's own certificate: what clients trust, where it is kept, and a service that answers by it."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from millrace import certificates
from millrace.settings import ON, StackSettings
from millrace_core.errors import MillraceError
from millrace_service import ServiceSettings, load_settings, trust

SERVICE = """
import sys
from millrace_service import Health
from millrace_service.web import serve, service_app
port, other, certificate, key = sys.argv[1:]
serve(service_app("x", lambda: Health(True)), "127.0.0.1", int(port), 1, int(other), tls=(certificate, key))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("stack") / "tls"
    certificates.ensure(found)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def urls(folder: Path) -> Iterator[list[str]]:
    ports = [free_port(), free_port()]
    files = [str(folder / name) for name in (certificates.CERTIFICATE, certificates.KEY)]
    command = [sys.executable, "-c", SERVICE, *map(str, ports), *files]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    until = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", ports[0]), 1).close()
            break
        except OSError:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.05)
    yield [f"https://127.0.0.1:{port}/healthz" for port in ports]
    process.kill()
    process.communicate()


def test_who_trusts_the_authority_is_answered_and_nobody_else_asks(urls: list[str], folder: Path) -> None:
    trusted = trust(str(folder / certificates.AUTHORITY))
    for url in urls:
        assert httpx.get(url, verify=trusted).json()["ready"] is True
        assert httpx.get(url.replace("127.0.0.1", "localhost"), verify=trusted).status_code == 200
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(url)
        with pytest.raises(httpx.TransportError):
            httpx.get(url.replace("https", "http"))


def test_the_key_is_its_owners_alone_and_the_authoritys_is_nowhere(folder: Path) -> None:
    modes = {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}
    assert modes == {"ca.pem": 0o644, "certificate.pem": 0o644, "key.pem": 0o600}
    assert sum(b"PRIVATE KEY" in file.read_bytes() for file in folder.iterdir()) == 1


def test_a_certificate_is_made_once_and_anew_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "LIFE", timedelta(days=20))
    certificates.ensure(tmp_path)
    first = (tmp_path / "certificate.pem").read_bytes()
    monkeypatch.setattr(certificates, "LIFE", timedelta(days=365))
    certificates.ensure(tmp_path)
    second = (tmp_path / "certificate.pem").read_bytes()
    certificates.ensure(tmp_path)
    assert first != second == (tmp_path / "certificate.pem").read_bytes()


def test_commands_that_come_later_know_that_the_stack_has_one(tmp_path: Path) -> None:
    plain = {"MILLRACE_DATA_DIR": str(tmp_path)}
    assert StackSettings.from_environment(plain).url("calc-svc") == "http://127.0.0.1:6051"
    secure = StackSettings.from_environment(plain | {"MILLRACE_TLS": "1"})
    assert secure.url("calc-svc") == "https://127.0.0.1:6051"
    certificates.ensure(secure.tls_folder)
    (secure.tls_folder / ON).touch()
    assert StackSettings.from_environment(plain) == secure
    assert StackSettings.from_environment(plain | {"MILLRACE_TLS": "0"}).tls_certificate == ""
    told = load_settings(ServiceSettings, secure.variables())
    assert told.tls_pair == (str(tmp_path / "tls" / "certificate.pem"), str(tmp_path / "tls" / "key.pem"))
    assert told.calc_url == "https://127.0.0.1:6051"
    assert isinstance(told.trust, ssl.SSLContext)
    assert StackSettings.from_environment(secure.variables()).url("calc-svc") == secure.url("calc-svc")


def test_half_a_pair_and_an_authority_that_is_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        MillraceError, match="both MILLRACE_TLS_CERTIFICATE and MILLRACE_TLS_KEY must be set, or neither"
    ):
        load_settings(ServiceSettings, {"MILLRACE_TLS_CERTIFICATE": "/c.pem"})
    (tmp_path / "ca.pem").write_text("nothing")
    for file in ("absent.pem", "ca.pem"):
        with pytest.raises(MillraceError, match=f"MILLRACE_TLS_CA = .*{file}"):
            trust(str(tmp_path / file))
    assert trust("") is True
