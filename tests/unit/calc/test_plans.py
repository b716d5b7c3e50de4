"""Streams' plans are kept while what they name of the catalog stays as it was."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from calc_svc.planning.plans import Plans
from calc_svc.store.catalog import CatalogView
from millrace_core.catalog import Record, StreamEntry, encode, key_of
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Child, Column, Database
from millrace_core.model.types import DataType
from millrace_core.plan import Plan

from ..plan.conftest import CHILDREN, METERS, NT, make_spec


class Desk:
    """A catalog that is told of records, and the plans of one stream."""

    def __init__(self) -> None:
        self.view = CatalogView()
        self.spec = make_spec("SELECT count(*), max(v) FROM nt WHERE ts >= _twstart")
        self.plans = Plans(self.view)
        self.tell(Database("d"), METERS, *CHILDREN, NT, StreamEntry(self.spec, "Running", 1, 1))

    def tell(self, *records: Record) -> None:
        for record in records:
            self.view.apply(self.view.position, key_of(record), encode(record))

    def drop(self, record: Record) -> None:
        self.view.apply(self.view.position, key_of(record), None)

    def plan(self) -> Plan:
        return self.plans.of(self.spec)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def renamed(record: Any, name: str) -> Any:
    return msgspec.structs.replace(record, name=name, uid=record.uid + 1_000)


def test_tables_of_others_come_and_go(desk: Desk) -> None:
    plan = desk.plan()
    other = renamed(NT, "other")
    desk.tell(other)
    assert desk.plan() is plan
    desk.drop(other)
    assert desk.plan() is plan
    desk.tell(Child("d", "later", "meters", CHILDREN[0].tags))
    assert desk.plan() is plan


def test_a_table_that_it_names_has_another_column(desk: Desk) -> None:
    plan = desk.plan()
    desk.tell(msgspec.structs.replace(NT, columns=(*NT.columns, Column("more", DataType("INT")))))
    anew = desk.plan()
    assert anew is not plan
    assert desk.plan() is anew
    desk.tell(renamed(NT, "other"))
    assert desk.plan() is anew


def test_a_table_that_it_names_is_dropped_and_made_again(desk: Desk) -> None:
    plan = desk.plan()
    desk.drop(NT)
    with pytest.raises(MillraceError) as caught:
        desk.plan()
    assert caught.value.code is ErrorCode.UNKNOWN_TABLE
    desk.tell(msgspec.structs.replace(NT, uid=NT.uid + 1_000))
    anew = desk.plan()
    assert anew is not plan
    assert NT.uid + 1_000 in [source.table.uid for source in anew.sources if source.table is not None]


def test_another_query_of_the_stream_has_its_own(desk: Desk) -> None:
    plan, count = desk.plan(), msgspec.structs.replace(desk.spec, query="SELECT count(*) FROM nt")
    assert desk.plans.of(count) is not plan
    assert desk.plan() is plan
    assert desk.plans.of(count) is desk.plans.of(count)


def test_a_stream_that_is_dropped_is_forgotten(desk: Desk) -> None:
    desk.plan()
    desk.drop(StreamEntry(desk.spec, "Running", 1, 1))
    desk.plans.of(msgspec.structs.replace(desk.spec, uid=99))
    assert [uid for uid, _ in desk.plans._known] == [99]
