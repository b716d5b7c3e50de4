"""EXPLAIN CREATE STREAM: how a stream was understood, and the statement of the newer dialect for it.

Pure functions of a StreamSpec, so they tell what will run, not what was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from millrace_core.language.lexer import quote, quote_name
from millrace_core.model.address import shown
from millrace_core.model.options import NOTIFY_OPTIONS, OPTIONS, Takes
from millrace_core.model.stream import Emission, Options, StreamSpec
from millrace_core.model.triggers import Trigger
from millrace_core.timeline.precision import LOWEST
from millrace_core.trigger.types import type_of


class Fact(NamedTuple):
    """A line of the answer: an item (``trigger``, ``groups`` …) and its value."""

    item: str
    value: str


def understood(spec: StreamSpec) -> list[Fact]:
    """The stream, item by item. The last lines are the statement of the newer dialect (``statement``), and
    one line for each thing that the newer dialect cannot express (``no counterpart``)."""
    facts = [Fact("dialect", "newer" if _is_newer(spec.emission) else "older")]
    facts.append(Fact("trigger", trigger_clause(spec.trigger, _key(spec))))
    if spec.source is not None:
        table = spec.source.table
        facts.append(Fact("source", f"{table.db}.{spec.source.child or table.name}"))
    groups = [*spec.partition, *(key.sql for key in spec.keys)]
    facts.append(Fact("groups", ", ".join(groups) or "one"))
    facts += [Fact("option", option) for option in option_clauses(spec)]
    facts += _emission(spec.emission)
    if spec.output is not None:
        kind = "super" if spec.output.grouped else "normal"
        facts.append(Fact("output", f"{spec.output.db}.{spec.output.table} ({kind} table)"))
        facts += [
            Fact("tag", f"{tag.column.name} {tag.column.type} = {tag.expression}") for tag in spec.output.tags
        ]
        if spec.output.subtable is not None:
            facts.append(Fact("sub-table", spec.output.subtable))
    if spec.query is not None:
        facts.append(Fact("query", spec.query))
    if spec.notify is not None:
        addresses = ", ".join(map(shown, spec.notify.urls))
        facts.append(Fact("notify", f"{addresses} for {', '.join(spec.notify.events)}"))
    facts.append(Fact("statement", statement(spec)))
    return facts + [Fact("no counterpart", text) for text in without_counterpart(spec)]


def _emission(emission: Emission) -> Iterator[Fact]:
    if _is_newer(emission):
        return
    delay = f" {emission.every}" if emission.every else ""
    yield Fact("emission", emission.when.replace("_", " ") + delay)
    yield Fact("rows for closed windows", emission.late)
    yield Fact("updated rows", emission.rewritten)
    yield Fact("obsolete results", emission.obsolete)
    if emission.forget is not None:
        yield Fact("window state is dropped after", str(emission.forget))
    if emission.fill is not None:
        yield Fact("windows without rows", f"FILL({emission.fill})")


# -- the newer dialect ---------------------------------------------------------------------------------------


def statement(spec: StreamSpec) -> str:
    """CREATE STREAM of the newer dialect; for an older stream, the nearest equivalent."""
    nearest = type_of(spec.trigger).nearest
    if nearest is not None:
        spec = msgspec.structs.replace(spec, trigger=nearest(spec.trigger))
    parts = [f"CREATE STREAM {_qualified(spec.home, spec.name)} {trigger_clause(spec.trigger, _key(spec))}"]
    if spec.source is not None:
        table = spec.source.table
        parts.append(f"FROM {_qualified(table.db, spec.source.child or table.name)}")
    if spec.partition:
        parts.append(f"PARTITION BY {', '.join(map(_name, spec.partition))}")
    options = [*option_clauses(spec), *_older_options(spec)]
    if options:
        parts.append(f"STREAM_OPTIONS({' | '.join(options)})")
    if spec.notify is not None:
        parts.append(_notify(spec))
    output = spec.output
    if output is not None:
        parts.append(f"INTO {_qualified(output.db, output.table)}")
        by_tables = spec.partition and not spec.keys
        if output.subtable is not None and by_tables:
            parts.append(f"OUTPUT_SUBTABLE({output.subtable})")
        if output.tags and by_tables and not _has_group_tag(spec):
            tags = [f"{_name(t.column.name)} {t.column.type} AS {t.expression}" for t in output.tags]
            parts.append(f"TAGS({', '.join(tags)})")
    if spec.query is not None:
        parts.append(f"AS {spec.query}")
    return " ".join(parts)


def _key(spec: StreamSpec) -> str:
    return spec.source.table.key.name if spec.source else ""


def trigger_clause(trigger: Trigger, key: str) -> str:
    """The trigger as the newer dialect writes it; ``key``: the time column of its table."""
    return type_of(trigger).write(trigger, key, quote_name)


def _is_newer(emission: Emission) -> bool:
    """Whether the newer dialect can express all of it: nothing, or RETRACT alone, is set."""
    return msgspec.structs.replace(emission, obsolete="kept") == Emission()


def option_clauses(spec: StreamSpec) -> list[str]:
    """The clauses of STREAM_OPTIONS, without defaults and without options that this trigger does not take."""
    found: list[str] = []
    for rule in OPTIONS.values():
        given, plain = (spec.emission, Emission()) if rule.emits else (spec.options, Options())
        value = getattr(given, rule.field)
        if value == getattr(plain, rule.field) or rule.refused in type_of(spec.trigger).traits:
            continue
        match rule.takes:
            case Takes.NOTHING:
                found.append(rule.keyword)
            case Takes.CONDITION:
                found.append(f"{rule.keyword}({value.sql})")
            case Takes.EVENTS:
                found.append(f"{rule.keyword}({' | '.join(value)})")
            case Takes.TIME if value == LOWEST:
                found.append(rule.keyword)
            case _:
                found.append(f"{rule.keyword}({value})")
    return found


def _older_options(spec: StreamSpec) -> Iterator[str]:
    """Options of the newer dialect for what the older one does by itself."""
    emission = spec.emission
    if _is_newer(emission):
        return
    if emission.when == "max_delay":
        yield f"MAX_DELAY({emission.every})"


_MODES: dict[str, str] = {
    "at_once": "TRIGGER AT_ONCE: the newer dialect writes a window's results when it opens or closes, or "
    "after MAX_DELAY, but not after every insert",
    "max_delay": "TRIGGER MAX_DELAY counts from a window's first row that is not written yet; in the newer "
    "dialect it counts from the window's opening",
    "force_window_close": "TRIGGER FORCE_WINDOW_CLOSE: windows of the newer dialect close by event time, not "
    "by the clock",
    "continuous_window_close": "TRIGGER CONTINUOUS_WINDOW_CLOSE: in the newer dialect changes are "
    "recalculated as they arrive, not at intervals",
}


def _of_trigger(spec: StreamSpec) -> Iterator[str]:
    type_ = type_of(spec.trigger)
    if type_.nearest is not None:
        yield "without a window every row counts; COUNT_WINDOW(1) ignores late rows, updates and deletes"
    elif spec.emission.when in _MODES:
        yield _MODES[spec.emission.when]
    in_utc = type_.on_clock(spec.trigger, "UTC")
    if spec.source is not None and type_.grid is not None:
        precision = spec.source.table.precision
        if type_.grid(spec.trigger, precision) != type_.grid(in_utc, precision):
            yield f"days and months are in {spec.timezone}; in the newer dialect they are in UTC"
    if type_.numbered:
        yield "after a DELETE, later rows are counted again; in the newer dialect no count window changes"


def without_counterpart(spec: StreamSpec) -> Iterator[str]:
    """What an older stream does that no statement of the newer dialect can express."""
    emission = spec.emission
    if _is_newer(emission):
        return
    yield from _of_trigger(spec)
    if emission.late == "dropped":
        yield (
            "IGNORE EXPIRED 1 drops only rows of closed windows; IGNORE_DISORDER drops every late row, and "
            "without it closed windows are recalculated"
        )
    if emission.rewritten == "counted":
        yield "IGNORE UPDATE 1: an updated row counts twice; in the newer dialect its window is recalculated"
    if emission.fill is not None:
        yield f"FILL({emission.fill}): a query over %%trows has only one window, so there are no gaps to fill"
    if spec.keys:
        texts = ", ".join(key.sql for key in spec.keys)
        yield f"PARTITION BY {texts}: the newer dialect groups by tables and tags, not by values of columns"
    if spec.partition and _has_group_tag(spec):
        yield "the tag groupId is the group's id; in the newer dialect the tags are the grouping columns"
    if spec.output is not None and not spec.grouped:
        yield (
            "without PARTITION BY the result is a super table with one sub-table; in the newer dialect it is "
            "a normal table"
        )
    if spec.output is not None and spec.output.subtable is not None:
        yield (
            "names of sub-tables end with the super table's name and the group's id, unlike those of "
            "OUTPUT_SUBTABLE"
        )
    if spec.notify is not None and spec.notices == "window":
        yield (
            "notifications have windowId, windowType and the stream's bare name; in the newer dialect they "
            "have triggerId, triggerType and db.name"
        )


def _has_group_tag(spec: StreamSpec) -> bool:
    """Whether a tag is the older dialect's group id, which TAGS cannot express."""
    return spec.output is not None and any(tag.expression == "_tgrpid" for tag in spec.output.tags)


def _notify(spec: StreamSpec) -> str:
    found = spec.notify
    assert found is not None, "asked before"
    text = f"NOTIFY({', '.join(quote(shown(url)) for url in found.urls)})"
    if type_of(spec.trigger).window:
        text += f" ON({' | '.join(found.events)})"
    if found.where is not None:
        text += f" WHERE {found.where}"
    flags = [word for word, field in NOTIFY_OPTIONS.items() if getattr(found, field)]
    return f"{text} NOTIFY_OPTIONS({' | '.join(flags)})" if flags else text


def _name(name: str) -> str:
    return "tbname" if name == "tbname" else quote_name(name)


def _qualified(db: str, name: str) -> str:
    return f"{quote_name(db)}.{quote_name(name)}"
