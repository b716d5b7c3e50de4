"""A trigger type that is registered from here alone goes all the way: nothing in the product knows of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_gateway.watching.diagnosis_rows import Case, rows_of
from millrace_core.calc.notices import notices
from millrace_core.catalog import Catalog, StreamEntry, encode, key_of, read
from millrace_core.dialect.front_ends import FRONT_ENDS
from millrace_core.dialect.tdengine.explain import trigger_clause
from millrace_core.errors import SqlError, WireError
from millrace_core.model.schema import Database
from millrace_core.model.stream import StreamSpec
from millrace_core.model.triggers import UnknownTrigger
from millrace_core.plan import plan_stream, trigger_relation
from millrace_core.recalc.told import wants
from millrace_core.trigger.types import register, trigger_types, unregister
from millrace_core.wire import control, diagnosis
from millrace_core.wire.topics import CONTROL, STATUS

from ...conftest import examples
from .alternate import ALTERNATE, Alternate
from .conftest import KIT, same, truth

FRONT_END = FRONT_ENDS["tdengine"]
QUERY = "AS SELECT _twstart AS ts, _tgap, count(*) AS n FROM %%trows"
SQL = (
    "CREATE STREAM pairs ALTERNATE(v) FROM meters PARTITION BY tbname "
    f"NOTIFY('ws://h:1') ON (WINDOW_OPEN | WINDOW_CLOSE) INTO found {QUERY}"
)


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    register(ALTERNATE)
    yield
    unregister(ALTERNATE)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    found = Catalog()
    for record in (Database("d"), KIT.METERS):
        found.apply(key_of(record), encode(record))
    return found


def lowered(catalog: Catalog, sql: str = SQL) -> StreamSpec:
    spec = FRONT_END.lower(FRONT_END.parse(sql), catalog, "d", "UTC")
    return msgspec.structs.replace(spec, uid=1, created=1)


@pytest.fixture
def together(catalog: Catalog, deployment: Any, tmp_path: Path) -> Any:
    """A deployment whose stream has judged five rows that count, and a late one that has been answered."""
    found = deployment(tmp_path, lowered(catalog))
    found.define()
    found.write("c1", [[1, 5], [2, None], [3, 5], [6, 5], [9, 5], [10, 5]])
    found.run()
    return found


def test_a_statement_is_read_and_judged_by_the_types_own_rules(catalog: Catalog) -> None:
    spec = lowered(catalog)
    assert spec.trigger == Alternate("v") and spec.partition == ("tbname",)
    for sql, said in {
        SQL.replace("ALTERNATE(v)", "ALTERNATE(v, 2)"): "ALTERNATE: unexpected argument 2",
        SQL.replace("ALTERNATE(v)", "ALTERNATE(w)"): "ALTERNATE: col w is not a column of meters",
        SQL.replace("PARTITION BY tbname ", ""): "ALTERNATE on a super table needs PARTITION BY tbname",
        SQL.replace(
            "(v)", "(v) TRUE_FOR(3s)"
        ): "TRUE_FOR can be used only with STATE_WINDOW and EVENT_WINDOW, not with",
        SQL.replace("_tgap", "_tnext_ts"): "the placeholder _tnext_ts is not available with ALTERNATE",
        SQL.replace(
            "ALTERNATE(v)", "COUNT_WINDOW(2)"
        ): "_tgap is not available with COUNT_WINDOW, only with ALTERNATE",
        SQL.replace("ALTERNATE", "ALTERNATELY"): "COUNT_WINDOW, ALTERNATE (or",
    }.items():
        with pytest.raises(SqlError) as error:
            lowered(catalog, sql)
        assert said in error.value.message


def test_explain_writes_its_clause_again(catalog: Catalog) -> None:
    assert trigger_clause(lowered(catalog).trigger, "ts") == "ALTERNATE(`v`)"


def test_options_have_effect_by_its_traits(catalog: Catalog) -> None:
    option = "STREAM_OPTIONS(IGNORE_NODATA_TRIGGER | DELETE_RECALC) NOTIFY"
    options = lowered(catalog, SQL.replace("NOTIFY", option)).options
    assert (options.ignore_nodata_trigger, options.delete_recalc) == (False, True)


def test_live_rows_make_its_windows(together: Any) -> None:
    assert together.cluster.live()["c1"] == [
        "OPEN 1-1 x1 pair=0", "CLOSE 1-3 x2 pair=0", "OPEN 6-6 x1 pair=1", "CLOSE 6-9 x2 pair=1",
        "OPEN 10-10 x1 pair=2",
    ]  # fmt: skip


def test_a_late_row_has_its_windows_cut_again_and_tells_which_are_gone(together: Any) -> None:
    assert wants(together.spec)
    together.write("c1", [[4, 5]])
    together.run()
    together.answer()
    assert {start: end for start, (end, _) in together.windows().items()} == {1: 3, 4: 6, 9: 10}
    assert {(e.start, e.cause) for e in together.events if e.kind == "INVALID"} == {
        (10, "LIVE"), (6, "RECALC"),
    }  # fmt: skip


@settings(max_examples=examples(10))
@given(times=st.lists(st.integers(0, 40), min_size=2, max_size=15, unique=True))
def test_any_order_of_rows_ends_in_the_windows_of_the_rows_in_order(
    catalog: Catalog, deployment: Any, times: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        together = deployment(Path(folder), lowered(catalog))
        together.define()
        for ts in times:
            together.write("c1", [[ts, 5]])
            together.run()
            together.answer()
        same(together.windows(), truth(together.spec, dict.fromkeys(times, 5), max(times)))


def test_notifications_name_it_and_have_its_fields(together: Any) -> None:
    found = [(event, None) for event in together.events]
    told = [notice.event for notice in notices(together.spec, (), found, lambda group: "c1", (1, 1))]
    assert {event["triggerType"] for event in told} == {"Alternate"}
    times = [(event["eventType"], event["windowStart"], event.get("windowEnd")) for event in told]
    assert times[:2] == [("WINDOW_OPEN", 1, None), ("WINDOW_CLOSE", 1, 3)]
    for event in told:
        assert all(
            event[name] == 0 for name in ALTERNATE.details[event["eventType"]] if event["windowStart"] == 1
        )


def test_a_query_has_its_placeholders_and_its_rows(together: Any, catalog: Catalog) -> None:
    assert "_tgap" in plan_stream(together.spec, catalog).uses
    closed = [event for event in together.events if event.kind == "CLOSE"]
    relation = trigger_relation(together.spec, closed)
    assert relation["_tgap"].to_list() == [2, 3]
    assert relation["_tnext_ts"].to_list() == [None, None]


def test_diagnose_tells_what_its_windows_wait_for(together: Any) -> None:
    cluster, asked = together.cluster, control.encode(control.DiagnoseStream(1, 10))
    record = (CONTROL.name, 0, cluster.ends[CONTROL.name], cluster.now, b"", asked)
    sent = [one for number in range(cluster.slots) for one in cluster.on_batch(number, [record])]
    prefix = diagnosis.PREFIX.encode()
    answers = [value for topic, key, value in sent if topic == STATUS.name and key.startswith(prefix)]
    parts = [diagnosis.decode(value) for value in answers]
    rows = rows_of(Case(together.spec, "Running", "", parts, 0, 1.0, "UTC", 10))
    (window,) = [row for row in rows if row[0] == "window"]
    assert window[1:6] == ["c1", "open", 1, 10, 10]
    assert window[6] == "waiting for a row of d.meters"


def test_a_definition_travels_and_is_refused_where_nobody_knows_the_type(catalog: Catalog) -> None:
    spec = lowered(catalog)
    entry = StreamEntry(spec, "Running", 0, 0)
    define = control.encode(control.DefineStream(spec, {}, 0))
    assert control.decode_control(define) == control.DefineStream(spec, {}, 0)
    assert read(key_of(entry), encode(entry))[2] == entry
    unregister(ALTERNATE)
    try:
        assert ALTERNATE not in trigger_types()
        with pytest.raises(WireError, match="Alternate"):
            control.decode_control(define)
        kept = read(key_of(entry), encode(entry))[2]
        assert isinstance(kept, StreamEntry) and isinstance(kept.spec.trigger, UnknownTrigger)
    finally:
        register(ALTERNATE)


def test_two_types_have_two_names() -> None:
    with pytest.raises(ValueError, match="two trigger types with the keyword ALTERNATE"):
        register(ALTERNATE)
