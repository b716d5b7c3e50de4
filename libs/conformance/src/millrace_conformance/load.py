"""Reads YAML files into cases. Whatever a case must not say is refused, with file and line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from millrace_conformance import case as model
from millrace_conformance.case import Case, Dialect, Login, Step
from millrace_conformance.source import BadCase, BadCases, Source, Where, parse
from millrace_core.model.schema import Precision

# -- what a value may be: (source, place, raw value) -> value ------------------------------------------------

Reader = Callable[[Source, Where, Any], Any]


def _text(source: Source, where: Where, raw: Any) -> str:
    if isinstance(raw, str) and raw.strip():
        return raw
    raise source.bad(where, f"'{where[-1]}' must be a string that is not empty")


def _flag(source: Source, where: Where, raw: Any) -> bool:
    if isinstance(raw, bool):
        return raw
    raise source.bad(where, f"'{where[-1]}' must be true or false")


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0}


def _seconds(source: Source, where: Where, raw: Any) -> float:
    found = _DURATION.fullmatch(raw) if isinstance(raw, str) else None
    if found is None:
        raise source.bad(where, f"'{where[-1]}' must be a duration such as 30s, 500ms or 2m, not {raw!r}")
    return float(found[1]) * _UNIT[found[2]]


def _list(source: Source, where: Where, raw: Any, item: Reader) -> tuple[Any, ...]:
    if not isinstance(raw, list):
        raise source.bad(where, f"'{where[-1]}' must be a list")
    return tuple(item(source, (*where, number), one) for number, one in enumerate(raw))


def _texts(source: Source, where: Where, raw: Any) -> tuple[str, ...]:
    texts = _list(source, where, raw, _text)
    if not texts:
        raise source.bad(where, f"'{where[-1]}' must not be empty")
    return texts


def _text_or_texts(source: Source, where: Where, raw: Any) -> tuple[str, ...]:
    return (_text(source, where, raw),) if isinstance(raw, str) else _texts(source, where, raw)


def _scalar(source: Source, where: Where, raw: Any) -> Any:
    if raw is None or isinstance(raw, str | int | float | bool):
        return raw
    raise source.bad(where, f"{raw} is not a plain value: text (including timestamps) must be in quotes")


def _row(source: Source, where: Where, raw: Any) -> tuple[Any, ...]:
    if not isinstance(raw, list):
        raise source.bad(where, "a row must be a list of values")
    return tuple(_scalar(source, (*where, number), one) for number, one in enumerate(raw))


def _rows(source: Source, where: Where, raw: Any) -> tuple[Any, ...]:
    rows = _list(source, where, raw, _row)
    if len({len(row) for row in rows}) > 1:
        raise source.bad(where, "the rows have different numbers of values")
    return rows


def _plain(source: Source, where: Where, raw: Any) -> Any:
    """Objects and lists of plain values, as JSON has them."""
    if isinstance(raw, dict):
        for key, value in raw.items():
            if not isinstance(key, str):
                raise source.bad((*where, str(key)), f"the key {key!r} must be text")
            _plain(source, (*where, key), value)
        return raw
    if isinstance(raw, list):
        return [_plain(source, (*where, number), one) for number, one in enumerate(raw)]
    return _scalar(source, where, raw)


def _object(source: Source, where: Where, raw: Any) -> dict[str, Any]:
    if not isinstance(raw, dict) or not raw:
        raise source.bad(where, "this must be an object: field: value, …")
    _plain(source, where, raw)
    return raw


def _event(source: Source, where: Where, raw: Any) -> dict[str, Any]:
    event = _object(source, where, raw)
    if "streamName" not in event:
        raise source.bad(where, "an event must name its streamName")
    return event


def _events(source: Source, where: Where, raw: Any) -> tuple[Any, ...]:
    return _list(source, where, raw, _event)


def _objects(source: Source, where: Where, raw: Any) -> tuple[Any, ...]:
    objects = _list(source, where, raw, _object)
    if not objects:
        raise source.bad(where, f"'{where[-1]}' must not be empty")
    return objects


def _pattern(source: Source, where: Where, raw: Any) -> str:
    text = _text(source, where, raw)
    try:
        re.compile(text)
    except re.error as error:
        raise source.bad(where, f"'{where[-1]}' is not a regular expression: {error}") from error
    return text


def _one_of(choices: Iterable[str]) -> Reader:
    allowed = tuple(choices)

    def read(source: Source, where: Where, raw: Any) -> str:
        if raw in allowed:
            return str(raw)
        place = where[-1]
        raise source.bad(where, f"'{place}' must be one of {', '.join(allowed)}, not {raw!r}")

    return read


def _zone(source: Source, where: Where, raw: Any) -> str:
    name = _text(source, where, raw)
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise source.bad(where, f"there is no time zone {name!r}") from error
    return name


def _table(source: Source, where: Where, raw: Any) -> str:
    name = _text(source, where, raw)
    if name.count(".") != 1 and not name.startswith("root."):
        raise source.bad(
            where, f"'table' must be <database>.<table>, or a device root.<database>.…, not {name!r}"
        )
    return name


# -- the tables of what a case and its steps have ------------------------------------------------------------


@dataclass(frozen=True)
class Key:
    """A key: how its value is read, which field it fills, and whether it must be present."""

    read: Reader
    field: str
    required: bool = True


@dataclass(frozen=True)
class StepKind:
    """A kind of step: its class and its keys; ``whole``: how a value that is not an object is read."""

    step: type[Step]
    keys: Mapping[str, Key]
    whole: Key | None = None


_LOGIN = {"user": Key(_text, "user"), "pass": Key(_text, "password")}


def _login(source: Source, where: Where, raw: Any) -> Login:
    return Login(**_fields(source, where, raw, _LOGIN, "'as'"))


_AS = Key(_login, "login", required=False)
_WITHIN = Key(_seconds, "within", required=False)
_QUERY = {
    "sql": Key(_text, "sql"),
    "as": _AS,
    "rows": Key(_rows, "rows"),
    "within": _WITHIN,
    "ordered": Key(_flag, "ordered", required=False),
}
KINDS: dict[str, StepKind] = {
    "sql": StepKind(
        model.Sql, {"as": _AS, "run": Key(_text_or_texts, "statements")}, Key(_text_or_texts, "statements")
    ),
    "running": StepKind(model.Running, {}, Key(_texts, "streams")),
    "expect": StepKind(model.Expect, _QUERY),
    "stays": StepKind(model.Stays, _QUERY | {"for": Key(_seconds, "during")}),
    "error": StepKind(
        model.Refused,
        {"sql": Key(_text, "sql"), "match": Key(_pattern, "match", required=False), "as": _AS},
    ),
    "sleep": StepKind(model.Sleep, {}, Key(_seconds, "seconds")),
    "notifications": StepKind(
        model.Notifications,
        {"events": Key(_events, "events"), "within": _WITHIN, "complete": Key(_flag, "complete", False)},
    ),
    "restart": StepKind(model.Restart, {}, Key(_one_of(model.SERVICES), "service")),
    "produce": StepKind(model.Produce, {"table": Key(_table, "table"), "rows": Key(_objects, "rows")}),
}


def _steps(source: Source, where: Where, raw: Any) -> tuple[Step, ...]:
    steps = _list(source, where, raw, _step)
    if not steps:
        raise source.bad(where, "a case must have steps")
    return steps


HEAD: dict[str, Key] = {
    "id": Key(_text, "id"),
    "title": Key(_text, "title"),
    "covers": Key(_texts, "covers"),
    "dialect": Key(_one_of(get_args(Dialect)), "dialect"),
    "precision": Key(_one_of(get_args(Precision)), "precision"),
    "timezone": Key(_zone, "timezone", required=False),
    "oracle": Key(_text, "oracle"),
    "steps": Key(_steps, "steps"),
}


def _fields(source: Source, where: Where, raw: Any, keys: Mapping[str, Key], what: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise source.bad(where, f"{what} must be an object with {', '.join(keys)}")
    for key in raw:
        if key not in keys:
            raise source.bad((*where, str(key)), f"{what} cannot have '{key}', only {', '.join(keys)}")
    for name, key in keys.items():
        if key.required and name not in raw:
            raise source.bad(where, f"{what} must have '{name}'")
    return {
        key.field: key.read(source, (*where, name), raw[name]) for name, key in keys.items() if name in raw
    }


def _step(source: Source, where: Where, raw: Any) -> Step:
    if not isinstance(raw, dict) or len(raw) != 1:
        raise source.bad(where, f"a step must be one of {', '.join(KINDS)}, with its content")
    ((name, content),) = raw.items()
    place = (*where, str(name))
    if name not in KINDS:
        raise source.bad(place, f"there is no step '{name}': it must be one of {', '.join(KINDS)}")
    kind = KINDS[name]
    if kind.whole and not (kind.keys and isinstance(content, dict)):
        fields = {kind.whole.field: kind.whole.read(source, place, content)}
    else:
        fields = _fields(source, place, content, kind.keys, f"'{name}'")
    return kind.step(line=source.lines[place], **fields)


_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def read_case(path: Path, text: str) -> Case:
    """The case in a file's text. :raises BadCase: for anything that FORMAT does not know."""
    source = parse(path, text)
    case = Case(path=path, **_fields(source, (), source.data, HEAD, "a case"))
    if not _ID.fullmatch(case.id):
        raise source.bad(("id",), f"the id {case.id!r} is not in kebab case")
    if case.id != path.stem:
        raise source.bad(("id",), f"the id {case.id!r} is not the name of the file")
    return case


