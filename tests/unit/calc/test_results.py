"""From outcomes to messages: output rows, sub-tables, names, notifications as seed 000 words them."""

from __future__ import annotations

import msgspec
import polars as pl
import pytest

from calc_svc.loops.rounds import Intake
from millrace_core.calc.cells import FEW
from millrace_core.calc.conversion import convert, scale
from millrace_core.calc.notices import notices
from millrace_core.calc.outcome import Outcome
from millrace_core.calc.product import notice_messages
from millrace_core.calc.results import (
    ROWS_PER_MESSAGE,
    SubTable,
    calculates,
    made_up_name,
    write_results,
)
from millrace_core.calc.waiting import Left
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Column, Table, cut_name
from millrace_core.model.stream import Duration, Notify, Options, Output, OutputTag, ResultColumn, StreamSpec
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.trigger.types import Interval, Period
from millrace_core.wire import events as wire
from millrace_core.wire import notices as notice_wire
from millrace_core.wire.events import EventKind, Group, TriggerBatch, TriggerEvent
from millrace_core.wire.notices import Notice, NoticeText, TextBatch
from millrace_core.wire.rows.decoder import RowDecoder
from millrace_wal import DeadLetters, MemoryLog, Record

MINUTE = Duration(1, "m")
TAG = OutputTag(Column("site", DataType("INT")), "site")
OUT_COLUMNS = (Column("start", TIMESTAMP), Column("avg", DataType("FLOAT")))
OUT = Table("out", "avgs", "super", 5, "us", OUT_COLUMNS, (TAG.column,))
RESULT = (ResultColumn("_twstart", TIMESTAMP), ResultColumn("avg(amps)", DataType("DOUBLE")))
SPEC = StreamSpec(
    1, "power", "s1", "", Interval(MINUTE, MINUTE), partition=("site",),
    output=Output("out", "avgs", OUT_COLUMNS, (TAG,)), query="SELECT _twstart, avg(amps) FROM %%trows",
    result=RESULT, notify=Notify(("ws://a",), ("WINDOW_CLOSE",)),
)  # fmt: skip
GROUP = Group(77, (4,), None)


def event(
    kind: EventKind = "CLOSE", start: int = 60_000, group: Group = GROUP, **more: object
) -> TriggerEvent:
    first = TriggerEvent("id1", kind, "LIVE", group, start, start + 60_000, 3, 5_000_000_000)
    return msgspec.structs.replace(first, **more)


def outcome(*rows: tuple[object, ...], notify: list[bool] | None = None) -> Outcome:
    frame = pl.DataFrame(rows, schema={"r0": pl.Int64, "r1": pl.Float64}, orient="row")
    return Outcome(frame if notify is None else frame.with_columns(pl.Series("_notify", notify)))


def test_rows_are_written_under_their_sub_table() -> None:
    found = [(event(), outcome((60_000, 1.5), (None, 2.0))), (event(start=120_000), outcome((120_000, None)))]
    written = write_results(
        SPEC, OUT, RESULT, "ms", found, lambda group: SubTable("t_77", {"site": 4}), lambda name: False
    )
    (message,) = written.messages
    assert (message.topic, message.key) == ("wal.out.avgs", b"t_77")
    assert msgspec.json.decode(message.value or b"") == {
        "tags": {"site": 4},
        "rows": [{"start": 60_000_000, "avg": 1.5}, {"start": 120_000_000, "avg": None}],
    }
    assert (written.rows, written.null_keys) == (2, 1)


def test_a_known_sub_table_gets_plain_rows_and_no_rows_no_message() -> None:
    def write(*outcomes: tuple[TriggerEvent, Outcome]) -> list[object]:
        written = write_results(
            SPEC, OUT, RESULT, "ms", outcomes, lambda group: SubTable("x", {"site": 4}), lambda name: True
        )
        return [msgspec.json.decode(message.value or b"") for message in written.messages]

    assert write((event(), outcome((60_000, float("inf"))))) == [[{"start": 60_000_000, "avg": None}]]
    assert write((event(), outcome())) == []
    assert write((event("OPEN"), outcome())) == []


