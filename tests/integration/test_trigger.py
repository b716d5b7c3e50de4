"""trigger-svc on the real parts: a broker, Spark, and the service as a process that can be killed."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from tests.integration.trigger_client import Client, windows

from millrace.java import Java
from millrace.processes import free_port
from millrace_core.model.schema import child_uid
from millrace_core.wire import control
from millrace_core.wire.events import TriggerBatch
from millrace_core.wire.operations import Register, encode_operation
from millrace_core.wire.topics import wal_topic
from millrace_wal import Message
from trigger_svc.ledger.cuts import Cut, Cuts

pytestmark = pytest.mark.java
SHOWN = {"Authorization": "Bearer a-token-of-these-tests"}


class Service:
    """One trigger-svc process over a folder of its own."""

    def __init__(self, broker: str, jars: Path, java: Java, folder: Path) -> None:
        self.port = free_port()
        self.folder, self.path = folder, folder / "trigger.log"
        self.environment = os.environ | {
            "MILLRACE_BROKER": broker, "MILLRACE_DATA_DIR": str(folder), "MILLRACE_JARS_DIR": str(jars),
            "MILLRACE_TRIGGER_PORT": str(self.port), "MILLRACE_SLOTS": "8",
            # so that batches of all tests go both ways, through the driver and through workers
            "MILLRACE_TRIGGER_SMALL_BATCH": "6", "MILLRACE_TRIGGER_BACKLOG": "6",
            "MILLRACE_TRIGGER_NEEDLESS_TOPICS": "0",  # an output table is left out at once
            "JAVA_HOME": str(java.home), "MILLRACE_SERVICE_TOKEN": "a-token-of-these-tests",
        }  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, wait: bool = True) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "trigger_svc"],
                env=self.environment, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + 180
        while wait and not self.ready():
            assert self.process.poll() is None and time.monotonic() < until, self.log()
            time.sleep(0.1)

    def ready(self) -> bool:
        try:
            return self.ask("/healthz").status_code == 200
        except httpx.HTTPError:
            return False

    def ask(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", headers=SHOWN, timeout=5)

    def left_out(self) -> list[int]:
        """How many topics the query has left out, each time that it began."""
        lines = self.path.read_text().splitlines()
        return [
            json.loads(line)["left_out"]
            for line in lines
            if '"topics that the trigger query does not read"' in line
        ]

    def await_left_out(self, count: int, more_than: int = 0) -> int:
        """Waits until the query leaves out this many topics and has begun more often than that; how often it
        has begun by then."""
        until = time.monotonic() + 120
        while (begun := self.left_out())[-1] != count or len(begun) <= more_than:
            assert time.monotonic() < until, f"{begun}\n{self.log()}"
            time.sleep(0.2)
        return len(begun)

    def log(self) -> str:
        return self.path.read_text()[-4000:]

    def kill(self) -> None:
        """kill -9 of the service and of everything that it started."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(60)


@pytest.fixture(scope="module")
def client(broker: str) -> Client:
    return Client(broker)