def files(places: Iterable[Path]) -> list[Path]:
    """The case files that are named, or that lie below the named folders, each once, in order of their names.

    :raises FileNotFoundError: for a place that is not there or holds no case.
    """
    found: dict[Path, None] = {}
    for place in places:
        below = sorted(place.rglob("*.yaml")) if place.is_dir() else [place]
        if not below or not all(one.is_file() for one in below):
            raise FileNotFoundError(f"there are no cases at {place}")
        found |= dict.fromkeys(below)
    return list(found)


def load(paths: Iterable[Path]) -> list[Case]:
    """All cases. :raises BadCases: for files that are not valid."""
    cases: dict[str, Case] = {}
    bad: list[BadCase] = []
    for path in paths:
        try:
            case = read_case(path, path.read_text(encoding="utf-8"))
        except BadCase as error:
            bad.append(error)
            continue
        except UnicodeDecodeError as error:
            bad.append(BadCase(path, 1, f"the file is not valid UTF-8: {error}"))
            continue
        if case.id in cases and cases[case.id].path.resolve() != path.resolve():
            bad.append(BadCase(path, 1, f"the id {case.id} is also that of {cases[case.id].path}"))
        cases.setdefault(case.id, case)
    if bad:
        raise BadCases(bad)
    return list(cases.values())


@dataclass(frozen=True)
class Dispute:
    """Why a case is considered wrong: the reason, and the seed's sentence that says so."""

    reason: str
    seed: str


_DISPUTE = {"reason": Key(_text, "reason"), "seed": Key(_text, "seed")}


def read_disputes(path: Path, text: str) -> dict[str, Dispute]:
    """Disputed cases by id; an empty file holds none. :raises BadCase: as for a case."""
    source = parse(path, text)
    if source.data is None:
        return {}
    if not isinstance(source.data, dict):
        raise source.bad((), "this must be an object: id: {reason, seed}")
    return {
        str(id_): Dispute(**_fields(source, (str(id_),), raw, _DISPUTE, f"'{id_}'"))
        for id_, raw in source.data.items()
    }