@pytest.mark.parametrize("known", [True, False])
def test_many_rows_are_written_in_arrow(known: bool) -> None:
    count = 2 * ROWS_PER_MESSAGE + 1
    rows: list[tuple[object, ...]] = [(60_000 * i, None if i % 3 else i / 4) for i in range(count)]
    rows[5] = (None, 1.0)
    few = event(group=Group(78, (5,), None))
    written = write_results(
        SPEC, OUT, RESULT, "ms", [(event(), outcome(*rows)), (few, outcome((7, 1.5)))],
        lambda group: SubTable(f"t_{group.id}", {"site": 4}), lambda name: known,
    )  # fmt: skip
    begin = [] if known else [b'{"tags":{"site":4},"rows":[]}']
    values = [message.value or b"" for message in written.messages]
    assert [message.key for message in written.messages] == [b"t_77"] * (len(begin) + 2) + [b"t_78"]
    assert values[: len(begin)] == begin
    frames = [pl.read_ipc_stream(value) for value in values[len(begin) : -1]]
    assert [len(frame) for frame in frames] == [ROWS_PER_MESSAGE, ROWS_PER_MESSAGE]
    kept = [(start * 1000, avg) for start, avg in rows if isinstance(start, int)]
    assert pl.concat(frames).rows() == kept and frames[0].columns == ["start", "avg"]
    assert b'{"start":7000,"avg":1.5}' in values[-1]
    assert (written.rows, written.null_keys) == (len(kept) + 1, 1)
    decoded = RowDecoder(OUT).decode(values)
    assert not decoded.bad and decoded.frame.rows() == [*kept, (7000, 1.5)]


def test_an_opening_calculation_creates_the_sub_table_without_rows() -> None:
    found = [
        (event("OPEN"), outcome()),
        (event(), Outcome(pl.DataFrame(), MillraceError(ErrorCode.INTERNAL, ""))),
    ]
    written = write_results(
        SPEC, OUT, RESULT, "ms", found, lambda group: SubTable("x", {"site": 4}), lambda name: False
    )
    assert [msgspec.json.decode(m.value or b"") for m in written.messages] == [
        {"tags": {"site": 4}, "rows": []}
    ]


@pytest.mark.parametrize(
    ("cells", "source", "target", "expected"),
    [
        ([1, None, 300], "INT", Column("c", DataType("TINYINT UNSIGNED")), [1, None, None]),
        ([1, 2], "INT", Column("c", DataType("DOUBLE")), [1.0, 2.0]),
        (["größer", None], "VARCHAR", Column("c", DataType("VARCHAR", 3)), ["gr", None]),
        (["größer"], "VARCHAR", Column("c", DataType("NCHAR", 3)), ["grö"]),
        ([1, None], "INT", Column("c", DataType("VARCHAR", 8)), ["1", None]),
        ([1_500, -1], "TIMESTAMP", Column("c", TIMESTAMP), [1_500_000, -1_000]),
        ([1.5, float("inf"), None], "DOUBLE", Column("c", DataType("INT")), [1, None, None]),
        ([1.5, float("nan")], "DOUBLE", Column("c", DataType("VARCHAR", 20)), ["1.500000", None]),
        (
            [" 12", "1.9", "x", "300", None],
            "VARCHAR",
            Column("c", DataType("TINYINT")),
            [12, 1, None, None, None],
        ),
        (["1.5", "x", "nan"], "VARCHAR", Column("c", DataType("DOUBLE")), [1.5, None, None]),
        (["TRUE", "0", "2", "x"], "VARCHAR", Column("c", DataType("BOOL")), [True, False, True, None]),
        ([0, 2, None], "INT", Column("c", DataType("BOOL")), [False, True, None]),
        ([True, None], "BOOL", Column("c", DataType("VARCHAR", 9)), ["true", None]),
        (["1970-01-01 00:00:01", "7", "x"], "VARCHAR", Column("c", TIMESTAMP), [1_000_000, 7, None]),
        (["ab"], "VARCHAR", Column("c", DataType("VARBINARY", 9)), [b"ab"]),
        ([b"12"], "VARBINARY", Column("c", DataType("INT")), [12]),
    ],
)
def test_results_take_the_output_columns_type(
    cells: list[object], source: str, target: Column, expected: list[object]
) -> None:
    column = ResultColumn("c", DataType(source))
    assert convert(pl.Series("c", cells), column, target, scale("ms", "us"), "us").to_list() == expected


