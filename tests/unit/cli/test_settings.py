"""A stack's folders and ports from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.broker import SETTINGS, cluster_id, properties
from millrace.settings import SERVICES, StackSettings, project_root, service
from millrace_core.errors import MillraceError


def test_defaults_lie_in_the_projects_folder() -> None:
    settings = StackSettings.from_environment({})
    assert settings.data_dir == (project_root() / ".millrace").resolve()
    assert settings.broker == "127.0.0.1:19092"
    assert settings.url("api-gateway") == "http://127.0.0.1:6041"
    assert settings.ports == {"api-gateway": 6041, "calc-svc": 6051, "notify-svc": 6061, "trigger-svc": 6071}


def test_what_a_stack_tells_its_services_gives_the_same_stack_again(tmp_path: Path) -> None:
    settings = StackSettings.on_free_ports(tmp_path / "data", tmp_path / "jars")
    assert StackSettings.from_environment(settings.variables()) == settings
    assert len({settings.broker_port, *settings.ports.values()}) == 1 + len(SERVICES)


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http", ""])
def test_a_bad_port_is_named(port: str) -> None:
    with pytest.raises(MillraceError, match="MILLRACE_CALC_PORT must be a port from 1 to 65535"):
        StackSettings.from_environment({"MILLRACE_CALC_PORT": port})


@pytest.mark.parametrize("address", ["kafka.example:9092", "127.0.0.1", "127.0.0.1:x", "", "0.0.0.0:9092"])
def test_the_embedded_broker_is_on_loopback(address: str) -> None:
    with pytest.raises(MillraceError, match=r"MILLRACE_BROKER must be 127\.0\.0\.1:<port>"):
        StackSettings.from_environment({"MILLRACE_BROKER": address})


def test_an_unknown_service_is_refused_with_the_known_ones() -> None:
    assert service("calc-svc").module == "calc_svc"
    with pytest.raises(MillraceError, match="no service calc: the services are api-gateway, calc-svc"):
        service("calc")


def test_the_broker_listens_on_loopback_only() -> None:
    text = properties(9001, 9002, Path("/data/topics"))
    lines = dict(line.split("=", 1) for line in text.splitlines())
    assert lines["listeners"] == "PLAINTEXT://127.0.0.1:9001,CONTROLLER://127.0.0.1:9002"
    assert lines["controller.quorum.voters"] == "1@127.0.0.1:9002"
    assert lines["log.dirs"] == "/data/topics"
    assert lines.keys() > SETTINGS.keys()
    assert lines["auto.create.topics.enable"] == "false"


def test_cluster_ids() -> None:
    ids = {cluster_id() for _ in range(300)}
    assert len(ids) == 300
    assert all(len(one) == 22 and not one.startswith("-") for one in ids)