@pytest.fixture(scope="module", params=["1", "0"], ids=["ahead", "micro-batches"])
def service(
    request: pytest.FixtureRequest,
    client: Client,
    broker: str,
    jars: Path,
    java: Java,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    """Rows are evaluated ahead of the micro-batches, or by these alone."""
    one = Service(broker, jars, java, tmp_path_factory.mktemp("trigger"))
    one.environment["MILLRACE_JUDGE_AHEAD"] = request.param
    one.start()
    yield one
    one.kill()
    client.forget()


def test_rows_become_trigger_events(client: Client, service: Service) -> None:
    table = client.table("Power Meters")  # a name that a topic must escape
    spec = client.define(table)
    for i in range(10):
        client.write(table, f"m{i}", 1, 5, 11)
    found = client.events(spec, 10)
    assert windows(found) == {((f"m{i}",), 0, 2) for i in range(10)}
    assert {event.group.id for event in found} == {child_uid("d", f"m{i}") for i in range(10)}
    now = time.time_ns()
    assert all(now - 120e9 < event.localtime <= now + 1e9 for event in found)


def test_tag_groups_and_the_whole_table(client: Client, service: Service) -> None:
    table = client.table("pumps")
    by_site, whole = client.define(table, ("site",)), client.define(table, ())
    topic = wal_topic("d", "pumps")
    for i in range(6):
        made = encode_operation(Register({"site": i % 2}))
        client.log.append([Message(topic, f"p{i}".encode(), made)])
    for i in range(6):
        client.write(table, f"p{i}", i)
    client.write(table, "p0", 10)
    client.write(table, "p1", 10)
    # tables reach a group in no promised order: a row that comes behind another table's makes a count unsure
    site = client.events(by_site, 2)
    assert {(event.group.key, event.start) for event in site} == {((0,), 0), ((1,), 0)}
    assert {event.rownum for event in site} <= {-1, 3}
    (one,) = client.events(whole, 1)
    assert (one.group.id, one.group.key, one.start) == (0, (), 0)


def test_messages_with_and_without_key_meet_in_a_normal_table(client: Client, service: Service) -> None:
    table = client.table("Loom 1", "normal")
    spec = client.define(table, ())
    client.write(table, None, 1)
    client.write(table, "Loom 1", 2)
    client.await_read(table)  # the two may lie in different partitions
    client.write(table, None, 12)
    (event,) = client.events(spec, 1)
    assert (event.start, event.rownum, event.group.table) == (0, 2, "Loom 1")


def test_a_stop_holds_when_it_is_answered(client: Client, service: Service) -> None:
    table = client.table("stopped")
    spec = client.define(table)
    client.write(table, "c", 1, 12)
    assert len(client.events(spec, 1)) == 1
    client.control(control.StopStream(spec.uid))
    client.write(table, "c", 23)
    client.control(control.StartStream(spec.uid, client.log.end_offsets(wal_topic("d", "stopped")), 1))
    client.write(table, "c", 34)
    assert windows(client.events(spec, 3)) == {(("c",), 0, 1), (("c",), 10, 1), (("c",), 20, 0)}


def test_a_table_dropped_and_made_again(client: Client, service: Service) -> None:
    """The successor's first rows are judged, the predecessor's never again, whatever their offsets are."""
    topic = wal_topic("d", "twice")
    for before, after in ((30, 2), (2, 30), (1, 1)):
        table = client.table("twice")
        spec = client.define(table)
        for i in range(before):
            client.write(table, "c", 10 * i)
        client.events(spec, before - 1)
        client.control(control.DropTable(table.uid, topic))
        client.log.empty_topics([topic])
        again = client.table("twice")
        successor = client.define(again)
        for i in range(after + 1):
            client.write(again, "c", 1 + 10 * i, 2 + 10 * i)
        found = client.events(successor, after)
        assert windows(found) == {(("c",), 10 * i, 2) for i in range(after)}
        client.control(control.DropTable(again.uid, topic))
        client.log.empty_topics([topic])
        assert len(client.events(spec, before, within=1)) == before - 1, "the old stream takes no new rows"


def test_an_output_table_is_read_while_a_stream_triggers_on_it(client: Client, service: Service) -> None:
    """The rows from a stream's beginning on, and all rows of others, however often the query begins again."""
    source, middle, far = client.table("made"), client.table("made_out"), client.table("made_far")
    seconds = iter(range(1000))

    def rows() -> None:
        client.write(source, "m", *itertools.islice(seconds, 4))

    others = service.left_out()[-1]  # tests before this one, on the same broker, left streams behind
    first = client.define(source, output=middle)
    rows()
    begun = service.await_left_out(others + 1)
    rows()
    client.write(middle, "o", 1, 2)  # nobody's
    second = client.define(middle, output=far)
    rows()
    client.write(middle, "o", 3, 12)
    assert windows(client.events(second, 1)) == {(("o",), 0, 1)}
    # it has left out another one
    assert service.await_left_out(others + 1, begun) > begun
    rows()
    client.control(control.DropStream(second.uid))
    rows()
    service.await_left_out(others + 2)
    service.kill()
    client.write(middle, "o", 13, 14)  # nobody's
    client.waits = False  # nobody answers now
    third = client.define(middle)
    client.waits = True
    client.write(middle, "o", 15, 22)
    rows()
    service.start()
    rows()
    client.write(middle, "o", 30)
    assert windows(client.events(third, 2)) == {(("o",), 10, 1), (("o",), 20, 1)}
    found = client.events(first, 2)
    assert windows(found) == {(("m",), 0, 10), (("m",), 10, 10)}


def test_killed_and_started_again(client: Client, service: Service) -> None:
    """kill -9 with rows in the log that were or were not taken in: each window once, under its one id."""
    table = client.table("killed")
    by_child, whole = client.define(table, watermark=3), client.define(table, ())
    children = [f"k{i}" for i in range(8)]
    for second in range(0, 40, 4):
        for child in children:
            client.write(table, child, second)
        if second in (12, 28):
            service.kill()
            service.start(wait=second == 28)
    until = time.monotonic() + 180
    while not service.ready():
        assert time.monotonic() < until, service.log()
        time.sleep(0.1)
    for child in children:
        client.write(table, child, 53)
    found = client.events(by_child, 5 * len(children))
    counts = {0: 3, 10: 2, 20: 3, 30: 2, 40: 0}
    assert windows(found) == {((child,), start, rows) for child in children for start, rows in counts.items()}
    # tables reach this group in no certain order, so some of its windows may be told again in between
    closed = client.events(whole, 5, cause="LIVE")
    assert {event.start // 1000 for event in closed} == set(counts)
    numbers: dict[tuple[int, int, int], TriggerBatch] = {}
    for batch in client.batches:
        same = numbers.setdefault((batch.stream, batch.slot, batch.number), batch)
        assert same == batch, "a batch that comes again says the same"


def test_a_worker_that_dies_costs_nothing(client: Client, service: Service) -> None:
    table = client.table("workers")
    spec = client.define(table)
    client.write(table, "c", 1, 12)
    assert len(client.events(spec, 1)) == 1
    assert service.process is not None
    for child in psutil.Process(service.process.pid).children(recursive=True):
        # a worker may end by itself while they are looked through
        with contextlib.suppress(psutil.NoSuchProcess):
            if "pyspark.daemon" in " ".join(child.cmdline()):
                child.kill()
    client.write(table, "c", 23)
    client.write(table, "c", 34)
    assert windows(client.events(spec, 3)) == {(("c",), 0, 1), (("c",), 10, 1), (("c",), 20, 1)}


def test_a_large_batch_that_a_kill_interrupted_is_done_again(client: Client, service: Service) -> None:
    """Even if not all partitions of its topic have rows in it."""
    table = client.table("large")
    spec = client.define(table)
    client.write(table, "c", 1, 12)
    assert len(client.events(spec, 1)) == 1
    service.kill()
    client.write(table, "c", 23)
    topic = wal_topic("d", "large")
    every = client.log.end_offsets(topic)
    ends = {partition: end for partition, end in every.items() if end}
    assert len(ends) == 1 < len(every)
    cuts = Cuts(service.folder / "trigger" / "slots")
    cuts.begin(cuts.last)
    cuts.add(Cut({topic: ends}, large=True))
    cuts.close()
    service.start()
    client.write(table, "c", 34)
    assert windows(client.events(spec, 3)) == {(("c",), 0, 1), (("c",), 10, 1), (("c",), 20, 1)}


def test_metrics_tell_what_was_dropped(client: Client, service: Service) -> None:
    table = client.table("bad")
    spec = client.define(table)
    client.log.append([Message(wal_topic("d", "bad"), b"c", b"{nonsense")])
    client.write(table, "c", 1, 12)
    assert len(client.events(spec, 1)) == 1
    line = f'millrace_trigger_dropped{{cause="undecodable",stream="{spec.uid}"}} 1.0'
    until = time.monotonic() + 20
    while line not in (text := service.ask("/metrics").text):
        assert time.monotonic() < until, text
        time.sleep(0.5)
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values["millrace_trigger_batch_seconds_count"]) > 0
    assert float(values["millrace_trigger_messages_total"]) > 0


def test_a_checkpoint_that_is_damaged_costs_nothing(client: Client, service: Service) -> None:
    """A window that was open closes where it should."""
    table = client.table("kept")
    spec = client.define(table)
    client.write(table, "c", 1, 2, 12, 13)
    assert windows(client.events(spec, 1)) == {(("c",), 0, 2)}
    service.kill()
    for what in ("offsets", "commits"):
        for path in (service.folder / "trigger" / "query" / what).glob("*"):
            path.write_text("v1\nnonsense")
    client.write(table, "c", 14, 22)
    service.start()
    assert windows(client.events(spec, 2)) == {(("c",), 0, 2), (("c",), 10, 3)}


def test_it_stops_when_told(service: Service) -> None:
    assert service.stop() == 0


def test_states_that_cannot_be_read_are_told_until_they_are_gone(
    client: Client, broker: str, jars: Path, java: Java, tmp_path: Path
) -> None:
    (tmp_path / "trigger" / "slots").mkdir(parents=True)
    (tmp_path / "trigger" / "slots" / "3.slots").write_text("nonsense")
    one = Service(broker, jars, java, tmp_path)
    one.start(wait=False)

    def problem() -> str:
        with contextlib.suppress(httpx.HTTPError):
            return str(one.ask("/healthz").json()["detail"].get("problem", ""))
        return ""

    def wait(until: Callable[[], object]) -> None:
        end = time.monotonic() + 120
        while not until():
            assert time.monotonic() < end, one.log()
            time.sleep(0.2)

    try:
        wait(problem)
        assert "3.slots is damaged" in problem() and "start afresh" in problem() and not one.ready()
        shutil.move(tmp_path / "trigger", tmp_path / "aside")
        wait(one.ready)
    finally:
        one.kill()
