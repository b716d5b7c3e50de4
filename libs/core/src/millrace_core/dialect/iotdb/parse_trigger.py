"""CREATE, DROP and SHOW of triggers; what can be refused by the words of CREATE alone is refused here."""

from __future__ import annotations

import re

from millrace_core.dialect.iotdb.codes import IotdbError, Status, syntax
from millrace_core.dialect.iotdb.cursor import Cursor
from millrace_core.dialect.iotdb.statements import CreateTrigger, DropTrigger
from millrace_core.errors import Position

_CLASS = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")


def create_trigger(c: Cursor, kind: str | None, where: Position) -> CreateTrigger:
    """:raises IotdbError: SQL_PARSE_ERROR for a clause that does not exist, CREATE_TRIGGER_ERROR for one that
    is not possible."""
    name = c.name("the trigger's name")
    event = c.one_of("before", "after")
    if c.at("delete"):
        raise syntax("triggers can fire only on INSERT, not on DELETE", c.here())
    c.expect("insert")
    if kind is None:
        raise syntax(f"CREATE TRIGGER {name}: write STATELESS or STATEFUL before TRIGGER", where)
    c.expect("on")
    pattern = c.path("a path pattern")
    c.expect("as")
    class_at = c.here()
    class_name = c.string("the class, 'package.module:Class'")
    if not _CLASS.fullmatch(class_name):
        raise _refused(f"{class_name!r} is not the name of a class: write 'package.module:Class'", class_at)
    uri, uri_at = None, where
    if c.take("using"):
        c.expect("uri")
        uri_at = c.here()
        uri = c.string("a URI")
    attributes = _attributes(c) if c.take("with") else ()
    made = CreateTrigger(
        name, kind == "stateful", event == "before", pattern, class_name, where, uri, attributes
    )
    _check_uri(made, uri_at)
    return made


def _attributes(c: Cursor) -> tuple[tuple[str, str], ...]:
    def one() -> tuple[Position, str, str]:
        where = c.here()
        key = c.string("the name of an attribute, in quotes")
        if not (c.take("=") or c.take("==")):
            raise c.unexpected("=")
        return where, key, c.string("the value of the attribute, in quotes")

    found = c.listed(one)
    seen: set[str] = set()
    for where, key, _ in found:
        if key in seen:
            raise _refused(f"the attribute {key} is given twice", where)
        seen.add(key)
    return tuple((key, value) for _, key, value in found)


def _check_uri(made: CreateTrigger, where: Position) -> None:
    """Code from elsewhere must be named with its hash; a file below the trigger folder needs none."""
    if made.sha256 is not None and not _SHA256.fullmatch(made.sha256):
        raise _refused('the attribute "sha256" must be 64 hexadecimal digits', where)
    if made.uri is None:
        return
    if not made.uri.strip():
        raise _refused("USING URI is empty: omit it or name a file", where)
    if made.sha256 is not None:
        return
    parts = made.uri.split("/")
    if _SCHEME.match(made.uri) or made.uri.startswith(("/", "\\", "~")) or ".." in parts:
        raise _refused(
            f"USING URI {made.uri!r} is not in the trigger folder: add the file's sha256 to the attributes, "
            'WITH ("sha256" = "…")',
            where,
        )


def _refused(message: str, where: Position) -> IotdbError:
    return IotdbError(Status.CREATE_TRIGGER_ERROR, message, where)


def drop_trigger(c: Cursor) -> DropTrigger:
    where = c.here()
    return DropTrigger(c.name("the trigger's name"), where)
