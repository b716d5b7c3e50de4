"""The real parts that integration tests share: Java jars, one broker, one whole stack."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.broker import Broker
from millrace.jars import resolve
from millrace.java import Java, find_java
from millrace.processes import free_port
from millrace.settings import StackSettings
from millrace.stack import Stack

ROOT = Path(__file__).parents[2]


REAL = ("java", "stack")
"""Marks of the tests of this folder; ``make check`` does not even load it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and not any(map(item.get_closest_marker, REAL)):
            raise pytest.UsageError(
                f"{item.nodeid} has none of the marks {', '.join(REAL)}: it would never run"
            )


def _docker_answers() -> bool:
    """Whether a Docker engine (not just the client program) answers."""
    import docker
    from docker.errors import DockerException

    try:
        return bool(docker.from_env(timeout=2).ping())
    except DockerException:
        return False


@pytest.fixture(scope="session")
def java() -> Java:
    """The Java that the broker and Spark run on."""
    return find_java()


@pytest.fixture(scope="session")
def jars(java: Java) -> Path:
    """The folder with ``spark/*.jar`` and ``broker/*.jar``."""
    folder = Path(os.environ.get("MILLRACE_JARS_DIR", ROOT / ".jars"))
    resolve(java, ROOT / "ivy.xml", folder, print)
    return folder


@pytest.fixture(scope="session")
def broker(
    java: Java, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """``host:port`` of a fresh broker: a container where Docker answers, else an embedded one."""
    if _docker_answers():
        from testcontainers.kafka import KafkaContainer

        container = KafkaContainer().with_kraft().with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false")
        with container as kafka:
            yield kafka.get_bootstrap_server()
        return
    folder: Path = request.getfixturevalue("jars")
    embedded = Broker(java, folder, tmp_path_factory.mktemp("broker"), free_port())
    embedded.start()
    try:
        yield embedded.address
    finally:
        embedded.stop()


@pytest.fixture(scope="session")
def stack(
    jars: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """A whole running stack of the tests' own, on free ports; its start is shown."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def show(line: str) -> None:
        with capture.global_and_fixture_disabled():
            sys.stdout.write(f"\n  {line}")
            sys.stdout.flush()

    one = Stack(StackSettings.on_free_ports(tmp_path_factory.mktemp("stack"), jars), show)
    try:
        one.up()
        yield one
    finally:
        one.down()
