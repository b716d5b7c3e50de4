"""STREAM_OPTIONS and NOTIFY, checked by the tables in ``model/options.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from millrace_core.conditions import condition
from millrace_core.errors import SqlError
from millrace_core.language.arguments import bad, duration, one_token
from millrace_core.language.query import parse_expression
from millrace_core.language.statements import Argument, Literal, Name, NotifyClause, OptionClause
from millrace_core.language.times import TimeContext, time_value
from millrace_core.language.words import TokenKind
from millrace_core.model.options import NOTIFY_OPTIONS, OPTIONS, WINDOW_EVENTS, Needs, OptionRule, Takes
from millrace_core.model.schema import Table
from millrace_core.model.stream import Emission, EventType, Notify, Options
from millrace_core.timeline.precision import LOWEST, shortest_ns
from millrace_core.trigger.types import TriggerType


@dataclass(frozen=True, slots=True)
class OptionContext:
    """What options are checked against; ``notifies``: whether the stream has NOTIFY, ``stores``:
    whether INTO."""

    trigger: TriggerType[Any]
    table: Table | None
    partition: tuple[str, ...]
    timezone: str
    notifies: bool
    stores: bool


def options(clauses: tuple[OptionClause, ...], setting: OptionContext) -> tuple[Options, Emission]:
    """The options that take effect. Options that this trigger ignores are checked, but left out.

    :raises SqlError: for an unknown option, one given twice, a wrong argument or a wrong combination.
    """
    seen: dict[str, OptionClause] = {}
    values: dict[str, Any] = {}
    for clause in clauses:
        rule = OPTIONS.get(clause.name)
        if rule is None:
            raise bad(f"unknown option {clause.name}; known options: {', '.join(OPTIONS)}", clause.position)
        if clause.name in seen:
            raise bad(f"the option {clause.name} is given twice", clause.position)
        for other in rule.excludes & seen.keys():
            raise bad(f"{clause.name} and {other} cannot be used together: {rule.apart}", clause.position)
        seen[clause.name] = clause
        _check_place(clause, rule, setting)
        values[clause.name] = _named_value(clause, rule, setting)
    _check_lengths(seen, values)
    traits = setting.trigger.traits
    effective = {name: value for name, value in values.items() if OPTIONS[name].ignored not in traits}
    fields: dict[bool, dict[str, Any]] = {False: {}, True: {}}
    for name, value in effective.items():
        fields[OPTIONS[name].emits][OPTIONS[name].field] = value
    return Options(**fields[False]), Emission(**fields[True])


def _check_lengths(seen: Mapping[str, OptionClause], values: Mapping[str, Any]) -> None:
    """:raises SqlError: for a duration longer than that of the option within which it must lie."""
    for name, clause in seen.items():
        rule = OPTIONS[name]
        if rule.within is None or rule.within not in values:
            continue
        length, most = values[name], values[rule.within]
        if shortest_ns(length) > shortest_ns(most):
            raise bad(f"{name}({length}) is longer than {rule.within}({most}): {rule.apart}", clause.position)


def _check_place(clause: OptionClause, rule: OptionRule, setting: OptionContext) -> None:
    keyword = setting.trigger.keyword
    if rule.refused in setting.trigger.traits:
        assert rule.refused is not None, "no trigger has no trait"
        raise bad(
            f"{keyword} does not support the option {clause.name}: {rule.refused.value}", clause.position
        )
    there = {
        Needs.TABLE: setting.table is not None,
        Needs.BY_CHILD: "tbname" in setting.partition,
        Needs.NOTIFY: setting.notifies,
        Needs.OUTPUT: setting.stores,
    }
    if rule.needs is not None and not there[rule.needs]:
        raise bad(f"{clause.name} needs {rule.needs.value}: {rule.why}", clause.position)


def _named_value(clause: OptionClause, rule: OptionRule, setting: OptionContext) -> object:
    """The value of the option. Every error names the option, even a general error about times or
    conditions."""
    try:
        return _value(clause, rule, setting)
    except SqlError as error:
        if clause.name in error.message:
            raise
        raise bad(f"{clause.name}: {error.message}", error.position or clause.position, error.code) from error


def _value(clause: OptionClause, rule: OptionRule, setting: OptionContext) -> object:
    arguments = clause.arguments
    if rule.takes is Takes.NOTHING or (rule.takes is Takes.TIME and arguments is None):
        if arguments is not None:
            raise bad(
                f"{clause.name} takes no arguments", arguments[0].position if arguments else clause.position
            )
        return rule.sets if rule.takes is Takes.NOTHING else LOWEST
    if not arguments or (len(arguments) > 1 and rule.takes is not Takes.EVENTS):
        raise bad(f"{clause.name} takes {rule.takes.value} in parentheses", clause.position)
    argument = arguments[0]
    if rule.takes is Takes.DURATION:
        assert rule.rule is not None
        # MAX_DELAY is the only duration of processing time, which is counted in ns
        precision = setting.table.precision if setting.table else None
        precision = "ns" if clause.name == "MAX_DELAY" else precision
        return duration(argument, clause.name, rule.rule, precision)
    if rule.takes is Takes.TIME:
        return _start_time(clause, argument, setting)
    if rule.takes is Takes.CONDITION:
        assert setting.table is not None, "PRE_FILTER needs a table, checked before"
        return condition(argument, clause.name, setting.table, setting.timezone)
    return _event_types(clause.name, [_event(a) for a in arguments])


def _start_time(clause: OptionClause, argument: Argument, setting: OptionContext) -> int:
    token = one_token(argument)
    if token is None or token.kind not in (TokenKind.STRING, TokenKind.INTEGER):
        raise bad(
            f"{clause.name}: start_time {argument.text} is not valid; expected a quoted timestamp or a "
            "number of ticks",
            argument.position,
        )
    assert setting.table is not None, "only PERIOD does without a table, and it takes no history"
    session = TimeContext(setting.table.precision, 0, setting.timezone)
    return time_value(Literal(argument.text, argument.position), session)


def _event(argument: Argument) -> Name:
    token = one_token(argument)
    return Name((token.value if token else argument.text).upper(), argument.position)


def _event_types(what: str, names: list[Name]) -> tuple[EventType, ...]:
    found: list[EventType] = []
    for name in names:
        event = name.text.upper()
        if event not in WINDOW_EVENTS:
            raise bad(
                f"{what}: unknown event type {name.text}; expected {' or '.join(WINDOW_EVENTS)}",
                name.position,
            )
        if event not in found:
            found.append(cast(EventType, event))
    return tuple(sorted(found, key=WINDOW_EVENTS.index))


def notify(clause: NotifyClause, trigger: TriggerType[Any], *, calculates: bool) -> Notify:
    """NOTIFY; ``calculates``: whether the stream has a query, whose columns WHERE may use.

    The columns themselves are checked where the query is planned (``plan.notify``).

    :raises SqlError: for a bad address, a missing or unknown event type, an unknown option.
    """
    for url in clause.urls:
        _check_address(url)
    events: tuple[EventType, ...]
    if not trigger.window:
        known = (*WINDOW_EVENTS, "ON_TIME")
        for name in clause.events or ():
            if name.text.upper() not in known:
                raise bad(
                    f"NOTIFY: unknown event type {name.text}; expected {' or '.join(known)}", name.position
                )
        events = ("ON_TIME",)
    elif clause.events is None:
        raise bad(
            f"NOTIFY with {trigger.keyword} needs ON ({' | '.join(WINDOW_EVENTS)}): the events to report",
            clause.position,
        )
    else:
        events = _event_types("NOTIFY", list(clause.events))
    if clause.where is not None:
        parse_expression(clause.where.text, clause.where.position)
        if not calculates:
            raise bad(
                "NOTIFY: WHERE is a condition on the result, so it needs a query (AS)", clause.where.position
            )
    flags: dict[str, bool] = {}
    for option in clause.options:
        field = NOTIFY_OPTIONS.get(option.text.upper())
        if field is None:
            known_options = ", ".join(NOTIFY_OPTIONS)
            raise bad(
                f"unknown NOTIFY option {option.text.upper()}; known options: {known_options}",
                option.position,
            )
        if field in flags:
            raise bad(f"the NOTIFY option {option.text.upper()} is given twice", option.position)
        flags[field] = True
    where = clause.where.text if clause.where else None
    return Notify(tuple(url.text for url in clause.urls), events, where, **flags)


def _check_address(url: Name) -> None:
    """:raises SqlError: unless it is ws://host:port or wss://host:port, followed by what may follow."""
    try:
        parts = urlsplit(url.text)
        good = parts.scheme in ("ws", "wss") and parts.hostname and parts.port
    except ValueError:
        good = False
    if not good or any(char.isspace() for char in url.text):
        raise bad(
            f"NOTIFY: {_named(url.text)} is not a valid address; expected ws://host:port or "
            "wss://host:port, optionally with a path and a query",
            url.position,
        )


def _named(text: str) -> str:
    """How a refusal quotes a text that is not an address: not at all if it has an @, before which a
    password may stand."""
    return "this" if "@" in text else repr(text)
