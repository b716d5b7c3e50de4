"""Analysis algorithms as the planner sees them: their names, parameters and options (seed 001, TDgpt).

What an algorithm computes is defined elsewhere (in ``millrace_analytics``, or on a third-party analytics
node). This module holds what can be checked before anything is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from millrace_core.errors import ErrorCode, MillraceError

AnalysisKind = Literal["anomaly-detection", "forecast"]
"""As TDgpt's protocol names them."""
Value = int | float | str

LEAST_ROWS, MOST_ROWS = 10, 40_000
"""How many rows of a group an analysis takes; an algorithm may take fewer."""
DEFAULT_ALGORITHM: Mapping[AnalysisKind, str] = {"anomaly-detection": "iqr", "forecast": "holtwinters"}
INSTALL = "install millrace-analytics[algorithms]"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an algorithm.

    ``least``, ``most``: inclusive bounds; ``above``, ``below``: exclusive bounds. ``choices``: all values
    that a text parameter may have.
    """

    name: str
    type: Literal["int", "float", "text"]
    default: Value
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()

    def read(self, text: str) -> Value:
        """:raises ValueError: with a message that says which values it takes."""
        found: Value
        if self.type == "text":
            found = text.lower()
            if self.choices and found not in self.choices:
                raise ValueError(f"{self.name} must be one of {', '.join(self.choices)}, not {text!r}")
            return found
        try:
            found = int(text) if self.type == "int" else float(text)
        except ValueError:
            raise ValueError(f"{self.name} must be {self._words()}, not {text!r}") from None
        if not self._inside(found):
            raise ValueError(f"{self.name} must be {self._words()}, not {text}")
        return found

    def _inside(self, value: float) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def _words(self) -> str:
        kind = "an integer" if self.type == "int" else "a number"
        if self.least is not None and self.most is not None:
            return f"{kind} from {self.least:g} to {self.most:g}"
        bounds = (
            ("of at least", self.least), ("of at most", self.most), ("greater than", self.above),
            ("less than", self.below),
        )  # fmt: skip
        given = [f"{word} {bound:g}" for word, bound in bounds if bound is not None]
        return f"{kind} {' and '.join(given)}" if given else kind


COMMON = (
    Parameter("wncheck", "int", 1, least=0, most=1),
    Parameter("timeout", "int", 60, least=1, most=1200),
)
"""Options of every analysis: whether to check for white noise, and how many seconds an anode may take."""
FORECAST = (
    Parameter("rows", "int", 10, least=1, most=1024),
    Parameter("conf", "float", 95, above=0, below=100),
    Parameter("start", "int", -1),
    Parameter("every", "int", -1, least=1),
)
"""Options of a forecast: how many rows; the confidence in per cent; the first instant and the step, in ticks
(if not given: right after the last row, with the mean step of the rows)."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm that exists.

    ``missing``: the packages that it needs and that are not installed here. ``url``: the anode that computes
    it (empty: this process can); ``anode``: the number of that anode. ``parameters`` is None for an anode's
    algorithm: they are not known here.
    """

    name: str
    kind: AnalysisKind
    parameters: tuple[Parameter, ...] | None = ()
    most_rows: int = MOST_ROWS
    missing: str = ""
    anode: int = 0
    url: str = ""


class Analysis(msgspec.Struct, frozen=True):
    """A checked request for an analysis, which the function that runs it receives as JSON."""

    kind: AnalysisKind
    algorithm: str
    parameters: dict[str, int | float | str]
    precision: str
    wncheck: bool = True
    timeout: int = 60
    most_rows: int = MOST_ROWS
    url: str = ""
    option: str = ""
    """The text as the user wrote it: an anode reads it itself."""

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


def read_analysis(text: str) -> Analysis:
    """What :meth:`Analysis.text` gave."""
    return msgspec.json.decode(text, type=Analysis)


@dataclass(frozen=True, slots=True)
class Directory:
    """The available algorithms: those of this process first, then those of anodes."""

    algorithms: tuple[Algorithm, ...] = field(default=())

    def of_kind(self, kind: AnalysisKind) -> list[Algorithm]:
        return [one for one in self.algorithms if one.kind == kind]

    def find(self, kind: AnalysisKind, name: str) -> Algorithm:
        """``name``, or ``anode:name``.

        :raises MillraceError: UNSUPPORTED; the message lists the known algorithms.
        """
        number, _, bare = name.rpartition(":")
        known = self.of_kind(kind)
        found = [one for one in known if one.name == bare and (not number or str(one.anode) == number)]
        if not found:
            names = ", ".join(dict.fromkeys(one.name for one in known)) or "none"
            raise MillraceError(
                ErrorCode.UNSUPPORTED, f"unknown algorithm {name!r} for {kind}; known algorithms: {names}"
            )
        return next((one for one in found if not one.missing), found[0])

    def read(self, kind: AnalysisKind, options: str, precision: str) -> Analysis:
        """Check an option text: ``key=value`` pairs separated by commas. Blanks do not matter, keys are
        case-insensitive, empty entries and unknown keys are ignored (as TDgpt does).

        :raises MillraceError: UNSUPPORTED, INVALID_VALUE: what is wrong with it.
        """
        given = _pairs(options)
        if "alpha" in given and kind == "forecast":  # an older name
            given.setdefault("conf", given.pop("alpha"))
        algorithm = self.find(kind, given.get("algo") or DEFAULT_ALGORITHM[kind])
        if algorithm.missing:
            raise MillraceError(
                ErrorCode.UNSUPPORTED,
                f"the algorithm {algorithm.name} needs {algorithm.missing}, which is not installed: "
                f"{INSTALL}",
            )
        common = COMMON + (FORECAST if kind == "forecast" else ())
        try:
            values = {one.name: one.read(given[one.name]) for one in common if one.name in given}
            own = {
                one.name: one.read(given[one.name]) if one.name in given else one.default
                for one in algorithm.parameters or ()
            }
        except ValueError as error:
            raise MillraceError(ErrorCode.INVALID_VALUE, f"{algorithm.name}: {error}") from None
        settings = {one.name: values.get(one.name, one.default) for one in common}
        if kind == "forecast":
            conf = float(settings["conf"])
            settings["conf"] = conf * 100 if conf < 1 else conf
        wncheck, timeout = int(settings.pop("wncheck")), int(settings.pop("timeout"))
        return Analysis(
            kind, algorithm.name, own | settings, precision, bool(wncheck), timeout, algorithm.most_rows,
            algorithm.url, options,
        )  # fmt: skip


def _pairs(options: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in options.split(","):
        key, equals, value = entry.partition("=")
        if equals and key.strip() and value.strip():
            found[key.strip().lower()] = value.strip()
    return found


def of_anodes(anodes: Iterable[tuple[int, str, Iterable[tuple[AnalysisKind, str]]]]) -> list[Algorithm]:
    """The algorithms of registered anodes: (number, address, (kind, name) of each)."""
    return [
        Algorithm(name, kind, None, anode=number, url=url)
        for number, url, algorithms in anodes
        for kind, name in algorithms
    ]