def test_ticks_become_coarser_downwards() -> None:
    column = ResultColumn("c", TIMESTAMP)
    found = convert(pl.Series("c", [1_999, -1]), column, Column("c", TIMESTAMP), scale("us", "ms"))
    assert found.to_list() == [1, -1]


@pytest.mark.parametrize("type_", ["VARCHAR", "NCHAR"])
def test_few_texts_are_cut_as_many_are(type_: str) -> None:
    texts = [None, "", "abcd", "größe", "größer als", "\N{GRINNING FACE}" * 2, "\N{GRINNING FACE}" * 3]
    given = ResultColumn("r", DataType("VARCHAR"))
    for length in (3, 8, 40):
        target = Column("c", DataType(type_, length))
        few = convert(pl.Series("r", texts), given, target, (1, 1))
        many = convert(pl.Series("r", texts * 10), given, target, (1, 1))
        assert many.to_list() == few.to_list() * 10


def test_names_are_cut_to_bytes_and_made_up_ones_differ() -> None:
    assert cut_name("é" * 100) == "é" * 96
    names = {made_up_name(spec, group) for spec in (SPEC, msgspec.structs.replace(SPEC, uid=2)) for group in
             (GROUP, Group(78, (5,), None))}  # fmt: skip
    assert len(names) == 4
    assert all(name.startswith("t_") and len(name) == 34 for name in names)


def test_only_asked_for_events_are_calculated() -> None:
    both = msgspec.structs.replace(SPEC, options=Options(event_types=("WINDOW_OPEN",)))
    assert [calculates(SPEC, event(kind)) for kind in ("OPEN", "CLOSE", "ON_TIME", "INVALID")] == [
        False, True, True, False,
    ]  # fmt: skip
    assert [calculates(both, event(kind)) for kind in ("OPEN", "CLOSE")] == [True, False]
    assert not calculates(msgspec.structs.replace(SPEC, query=None), event())


def told(spec: StreamSpec, *pairs: tuple[TriggerEvent, Outcome | None]) -> list[Notice]:
    return as_objects(notices(spec, RESULT, pairs, lambda group: "t_77", scale("ms", "us")))


def as_objects(found: list[NoticeText]) -> list[Notice]:
    return notice_wire.decode(notice_wire.encode(TextBatch(found))).notices


def test_a_close_tells_its_window_and_result() -> None:
    (notice,) = told(SPEC, (event(), outcome((60_000, 1.5))))
    assert notice == Notice(
        "power.s1", "77",
        {
            "tableName": "t_77", "eventType": "WINDOW_CLOSE", "eventTime": 5_000, "triggerId": "id1",
            "triggerType": "Interval", "groupId": "77", "windowStart": 60_000_000, "windowEnd": 120_000_000,
            "result": {"_twstart": 60_000, "avg(amps)": 1.5},
        },
        ("ws://a",),
    )  # fmt: skip


def test_several_rows_are_several_events_and_none_has_no_result() -> None:
    several = told(SPEC, (event(), outcome((1, 1.0), (None, 2.0))), (event(), outcome()))
    assert [(n.event.get("resultIndex"), n.event.get("result")) for n in several] == [
        (0, {"_twstart": 1, "avg(amps)": 1.0}),
        (1, {"_twstart": None, "avg(amps)": 2.0}),
        (None, None),
    ]


