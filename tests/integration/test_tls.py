"""A whole stack over TLS: services, the command line and the conformance runner talk by https."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from millrace.settings import SERVICES, StackSettings
from millrace.stack import Stack

ROOT = Path(__file__).parents[2]
CASE = ROOT / "tests" / "conformance" / "cases" / "results" / "notify-unreachable-address-is-dropped.yaml"
pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def secure(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = StackSettings.on_free_ports(tmp_path_factory.mktemp("secure"), jars)
    stack = Stack(settings.with_own_certificate())
    try:
        stack.up()
        yield stack
    finally:
        stack.down()


def test_everything_works_over_it(secure: Stack) -> None:
    for service in SERVICES:
        url = secure.settings.url(service.name)
        assert url.startswith("https://")
        assert secure.ask(service.name, "/healthz").json()["ready"] is True
        with pytest.raises(httpx.TransportError):
            httpx.get(url.replace("https", "http") + "/healthz")
    # ports and folder alone: the rest is found there
    known = {name: text for name, text in secure.settings.variables().items() if "TLS" not in name}
    for command in (
        ["millrace", "sql", "SELECT 1"],
        ["millrace", "status"],
        ["millrace_conformance", str(CASE)],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            env=os.environ | known, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
