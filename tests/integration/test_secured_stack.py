"""A whole stack over TLS, with a broker that asks who its clients are: services, the command line and the
conformance runner work over it, and a producer's user may write rows and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path

import httpx
import pandas as pd
import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from iotdb.Session import Session
from iotdb.utils.exception import IoTDBConnectionException
from iotdb.utils.IoTDBConstants import TSDataType
from iotdb.utils.Tablet import Tablet

from millrace import kafka_users
from millrace.demo.steps import wait
from millrace.login import Login
from millrace.processes import free_port
from millrace.settings import SERVICES, StackSettings
from millrace.sql_client import Rest
from millrace.stack import NAMES, Stack
from millrace_core.errors import MillraceError
from millrace_wal import KafkaLog

ROOT = Path(__file__).parents[2]
CASE = ROOT / "tests" / "conformance" / "cases" / "results" / "notify-unreachable-address-is-dropped.yaml"
TAOSREST = """
import sys, taosrest
found = taosrest.connect(url=sys.argv[1], user="root", password="taosdata").query("SELECT server_version()")
assert "millrace" in found.data[0][0], found.data
"""
DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED,
          KafkaError.GROUP_AUTHORIZATION_FAILED)  # fmt: skip
RPC_PORT = free_port()
pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def secure(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = StackSettings.on_free_ports(tmp_path_factory.mktemp("secure"), jars)
    stack = Stack(settings.with_own_certificate().with_kafka("SASL_SSL"))
    try:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("MILLRACE_IOTDB_RPC_PORT", str(RPC_PORT))
            stack.up()
        yield stack
    finally:
        stack.down()


def as_user(stack: Stack, user: str, password: str) -> dict[str, object]:
    told = {"sasl.username": user, "sasl.password": password, "log_level": 0, "acks": "all"}
    return {**stack.settings.connection, **told, "message.timeout.ms": 10_000}


def as_producer(stack: Stack) -> dict[str, object]:
    password = kafka_users.password_of(kafka_users.PRODUCER, stack.settings.data_dir)
    return as_user(stack, kafka_users.PRODUCER, password)


def write(settings: Mapping[str, object], topic: str, value: str) -> KafkaError | None:
    """What became of one message."""
    said: list[KafkaError | None] = []
    producer = Producer(dict(settings))
    producer.produce(topic, value=value.encode(), on_delivery=lambda error, _: said.append(error))
    assert producer.flush(20) == 0
    return said[0]


def test_everything_works_over_it(secure: Stack) -> None:
    for service in SERVICES:
        url = secure.settings.url(service.name)
        assert url.startswith("https://")
        assert secure.ask(service.name, "/healthz").json()["ready"] is True
        with pytest.raises(httpx.TransportError):
            httpx.get(url.replace("https", "http") + "/healthz")
    # ports and folder alone: the rest is found there
    told = secure.settings.variables()
    known = {name: text for name, text in told.items() if "TLS" not in name and "KAFKA" not in name}
    assert StackSettings.from_environment(known) == secure.settings
    # the connector for Python logs in by one library and asks by another
    known["SSL_CERT_FILE"] = known["REQUESTS_CA_BUNDLE"] = secure.settings.tls_ca
    for command in (
        ["-m", "millrace", "sql", "SELECT 1"],
        ["-m", "millrace", "status"],
        ["-c", TAOSREST, secure.settings.url("api-gateway")],
        ["-m", "millrace_conformance", str(CASE)],
    ):
        done = subprocess.run(
            [sys.executable, *command],
            env=os.environ | known, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def test_rows_of_a_producer_make_results(secure: Stack) -> None:
    with Rest(
        secure.settings.url("api-gateway"), Login("root", "taosdata"), trust=secure.settings.trust
    ) as rest:
        rest.execute("CREATE DATABASE plant")
        rest.execute("CREATE TABLE plant.sensor (ts TIMESTAMP, v INT)")
        rest.execute(
            "CREATE STREAM plant.pairs COUNT_WINDOW(2) FROM plant.sensor INTO plant.sums"
            " AS SELECT _twstart AS ts, sum(v) AS total FROM %%trows"
        )
        rows = '[{"ts": 1767225600000, "v": 3}, {"ts": 1767225601000, "v": 4}]'
        assert write(as_producer(secure), "wal.plant.sensor", rows) is None

        def sums() -> list[object]:
            return [row[0] for row in rest.execute("SELECT total FROM plant.sums").rows]

        wait(lambda: sums() == [7], 60, lambda: f"the results are {sums()}")


def test_a_producer_may_write_rows_and_nothing_else(secure: Stack) -> None:
    settings = as_producer(secure)
    for topic in ("control", "catalog", "triggers", "status"):
        error = write(settings, topic, "{}")
        assert error is not None
        assert error.code() in DENIED, topic
    consumer = Consumer({**as_producer(secure), "group.id": "producer"})
    consumer.assign([TopicPartition("wal.plant.sensor", 0, 0)])
    message = consumer.poll(20)
    assert message is not None
    assert message.error().code() in DENIED
    consumer.close()
    admin = AdminClient(settings)
    with pytest.raises(KafkaException) as caught:
        admin.create_topics([NewTopic("wal.mine", 1, 1)])["wal.mine"].result(20)
    assert caught.value.args[0].code() in DENIED


def test_nobody_else_is_let_in(secure: Stack) -> None:
    address = secure.settings.broker
    trusted = {"security.protocol": "SSL", "ssl.ca.location": secure.settings.kafka_ca}
    wrong = {name: str(text) for name, text in as_user(secure, "producer", "guessed").items()}
    refused = {name: wrong[name] for name in secure.settings.kafka.librdkafka}
    for access, why in (({}, ""), (trusted, ""), (refused, "Authentication failed")):
        said = pytest.raises(MillraceError, match=f"cannot be reached: .*{why}")
        with KafkaLog(address, "stranger", access) as log, said:
            log.topics()


def test_no_secret_is_on_a_command_line_or_in_a_log(secure: Stack) -> None:
    secrets = [kafka_users.password_of(user, secure.settings.data_dir) for user in kafka_users.FILES]
    secrets.append((secure.settings.data_dir / "service-token").read_text())
    lines = []
    for status in secure.status():
        assert status.pid is not None
        process = psutil.Process(status.pid)
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):  # workers come and go
                lines.append(" ".join(one.cmdline()))
    assert len(lines) > len(NAMES)
    logs = [file.read_text(errors="replace") for file in (secure.settings.data_dir / "log").iterdir()]
    assert not [secret for secret in secrets if any(secret in text for text in (*lines, *logs))]
    for name in kafka_users.FILES.values():
        assert (secure.settings.data_dir / name).stat().st_mode & 0o077 == 0


def test_iotdb_s_sessions_do_too(secure: Stack) -> None:
    """Over the whole stack: types as calc-svc gives them, answers in parts, and what was written before."""
    authority = str(secure.settings.tls_folder / "ca.pem")
    session = Session(
        "127.0.0.1", RPC_PORT, zone_id="UTC", fetch_size=400, use_ssl=True, ca_certs=authority
    )  # fmt: skip
    session.open()
    count = 1000
    types = [TSDataType.INT32, TSDataType.FLOAT, TSDataType.TEXT, TSDataType.BOOLEAN, TSDataType.DATE]
    rows = [[at, at / 8, f"é{at}", at % 2 == 0 if at % 3 else None, date(2026, 1, 31)] for at in range(count)]
    session.insert_tablet(Tablet("root.tls.d", ["i", "f", "t", "b", "day"], types, rows, list(range(count))))
    frame = session.execute_query_statement("SELECT i, f, t, b, day FROM root.tls.d").todf()
    assert frame["Time"].tolist() == frame["root.tls.d.i"].tolist() == list(range(count))
    assert frame["root.tls.d.f"].tolist() == [row[1] for row in rows]
    assert frame["root.tls.d.t"].tolist() == [row[2] for row in rows]
    assert [None if cell is pd.NA else cell for cell in frame["root.tls.d.b"]] == [row[3] for row in rows]
    assert set(frame["root.tls.d.day"]) == {date(2026, 1, 31)}
    session.execute_non_query_statement(
        "SELECT count(i), avg(f) INTO root.tls.sums(n, mean) FROM root.tls.d GROUP BY ([0, 1000), 250ms)"
    )
    sums = session.execute_query_statement("SELECT n, mean FROM root.tls.sums").todf()
    assert sums["root.tls.sums.n"].tolist() == [250] * 4
    last = session.execute_last_data_query(["root.tls.d.i"], 0)
    assert last.has_next()
    assert [str(field) for field in last.next().get_fields()] == ["root.tls.d.i", "999", "INT32"]
    session.close()
    with pytest.raises(IoTDBConnectionException):
        Session("127.0.0.1", RPC_PORT, connection_timeout_in_ms=10_000).open()
