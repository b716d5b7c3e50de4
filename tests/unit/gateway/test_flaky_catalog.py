"""The catalog's writer over a log that fails: whoever looks and then writes sees what is in the topic."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from api_gateway.catalog.writer import CatalogWriter
from millrace_core.catalog import Catalog, key_of
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Table
from millrace_core.wire.topics import CATALOG
from millrace_wal import MemoryLog, replay
from millrace_wal.flaky import FAILURES, KILLS, FlakyLog, InjectedFault, Killed

from ...conftest import examples

NONE, BEFORE, AFTER, HALF = InjectedFault.NONE, InjectedFault.BEFORE, InjectedFault.AFTER, InjectedFault.HALF
Names = tuple[int, ...]


def table(name: int, uid: int) -> Table:
    return Table("d", f"t{name}", "normal", uid, "ms", (), (), 0)


class Model:
    """A gateway that makes and drops tables: each makes those of some names that are free, drops the others.
    ``alive``: its writer, None after it was killed."""

    def __init__(self) -> None:
        self.log = FlakyLog(MemoryLog())
        self.log.log.ensure_topics([CATALOG])
        self.writer: CatalogWriter | None = None
        self.uid = 0

    def step(self, names: Names) -> None:
        """A statement over these names; it may fail, or its gateway be killed."""
        try:
            if self.writer is None:
                writer = CatalogWriter(self.log)
                writer.load()
                self.writer = writer
            self.look_and_write(self.writer, names)
        except MillraceError as error:
            assert error.code in (ErrorCode.UNAVAILABLE, ErrorCode.TIMEOUT)
        except Killed:
            self.writer = None

    def look_and_write(self, writer: CatalogWriter, names: Names) -> None:
        with writer.ddl:
            there = {name: found[0] for name in names if (found := writer.catalog.find("d", f"t{name}"))}
            assert there == {name: one for name, one in self.tables().items() if name in names}, (
                "what it sees"
            )
            before = dict(writer.catalog.tables)
            fresh = []
            for name in dict.fromkeys(names):
                if name not in there:
                    self.uid += 1
                    fresh.append(table(name, self.uid))
            try:
                writer.write(fresh, remove=[key_of(one) for one in there.values()])
            except MillraceError:
                assert writer.catalog.tables == before, "as it was"
                raise
        assert {int(name[1:]): one for (_, name), one in writer.catalog.tables.items()} == self.tables()
        assert writer.position == self.log.log.end_offsets(CATALOG.name)[0]

    def tables(self) -> dict[int, Table]:
        """What the topic holds."""
        catalog = Catalog()
        for record in replay(self.log.log, CATALOG.name):
            catalog.apply(record.key or b"", record.value)
        return {int(name[1:]): one for (_, name), one in catalog.tables.items()}


names = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple)
faults = st.lists(st.sampled_from(FAILURES + KILLS), max_size=3)


@settings(max_examples=examples(100))
@example([((0,), [NONE, AFTER]), ((0,), [])])
@example([((0, 1), [NONE, HALF]), ((0, 1), [])])
@example([((0,), [NONE, AFTER]), ((0,), [BEFORE]), ((0,), [NONE, BEFORE]), ((0,), [])])
@given(st.lists(st.tuples(names, faults), min_size=1, max_size=12))
def test_whoever_looks_and_then_writes_sees_what_is_there(
    steps: list[tuple[Names, list[InjectedFault]]],
) -> None:
    model = Model()
    for wanted, what_fails in steps:
        model.log.give(what_fails)
        model.step(wanted)
    model.log.give([])
    before = model.tables()
    model.step((0,))
    assert (0 in model.tables()) is not (0 in before)


@pytest.fixture
def loaded() -> Iterator[tuple[FlakyLog, CatalogWriter]]:
    log = FlakyLog(MemoryLog())
    log.log.ensure_topics([CATALOG])
    writer = CatalogWriter(log)
    writer.load()
    yield log, writer


def test_a_write_that_is_in_the_topic_after_all_is_seen_by_the_next_statement(
    loaded: tuple[FlakyLog, CatalogWriter],
) -> None:
    """CREATE TABLE was answered with an error, and is tried again: the table must not get another uid."""
    log, writer = loaded
    log.give([AFTER])
    with pytest.raises(MillraceError, match="did not answer"):
        writer.write([table(1, 7)])
    assert writer.catalog.find("d", "t1") is None
    with writer.ddl:
        found = writer.catalog.find("d", "t1")
        assert found is not None and found[0].uid == 7


def test_while_the_topic_cannot_be_read_nothing_is_decided(loaded: tuple[FlakyLog, CatalogWriter]) -> None:
    log, writer = loaded
    log.give([BEFORE, BEFORE])
    with pytest.raises(MillraceError):
        writer.write([table(1, 7)])
    with pytest.raises(MillraceError, match="cannot be reached"), writer.ddl:
        raise AssertionError("nobody may look at what is out of date")
    with writer.ddl:
        writer.write([table(1, 8)])