@pytest.mark.parametrize("many", [2, 2 * FEW])
def test_windows_of_one_row_each_tell_the_same_alone_and_beside_others(many: int) -> None:
    """They are put together from columns of rows; where others have none or several, one by one."""
    groups = [Group(7, (1,), None), Group(8, (2,), None)]
    pairs = [
        (event(start=60_000 * n, group=groups[n % 2], id=f"id{n}"), outcome((n, None if n % 3 else n / 2)))
        for n in range(many)
    ]
    alone = told(SPEC, *pairs)
    assert [notice.event["triggerId"] for notice in alone] == [f"id{n}" for n in range(many)]
    for other in (None, outcome(), outcome((1, 1.0), (2, 2.0))):
        assert told(SPEC, *pairs, (event(), other))[:many] == alone


def test_the_condition_picks_the_rows_told_of() -> None:
    rows = outcome((1, 1.0), (2, 2.0), notify=[False, True])
    assert [n.event["result"] for n in told(SPEC, (event(), rows))] == [{"_twstart": 2, "avg(amps)": 2.0}]
    assert told(SPEC, (event(), outcome((1, 1.0), notify=[False]))) == []


def test_addresses_get_what_on_names_subscribers_what_triggers() -> None:
    opening = msgspec.structs.replace(SPEC, notify=Notify(("ws://a",), ("WINDOW_OPEN",)))
    found = told(opening, (event("OPEN"), None), (event(), outcome((1, 1.0))))
    assert [(n.event["eventType"], n.urls) for n in found] == [
        ("WINDOW_OPEN", ("ws://a",)),
        ("WINDOW_CLOSE", ()),
    ]
    assert "windowEnd" not in found[0].event
    silent = msgspec.structs.replace(SPEC, notify=None)
    assert [n.urls for n in told(silent, (event("OPEN"), None), (event(), None))] == [()]
    assert told(SPEC, (event(cause="HISTORY"), None)) == []
    periodic = msgspec.structs.replace(SPEC, trigger=Period(MINUTE), notify=Notify(("ws://a",)))
    (on_time,) = told(periodic, (event("ON_TIME"), None))
    assert (on_time.urls, "windowStart" in on_time.event) == (("ws://a",), False)


def test_max_delay_tells_nobody() -> None:
    """The window is still open."""
    found = [(event(cause="DELAY"), outcome((60_000, 1.0))), (event(), outcome((60_000, 2.0)))]
    told = notices(SPEC, RESULT, found, lambda _: "t", (1, 1))
    assert [notice.event["result"] for notice in told] == [{"_twstart": 60_000, "avg(amps)": 2.0}]


def test_notices_of_a_group_travel_in_one_message() -> None:
    def notice(group: str, number: int) -> NoticeText:
        return NoticeText("power.s1", group, msgspec.Raw(f'{{"n":{number}}}'))

    messages = notice_messages(1, [notice("7", 0), notice("8", 1), notice("7", 2)])
    read = {m.key: [n.event["n"] for n in notice_wire.decode(m.value or b"").notices] for m in messages}
    assert read == {b"1/7": [0, 2], b"1/8": [1]}


def test_repeated_batches_are_left_out() -> None:
    def record(offset: int, number: int, epoch: int = 0, value: bytes | None = None) -> Record:
        batch = TriggerBatch(1, epoch, 3, number, {}, [event()])
        return Record("triggers", 2, offset, 0, b"1/3", value or wire.encode(batch))

    intake = Intake(DeadLetters(MemoryLog(), None))
    first = intake.take([record(0, 5), record(1, 6), record(2, 6), record(3, 0, value=b"{")])
    assert [batch.number for batch in first.streams[1]] == [5, 6]
    assert first.events == 2
    left = first.without({(1, 2): Left(1, "not stored")})
    assert [batch.number for batch in left.streams[1]] == [5]
    intake.done(left)
    assert [batch.number for batch in intake.take([record(0, 5), record(1, 6)]).streams[1]] == [6]
    intake.done(first)
    again = intake.take([record(4, 5), record(5, 7), record(6, 0, epoch=1)])
    assert [(batch.epoch, batch.number) for batch in again.streams[1]] == [(0, 7), (1, 0)]
