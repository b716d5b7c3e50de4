"""The schemas say what the code says: examples, and what the code itself makes, against both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from api_gateway.protocols.streams_api import Stream
from millrace_core.calc.notices import SHAPES
from millrace_core.errors import ErrorCode, WireError
from millrace_core.model.life import GLOBAL
from millrace_core.model.schema import Column, Table
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.notice import position
from millrace_core.notice.message import Outgoing, compose
from millrace_core.trigger.types import trigger_types
from millrace_core.wire import dead
from millrace_core.wire.rows.arrow import MANY_ROWS
from millrace_core.wire.rows.arrow_stream import CONTINUATION
from millrace_core.wire.rows.decoder import RowDecoder, encode_columns, encode_rows
from millrace_core.wire.topics import TOPICS, WAL_BURIED_BY, Service

SCHEMAS = Path(__file__).parents[2] / "schemas"
EXAMPLES = sorted(SCHEMAS.glob("examples/*/*.json"))
NAMES = {file.name.removesuffix(".schema.json") for file in SCHEMAS.glob("*.schema.json")}
METERS = Table(
    "power", "meters", "super", 1, "ms",
    (Column("ts", TIMESTAMP), Column("amps", DataType("FLOAT")), Column("site", DataType("INT")),
     Column("note", DataType("NCHAR", 8))),
    (Column("site_tag", DataType("INT")),),
)  # fmt: skip


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_every_schema_has_good_and_bad_examples() -> None:
    kinds = {(file.parent.name, file.name.partition("-")[0]) for file in EXAMPLES}
    assert kinds == {(name, kind) for name in NAMES for kind in ("good", "bad")}
    assert {"wal-value", "notification", "stream"} <= NAMES


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_examples_are_what_their_names_say(file: Path) -> None:
    check = validator(file.parent.name)
    value = json.loads(file.read_text())
    if file.name.startswith("good-"):
        check.validate(value)
    else:
        with pytest.raises(ValidationError):
            check.validate(value)


@pytest.mark.parametrize(
    "file", [f for f in EXAMPLES if f.parent.name == "wal-value"], ids=lambda file: file.stem
)
def test_the_decoder_takes_and_refuses_the_same_values(file: Path) -> None:
    found = RowDecoder(METERS).decode([json.dumps(json.loads(file.read_text())).encode()])
    assert bool(found.bad) is file.name.startswith("bad-")


def test_rows_that_the_gateway_writes_are_what_a_producer_may_write() -> None:
    check = validator("wal-value")
    row: dict[str, object] = {"ts": 1, "amps": 1.5, "site": None, "note": "温"}
    for rows in ([row], [row, row]):
        check.validate(json.loads(encode_rows(rows)))


def test_many_rows_of_the_gateway_are_in_the_other_encoding_that_the_schemas_name() -> None:
    def of(count: int) -> bytes:
        cells: dict[str, list[object]] = {
            "ts": list(range(count)), "amps": [1.5] * count, "site": [None] * count, "note": ["温"] * count,
        }  # fmt: skip
        return encode_columns(cells, METERS)

    validator("wal-value").validate(json.loads(of(MANY_ROWS - 1)))
    assert of(MANY_ROWS)[:4] == CONTINUATION
    decode = RowDecoder(METERS).decode
    few, many = decode([of(MANY_ROWS - 1)]).frame, decode([of(MANY_ROWS)]).frame
    assert many.head(MANY_ROWS - 1).equals(few)
    text = (SCHEMAS / "README.md").read_text()
    assert CONTINUATION.hex(" ").upper() in text
    assert f"up to {MANY_ROWS - 1} rows a message and Arrow from {MANY_ROWS} on" in " ".join(text.split())


def test_messages_that_are_composed_are_valid() -> None:
    event: dict[str, Any] = {
        "eventType": "WINDOW_CLOSE", "eventTime": 3, "triggerId": "a", "triggerType": "Interval",
        "groupId": "0", "windowStart": 1, "windowEnd": 2, "result": {"n": 1},
    }  # fmt: skip
    check = validator("notification")
    outgoing = [Outgoing("power.s1", json.dumps(event).encode()) for _ in range(2)]
    check.validate(json.loads(compose("id", 1733284887203, outgoing)))
    older = event | {"tableName": "t", "windowId": event["triggerId"], "windowType": "Time"}
    del older["triggerId"], older["triggerType"]
    check.validate(json.loads(compose("id", 1, [Outgoing("s1", json.dumps(older).encode())])))
    with pytest.raises(ValidationError):
        del older["windowId"]
        check.validate(json.loads(compose("id", 1, [Outgoing("s1", json.dumps(older).encode())])))
    with pytest.raises(ValidationError):
        event["groupId"] = 0
        check.validate(json.loads(compose("id", 1, [Outgoing("power.s1", json.dumps(event).encode())])))


def test_messages_to_subscribers_are_valid() -> None:
    check = validator("subscription")
    at = position.write({0: (12, 0), 3: (7, 2)})
    outgoing = [Outgoing("power.s1", b'{"eventType":"ON_TIME"}')]
    check.validate(json.loads(compose("id", 1733284887203, outgoing, at)))


def test_dead_letters_are_valid_whatever_the_message() -> None:
    check = validator("dead-letter")
    error = WireError(ErrorCode.UNDECODABLE, "no")
    for key, value in ((None, None), (b"k", b"\xff{"), (b"k" * 100_000, bytes(8_000_000))):
        letter = dead.letter("wal.power.meters", 0, 3, key, value, error, "calc-svc")
        text = dead.encode(letter)
        check.validate(json.loads(text))
        assert dead.decode(text) == letter
    for file in SCHEMAS.glob("examples/dead-letter/good-*.json"):
        assert dead.decode(file.read_bytes()).cause in ErrorCode.__members__
    properties = json.loads((SCHEMAS / "dead-letter.schema.json").read_text())["properties"]
    assert set(properties) == set(dead.DeadLetter.__struct_fields__)
    assert properties["service"]["enum"] == list(get_args(Service))
    assert f"{dead.KEPT:,} bytes" in properties["truncated"]["description"]


def test_the_page_says_who_makes_the_dead_letters_of_each_topic() -> None:
    rows = [f"| `{one.name}` | {one.buried_by} |" for one in TOPICS if one.buried_by]
    text = (SCHEMAS / "README.md").read_text()
    assert "\n".join([f"| `wal.*` | {WAL_BURIED_BY} |", *rows]) in text


def test_the_api_describes_streams_with_the_fields_of_the_schema() -> None:
    schema = json.loads((SCHEMAS / "stream.schema.json").read_text())
    described = Stream.model_json_schema()
    assert set(described["properties"]) == set(schema["properties"])
    assert set(described["required"]) == set(schema["required"])
    states = schema["properties"]["status"]["enum"]
    assert states[5:] == list(dict.fromkeys(GLOBAL.states[state] for state in states[:5]))
    good = json.loads((SCHEMAS / "examples/stream/good-running.json").read_text())
    assert Stream.model_validate(good).model_dump() == good


def test_the_schemas_know_the_trigger_types_and_what_only_they_tell() -> None:
    names = [known.name for known in trigger_types()]
    stream = json.loads((SCHEMAS / "stream.schema.json").read_text())
    event = json.loads((SCHEMAS / "notification.schema.json").read_text())["$defs"]["event"]
    assert stream["properties"]["trigger"]["enum"] == names
    assert event["properties"]["triggerType"]["enum"] == names
    by_time = event["allOf"][0]
    instants, windows = (by_time[word]["properties"]["triggerType"]["enum"] for word in ("then", "else"))
    assert instants == [known.name for known in trigger_types() if not known.window]
    assert windows == [known.name for known in trigger_types() if known.window]
    shared = {
        "tableName", "eventType", "eventTime", "triggerId", "triggerType", "groupId", "windowStart",
        "windowEnd", "result", "resultIndex", "windowId", "windowType",
    }  # fmt: skip
    types = SHAPES["window"].types
    assert event["properties"]["windowType"]["enum"] == [types.get(name, name) for name in windows]
    assert [set(one["required"]) & {shape.id, shape.type} for one, shape in zip(
        event["oneOf"], SHAPES.values(), strict=True
    )] == [{shape.id, shape.type} for shape in SHAPES.values()]  # fmt: skip
    details = {name for known in trigger_types() for names in known.details.values() for name in names}
    assert set(event["properties"]) == shared | details
