"""What a case is: its head, and its steps as plain data that know their place in the file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from millrace_core.model.schema import Precision

Dialect = Literal["tdengine", "tdengine-legacy", "iotdb"]
SERVICES = ("trigger-svc", "calc-svc", "notify-svc", "api-gateway")
Scalar = str | int | float | bool | None
ExpectedRow = tuple[Scalar, ...]

DEFAULT_WITHIN = 30.0


@dataclass(frozen=True)
class Login:
    """A user other than root, and the password."""

    user: str
    password: str


@dataclass(frozen=True)
class Step:
    """The root of the steps. ``line`` is where it begins in the case's file; times are seconds."""

    line: int


@dataclass(frozen=True)
class Sql(Step):
    """Statements that must succeed, in order. ``login``: who sends them; None: root."""

    statements: tuple[str, ...]
    login: Login | None = None


@dataclass(frozen=True)
class Running(Step):
    """Waits until all these streams are shown as Running (older dialect: ready), 60 s at most."""

    streams: tuple[str, ...]


@dataclass(frozen=True)
class Expect(Step):
    """A query whose answer must become these rows within some time. ``login``: who asks; None: root."""

    sql: str
    rows: tuple[ExpectedRow, ...]
    within: float = DEFAULT_WITHIN
    ordered: bool = True
    login: Login | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Stays(Expect):
    """Like :class:`Expect`; the answer must then stay the same for ``during`` seconds."""

    during: float = 0.0


@dataclass(frozen=True)
class Refused(Step):
    """A statement that must be refused; ``match``: a regular expression that the message must contain.
    ``login``: who sends it; None: root."""

    sql: str
    match: str | None = None
    login: Login | None = None


@dataclass(frozen=True)
class Sleep(Step):
    """A pause, for cases that test processing time."""

    seconds: float


@dataclass(frozen=True)
class Notifications(Step):
    """Events that must have come to the case's WebSocket address; see :mod:`millrace_conformance.notices`."""

    events: tuple[Mapping[str, Any], ...]
    within: float = DEFAULT_WITHIN
    complete: bool = False


@dataclass(frozen=True)
class Restart(Step):
    """kill -9 of a service, and a start of it."""

    service: str


@dataclass(frozen=True)
class Produce(Step):
    """Rows of one table, written through Kafka as an outside producer would."""

    table: str
    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Case:
    """One file. The steps still hold ``{db}`` and ``{notify}``: see :func:`substitute`."""

    id: str
    title: str
    covers: tuple[str, ...]
    dialect: Dialect
    precision: Precision
    oracle: str
    steps: tuple[Step, ...]
    path: Path
    timezone: str = "UTC"

    def database(self, name: str) -> str:
        """What a client calls the case's database: IoTDB's names begin with ``root.``."""
        return f"root.{name}" if self.dialect == "iotdb" else name


Data = TypeVar("Data")
_PLACEHOLDER = re.compile(r"\{(db|notify)\}")


def substitute(data: Data, names: Mapping[str, str]) -> Data:
    """The data with ``{db}`` and ``{notify}`` replaced as literal text in every string, also in keys. All
    other braces (JSON tags have them) stay. ``names``: the values of ``db`` and ``notify``."""
    result: Any = _substitute(data, names)
    return result  # type: ignore[no-any-return]


def _substitute(data: Any, names: Mapping[str, str]) -> Any:
    if isinstance(data, str):
        return _PLACEHOLDER.sub(lambda found: names[found[1]], data)
    if isinstance(data, Mapping):
        return {_substitute(key, names): _substitute(value, names) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return type(data)(_substitute(item, names) for item in data)
    if isinstance(data, Step | Login):
        fields = {one.name: getattr(data, one.name) for one in dataclasses.fields(data)}
        return dataclasses.replace(data, **_substitute(fields, names))
    return data


def statements(step: Step) -> tuple[str, ...]:
    """All SQL that a step sends."""
    match step:
        case Sql():
            return step.statements
        case Expect() | Refused():
            return (step.sql,)
        case _:
            return ()


_SNODE = re.compile(r"\b(CREATE|DROP)\s+SNODE\b", re.IGNORECASE)
_LISTS_EVERYTHING = re.compile(r"\bSHOW\s+(TRIGGERS|CQS|CONTINUOUS\s+QUERIES)\b", re.IGNORECASE)


def runs_alone(case: Case) -> bool:
    """Whether nothing may run beside the case: it kills a service, lists what all cases have registered, or
    drops an snode, which streams that other cases create meanwhile would keep in use."""
    if any(isinstance(step, Restart) for step in case.steps):
        return True
    texts = [sql for step in case.steps for sql in statements(step)]
    if any(_SNODE.search(sql) for sql in texts):
        return True
    return case.dialect == "iotdb" and any(_LISTS_EVERYTHING.search(sql) for sql in texts)


def split(cases: list[Case]) -> tuple[list[Case], list[Case]]:
    """The cases that run side by side, and those that run alone, each in the given order."""
    return [case for case in cases if not runs_alone(case)], [case for case in cases if runs_alone(case)]
