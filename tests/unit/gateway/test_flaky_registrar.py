"""The registrar over a log that fails: what is committed is in the catalog."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
import pytest
import structlog
from hypothesis import example, given, settings
from hypothesis import strategies as st

from api_gateway.calc_client import CalcClient
from api_gateway.catalog.topics import WalTopics
from api_gateway.catalog.writer import CatalogWriter
from api_gateway.context import Context
from api_gateway.settings import GatewaySettings
from api_gateway.upkeep import registrations as module
from api_gateway.upkeep.registrations import Registrar
from api_gateway.watching.status_board import StatusBoard
from millrace_core.catalog import Catalog, StreamEntry, encode, key_of
from millrace_core.model.schema import Child, Column, Database, Table
from millrace_core.model.stream import Duration, Output, OutputTag, StreamSpec
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.trigger.types import Period
from millrace_core.wire import registrations
from millrace_core.wire.registrations import OutputGone, OutputWanted, Registration
from millrace_core.wire.topics import CATALOG, REGISTRATIONS, TOPICS, wal_topic
from millrace_service import ServiceToken
from millrace_service.life import Work
from millrace_wal import MemoryLog, Message, replay
from millrace_wal.flaky import FAILURES, KILLS, FlakyLog, InjectedFault

from ...conftest import examples
from ...works import Steps

NONE, BEFORE, AFTER, HALF = InjectedFault.NONE, InjectedFault.BEFORE, InjectedFault.AFTER, InjectedFault.HALF
COLUMNS = (Column("ts", TIMESTAMP), Column("v", DataType.of("INT", None)))
TAG = Column("site", DataType.of("INT", None))
METERS = Table("d", "meters", "super", 1, "ms", COLUMNS, (TAG,))
OUT = Output("d", "out", COLUMNS, (OutputTag(TAG, ""),))
STREAM = StreamEntry(
    StreamSpec(7, "d", "s", "", Period(Duration(1, "s")), output=OUT), "Running", 0, 0
)  # fmt: skip
Event = tuple[str, int]


class Gateway:
    """A gateway's registrar, and what calc-svc asks of it."""

    def __init__(self) -> None:
        self.log = FlakyLog(MemoryLog(), on_commit=self.committed)
        inner = self.log.log
        inner.ensure_topics([*TOPICS, (wal_topic("d", "meters"), 2)])
        for record in (Database("d"), METERS, STREAM):
            inner.append([Message(CATALOG.name, key_of(record), encode(record))])
        self.asked: list[list[tuple[Registration, int]]] = [[] for _ in inner.end_offsets(REGISTRATIONS.name)]
        self.incarnations: dict[int, int] = {}
        self.reached: dict[int, int] = {}
        self.steps = Steps(self.make)

    def make(self) -> Work:
        board, settings = StatusBoard(), GatewaySettings(accept_seconds=0)
        topics = WalTopics(self.log, board, 0, 600)
        writer = CatalogWriter(self.log)
        context = Context(
            self.log,
            writer,
            board,
            topics,
            CalcClient(
                "http://calc",
                1,
                ServiceToken("a-token-of-this-test"),
                httpx.MockTransport(lambda _: httpx.Response(503)),
            ),
            settings,
            structlog.get_logger(),
        )
        writer.load()
        return Registrar(self.log, context)

    def ask(self, kind: str, number: int) -> None:
        """calc-svc found a child of the output table, misses this table, or wants a child of it gone."""
        wanted: Registration
        born = self.incarnations.setdefault(number, 0)
        if kind in ("child", "gone") and ("d", "out") not in self.catalog().tables:
            kind = "table"
        if kind == "child":
            wanted = Child("d", "out", f"o{number}", (number,), born)
        elif kind == "meter":
            wanted = Child("d", "meters", f"m{number}", (number,))
        elif kind == "gone":
            self.incarnations[number] = born + 1
            wanted = OutputGone("d", "out", f"o{number}")
        else:
            wanted = OutputWanted(7)
        ((partition, _),) = self.log.log.append([Message(*registrations.encode(wanted))])
        self.asked[partition].append((wanted, born))

    def catalog(self) -> Catalog:
        """What the topic holds."""
        catalog = Catalog()
        for record in replay(self.log.log, CATALOG.name):
            catalog.apply(record.key or b"", record.value)
        return catalog

    def committed(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        assert group == "api-gateway"
        catalog = self.catalog()
        for (_, partition), offset in offsets.items():
            self.reached[partition] = max(self.reached.get(partition, 0), offset)
            for wanted, born in self.asked[partition][:offset]:
                assert done(catalog, wanted, born), f"{wanted} is committed"


def done(catalog: Catalog, wanted: Registration, born: int) -> bool:
    """Whether this has had its effect, whatever was asked later; ``born``: the incarnation that it means."""
    if isinstance(wanted, OutputWanted):
        return ("d", "out") in catalog.tables
    name = wanted.name if isinstance(wanted, Child) else wanted.gone
    found, grave = catalog.children.get(("d", name)), catalog.tombstones.get(("d", name))
    if isinstance(wanted, OutputGone):
        return found is None or found.incarnation > born
    return found is not None or (grave is not None and grave.incarnation >= born)


kinds = st.sampled_from(["child", "meter", "gone", "table"])
events = st.lists(st.tuples(kinds, st.integers(0, 2)), max_size=4)
faults = st.lists(st.sampled_from(FAILURES + KILLS), max_size=6)
TABLE: Event = ("table", 0)


@settings(max_examples=examples(100))
# the append to the catalog fails: what was read is not passed over
@example([([("meter", 0)], [NONE] * 4 + [BEFORE]), ([("meter", 1)], [])])
@example([([("meter", 0), ("meter", 1)], [NONE] * 4 + [HALF]), ([("meter", 2)], [])])
@example([([TABLE], [NONE] * 7 + [AFTER]), ([TABLE], [])])
@given(st.lists(st.tuples(events, faults), min_size=1, max_size=6))
def test_what_is_committed_is_in_the_catalog(rounds: list[tuple[list[Event], list[InjectedFault]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "POLL_SECONDS", 0)
        gateway = Gateway()
        for wanted, what_fails in rounds:
            for event in wanted:
                gateway.ask(*event)
            gateway.log.give(what_fails)
            gateway.steps.step()
            gateway.steps.step()
        gateway.log.give([])
        for _ in range(4):
            gateway.steps.step()
    ends = gateway.log.log.end_offsets(REGISTRATIONS.name)
    assert {part: gateway.reached.get(part, 0) for part in ends} == ends, "everything is done and committed"
    tables = [r for r in replay(gateway.log.log, CATALOG.name) if r.key == key_of(OUT_TABLE)]
    assert len(tables) <= 1, "the output table was made once, under one uid"


OUT_TABLE = Table("d", "out", "super", 9, "ms", COLUMNS, (TAG,))
