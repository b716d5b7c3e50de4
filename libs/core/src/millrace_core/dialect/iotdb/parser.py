"""IoTDB's SQL: one statement in, one dataclass out."""

from __future__ import annotations

from collections.abc import Callable

from millrace_core.dialect.iotdb import parse_cq, parse_data, parse_schema, parse_select, parse_trigger
from millrace_core.dialect.iotdb.codes import syntax, unsupported
from millrace_core.dialect.iotdb.cursor import Cursor
from millrace_core.dialect.iotdb.statements import ShowCqs, ShowTriggers, Statement
from millrace_core.errors import Position

Read = Callable[[Cursor, Position], Statement]


def parse(text: str) -> Statement:
    """The statement.

    :raises IotdbError: with the place of what is wrong; SQL_PARSE_ERROR if the text is not a statement.
    """
    c = Cursor(text)
    where = c.here()
    for words, read in _STATEMENTS:
        if c.take(*words):
            found = read(c, where)
            c.finish()
            return found
    if c.at("show"):
        raise unsupported("SHOW supports only DATABASES, DEVICES, TIMESERIES, TRIGGERS and CQS", where)
    for words in _LATER:
        if c.at(*words):
            raise unsupported(f"{' '.join(words).upper()} is not supported", where)
    raise c.unexpected("a statement of IoTDB's SQL")


def _no_alter(c: Cursor, where: Position) -> Statement:
    raise syntax("a continuous query cannot be altered: drop it and create it again", where)


def _no_switch(c: Cursor, where: Position) -> Statement:
    raise syntax("a trigger is active from CREATE TRIGGER to DROP TRIGGER: there is no START or STOP", where)


_STATEMENTS: tuple[tuple[tuple[str, ...], Read], ...] = (
    (("select",), parse_select.select),
    (("insert", "into"), lambda c, _: parse_data.insert(c)),
    (("delete", "from"), parse_data.delete),
    (("create", "database"), lambda c, _: parse_schema.create_database(c)),
    (("create", "storage", "group"), lambda c, _: parse_schema.create_database(c)),
    (("set", "storage", "group", "to"), lambda c, _: parse_schema.create_database(c)),
    (("delete", "database"), lambda c, _: parse_schema.delete_database(c)),
    (("drop", "database"), lambda c, _: parse_schema.delete_database(c)),
    (("create", "timeseries"), lambda c, _: parse_schema.create_timeseries(c)),
    (("create", "aligned", "timeseries"), lambda c, _: parse_schema.create_aligned(c)),
    (("delete", "timeseries"), lambda c, _: parse_schema.delete_timeseries(c)),
    (("drop", "timeseries"), lambda c, _: parse_schema.delete_timeseries(c)),
    (("show", "databases"), lambda c, _: parse_schema.show(c, "databases")),
    (("show", "devices"), lambda c, _: parse_schema.show(c, "devices")),
    (("show", "timeseries"), lambda c, _: parse_schema.show(c, "timeseries")),
    (("count",), lambda c, _: parse_schema.count(c)),
    (("create", "stateless", "trigger"), lambda c, at: parse_trigger.create_trigger(c, "stateless", at)),
    (("create", "stateful", "trigger"), lambda c, at: parse_trigger.create_trigger(c, "stateful", at)),
    (("create", "trigger"), lambda c, at: parse_trigger.create_trigger(c, None, at)),
    (("drop", "trigger"), lambda c, _: parse_trigger.drop_trigger(c)),
    (("show", "triggers"), lambda c, _: ShowTriggers()),
    (("start", "trigger"), _no_switch),
    (("stop", "trigger"), _no_switch),
    (("create", "cq"), parse_cq.create_cq),
    (("create", "continuous", "query"), parse_cq.create_cq),
    (("drop", "cq"), lambda c, _: parse_cq.drop_cq(c)),
    (("drop", "continuous", "query"), lambda c, _: parse_cq.drop_cq(c)),
    (("diagnose", "cq"), lambda c, _: parse_cq.diagnose_cq(c)),
    (("diagnose", "continuous", "query"), lambda c, _: parse_cq.diagnose_cq(c)),
    (("verify", "cq"), lambda c, _: parse_cq.verify_cq(c)),
    (("verify", "continuous", "query"), lambda c, _: parse_cq.verify_cq(c)),
    (("alter", "cq"), _no_alter),
    (("alter", "continuous", "query"), _no_alter),
    (("show", "cqs"), lambda c, _: ShowCqs()),
    (("show", "continuous", "queries"), lambda c, _: ShowCqs()),
)
_LATER = (
    ("create", "user"), ("create", "role"), ("grant",), ("revoke",), ("alter", "timeseries"),
    ("create", "schema"), ("create", "device"), ("set",), ("unset",), ("flush",), ("load",),
    ("create", "function"), ("create", "pipe"), ("explain",), ("with",), ("merge",), ("clear",),
)  # fmt: skip
