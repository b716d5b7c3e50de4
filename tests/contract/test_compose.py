"""docker-compose.yml, the Dockerfiles and the services agree: names, ports, variables, what is installed."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from api_gateway.settings import GatewaySettings
from calc_svc.settings import CalcSettings
from millrace import broker, kafka_users
from millrace.processes import LOG_BYTES
from millrace.settings import SERVICES, Service
from millrace_core.wire.topics import WAL_PREFIX
from millrace_service import KafkaAccess, ServiceToken
from millrace_service.settings import PREFIX, ServiceSettings
from notify_svc.settings import NotifySettings
from trigger_svc.settings import TriggerSettings

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SASL: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.sasl.yml").read_text())
"""What lies over it for a broker with users."""
READ: dict[str, type[ServiceSettings]] = {
    "api-gateway": GatewaySettings, "trigger-svc": TriggerSettings, "calc-svc": CalcSettings,
    "notify-svc": NotifySettings,
}  # fmt: skip
each_service = pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)


def _dockerfile(service: Service) -> str:
    name: str = COMPOSE["services"][service.name]["build"]["dockerfile"]
    return (ROOT / name).read_text()


def test_kafka_and_the_four_services() -> None:
    assert set(COMPOSE["services"]) == {"kafka", *(service.name for service in SERVICES)}
    used = {volume.split(":")[0] for one in COMPOSE["services"].values() for volume in one["volumes"]}
    assert used == set(COMPOSE["volumes"])


@pytest.mark.parametrize("name", sorted(COMPOSE["services"]))
def test_ports_are_published_on_loopback_only(name: str) -> None:
    assert all(re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port) for port in COMPOSE["services"][name]["ports"])


@pytest.mark.parametrize("name", sorted(COMPOSE["services"]))
def test_logs_begin_anew_when_those_of_the_embedded_ones_do(name: str) -> None:
    logging = COMPOSE["services"][name]["logging"]
    assert logging["options"] == {"max-size": f"{LOG_BYTES >> 20}m", "max-file": "2"}
    assert logging["driver"] in ("local", "json-file"), "these know the options"


@each_service
def test_a_service_listens_where_it_is_published_and_asked(service: Service) -> None:
    one = COMPOSE["services"][service.name]
    assert one["ports"] == [f"127.0.0.1:{service.port}:{service.port}"]
    assert one["environment"][service.variable] == str(service.port)
    assert f"http://127.0.0.1:{service.port}/healthz" in one["healthcheck"]["test"][-1]
    assert f"EXPOSE {service.port}\n" in _dockerfile(service)


@each_service
def test_each_variable_is_one_that_services_read(service: Service) -> None:
    given = set(COMPOSE["services"][service.name]["environment"])
    given |= set(re.findall(r"\b(MILLRACE_\w+)=", _dockerfile(service)))
    assert given >= {"MILLRACE_BROKER", "MILLRACE_DATA_DIR", "MILLRACE_HOST"}
    assert given <= {PREFIX + name.upper() for name in READ[service.name].model_fields}


def test_addresses_name_services_of_the_file() -> None:
    environment = COMPOSE["x-environment"]
    assert environment["MILLRACE_BROKER"] == "kafka:9092"
    assert "INSIDE://kafka:9092" in COMPOSE["services"]["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    ports = {f"http://{service.name}:{service.port}" for service in SERVICES}
    urls = {value for name, value in environment.items() if name.endswith("_URL")}
    assert urls == ports


@each_service
def test_the_services_share_one_token_that_stands_in_no_file_of_ours(service: Service) -> None:
    one = COMPOSE["services"][service.name]
    assert one["secrets"] == ["service-token"]
    assert one["environment"]["MILLRACE_SERVICE_TOKEN_FILE"] == "/run/secrets/service-token"
    assert "MILLRACE_SERVICE_TOKEN" not in one["environment"]
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert COMPOSE["secrets"]["service-token"]["file"].endswith(":-./secrets/service-token}")
    assert "/secrets/" in ignored


def test_the_container_is_the_broker_of_ivy_xml_with_the_embedded_ones_settings() -> None:
    kafka = COMPOSE["services"]["kafka"]
    version = re.search(r'name="kafka_2\.13" rev="([\d.]+)"', (ROOT / "ivy.xml").read_text())
    assert version is not None
    assert kafka["image"] == f"apache/kafka:{version[1]}"
    of_the_machine = {"listener.security.protocol.map", "process.roles", "node.id"}
    for variable, value in kafka["environment"].items():
        name = variable.removeprefix("KAFKA_").lower().replace("_", ".")
        if name in broker.SETTINGS and name not in of_the_machine:
            assert value == str(broker.SETTINGS[name]), name


@each_service
def test_a_dockerfile_runs_its_service_from_the_lock(service: Service) -> None:
    text = _dockerfile(service)
    assert f'CMD ["python", "-m", "{service.module}"]' in text
    assert importlib.util.find_spec(f"{service.module}.__main__") is not None
    assert "--constraint requirements.lock" in text
    assert "USER millrace" in text
    for source in re.findall(r"^COPY (\S+) ", text, re.MULTILINE):
        assert (ROOT / source).exists(), source


@each_service
def test_an_image_has_java_if_its_service_needs_spark_and_our_packages_it_depends_on(
    service: Service,
) -> None:
    project = tomllib.loads((ROOT / service.name / "pyproject.toml").read_text())["project"]
    text = _dockerfile(service)
    needs_spark = any(one.startswith("pyspark") for one in project["dependencies"])
    assert ("openjdk-17-jre-headless" in text) == needs_spark
    for name in ("core", "wal", "service", "spark"):
        assert (f"millrace-{name}" in project["dependencies"]) <= (f"COPY libs/{name} " in text)


def test_what_is_copied_is_not_ignored() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for service in SERVICES:
        for source in re.findall(r"^COPY (\S+) ", _dockerfile(service), re.MULTILINE):
            assert source.split("/")[0] in kept


def test_the_container_with_users_asks_as_the_embedded_broker_does() -> None:
    kafka = SASL["services"]["kafka"]
    given = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in kafka["environment"].items() if name != "KAFKA_OPTS"
    }  # fmt: skip
    embedded = kafka_users.properties(KafkaAccess("SASL_PLAINTEXT", user="millrace"), Path())
    embedded.pop("inter.broker.listener.name")  # which the other file names
    protocols = str(embedded.pop("listener.security.protocol.map")).split(":")[1:]
    assert {part.split(",")[0] for part in protocols} == {"SASL_PLAINTEXT"}
    assert set(given.pop("listener.security.protocol.map").split(",")) == {
        f"{name}:SASL_PLAINTEXT" for name in ("INSIDE", "OUTSIDE", "CONTROLLER")
    }
    assert given == embedded
    assert kafka["environment"]["KAFKA_OPTS"] == "-Djava.security.auth.login.config=/run/secrets/kafka-users"


def test_a_producer_of_the_container_may_write_rows_alone() -> None:
    acls = SASL["services"]["kafka-acls"]
    assert acls["image"] == COMPOSE["services"]["kafka"]["image"]
    words = " ".join(acls["command"])
    assert f"--allow-principal User:{kafka_users.PRODUCER} --operation Write --topic {WAL_PREFIX} " in words


@each_service
def test_a_service_says_who_it_is_to_a_broker_with_users(service: Service) -> None:
    one, plain = SASL["services"][service.name], COMPOSE["services"][service.name]
    assert set(one["environment"]) <= {PREFIX + name.upper() for name in READ[service.name].model_fields}
    assert one["environment"]["MILLRACE_KAFKA_PASSWORD_FILE"] == "/run/secrets/kafka-password"
    # a list of the first file is replaced by that of the second
    assert set(one["secrets"]) == {*plain["secrets"], "kafka-password"}
    assert set(one["depends_on"]) == {*plain["depends_on"], "kafka-acls"}


def test_the_secrets_are_made_as_the_document_says(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "SECURITY.md").read_text()
    (script,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    subprocess.run(["/bin/bash", "-euc", script], cwd=tmp_path, check=True)
    made = {file.name: file.read_text() for file in (tmp_path / "secrets").iterdir()}
    assert set(SASL["secrets"]) <= set(made)
    services, producer = made["kafka-password"], made["kafka-producer-password"]
    known = kafka_users.jaas("millrace", services, {"producer": producer})
    assert made["kafka-users"].split() == known.split()
    access = KafkaAccess("SASL_PLAINTEXT", "PLAIN", "millrace", services)
    assert dict(line.split("=", 1) for line in made["kafka-client"].splitlines()) == access.java
    assert len(services) > 30
    assert ServiceToken(made["service-token"].strip())


@pytest.mark.parametrize("more", [(), ("-f", str(ROOT / "docker-compose.sasl.yml"))])
def test_docker_itself_accepts_the_files(more: tuple[str, ...]) -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True).returncode:
        pytest.skip("no docker with the compose plugin here")
    done = subprocess.run(
        [docker, "compose", "-f", str(ROOT / "docker-compose.yml"), *more, "config", "-q"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
