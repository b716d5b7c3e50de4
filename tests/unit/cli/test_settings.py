"""A stack's folders and ports from the environment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from millrace.broker import SETTINGS, cluster_id, properties
from millrace.kafka_users import jaas
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


def test_a_stack_whose_broker_asks_who_its_clients_are(tmp_path: Path) -> None:
    settings = StackSettings.on_free_ports(tmp_path / "data", tmp_path / "jars").with_own_certificate()
    settings = settings.with_kafka("SASL_SSL")
    assert replace(StackSettings.from_environment(settings.variables()), tls=True) == settings
    access = settings.kafka
    assert access == settings.kafka, "the password is made once"
    assert access.password == (tmp_path / "data" / "kafka-password").read_text()
    assert access.password not in str(settings.variables())
    assert access.ca == settings.tls_ca
    lines = dict(
        line.split("=", 1) for line in properties(1, 2, tmp_path, access, tmp_path / "k").splitlines()
    )
    assert lines["listeners"] == "CLIENTS://127.0.0.1:1,CONTROLLER://127.0.0.1:2"
    assert lines["listener.security.protocol.map"] == "CLIENTS:SASL_SSL,CONTROLLER:SASL_SSL"
    assert lines["super.users"] == "User:millrace"
    assert access.password not in str(lines)


def test_later_commands_find_out_how_the_broker_is_reached(tmp_path: Path) -> None:
    told = {"MILLRACE_DATA_DIR": str(tmp_path)}
    assert StackSettings.from_environment(told).kafka_protocol == "PLAINTEXT"
    (tmp_path / "kafka-protocol").write_text("SASL_PLAINTEXT")
    assert StackSettings.from_environment(told).kafka.user == "millrace"
    told["MILLRACE_KAFKA_PROTOCOL"] = "PLAINTEXT"
    assert StackSettings.from_environment(told).kafka_protocol == "PLAINTEXT"


def test_a_user_is_no_other_one() -> None:
    with pytest.raises(MillraceError, match="MILLRACE_KAFKA_USER: producer"):
        jaas("producer", "a", {"producer": "b"})
