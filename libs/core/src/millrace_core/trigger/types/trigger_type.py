"""What a trigger type consists of. Each package beside this module exports one :class:`TriggerType`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, overload

import numpy as np
import numpy.typing as npt

from millrace_core.model.rules import FIXED_UNITS, DurationRule, IntegerRule
from millrace_core.model.schema import Precision
from millrace_core.model.stream import Condition, Duration, EventType, StreamSpec
from millrace_core.model.triggers import Trait, Trigger
from millrace_core.timeline import Schedule
from millrace_core.trigger.types.arguments import ARGUMENTS, Arguments, Quote, Syntax
from millrace_core.trigger.types.moment import WINDOW, Moment
from millrace_core.trigger.types.setting import Setting
from millrace_core.trigger.types.windower import Windower

S = TypeVar("S", bound=Trigger)
Ints = npt.NDArray[np.int64]

TRUE_FOR = DurationRule(FIXED_UNITS, zero=True)
"""The rule for TRUE_FOR, in the types that take it."""


class Grid(Protocol):
    """Windows by number, in order of their starts; times in ticks."""

    @overload
    def last(self, ts: int) -> int: ...
    @overload
    def last(self, ts: Ints) -> Ints: ...
    def last(self, ts: int | Ints) -> int | Ints:
        """The last window that starts at or before ``ts``."""

    @overload
    def unclosed(self, ts: int) -> int: ...
    @overload
    def unclosed(self, ts: Ints) -> Ints: ...
    def unclosed(self, ts: int | Ints) -> int | Ints:
        """The first window that ends after ``ts``."""

    @overload
    def start(self, window: int) -> int: ...
    @overload
    def start(self, window: Ints) -> Ints: ...
    def start(self, window: int | Ints) -> int | Ints:
        """Its first time."""

    @overload
    def end(self, window: int) -> int: ...
    @overload
    def end(self, window: Ints) -> Ints: ...
    def end(self, window: int | Ints) -> int | Ints:
        """The first time that is not in it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """What a spec says about the size of its windows: their ``length``, the ``step`` from one start to the
    next, the ``gap`` that ends a window, their number of ``rows``; None where it says nothing."""

    length: Duration | None = None
    step: Duration | None = None
    gap: Duration | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerType(Generic[S]):
    """A trigger type. Code that deals with triggers in general uses this and knows no type by name."""

    spec: type[S]
    """The class of triggers of this type as data, which definitions of streams hold. The name of the class is
    that of the type."""
    keyword: str
    """Its keyword in SQL."""
    read: Callable[[Arguments], S]
    """Makes a spec from a clause's arguments."""
    write: Callable[[S, str, Quote], str]
    """Makes the clause of a spec, as :attr:`read` reads it. The text argument is the name of the trigger
    table's time column."""
    windower: Callable[[S, Setting], Windower]
    """Makes the windower that turns the rows of a stream with this trigger into windows."""
    rules: Mapping[str, DurationRule | IntegerRule] = field(default_factory=dict)
    """The rules for its arguments, by the seed's names."""
    syntax: Syntax = ARGUMENTS
    traits: frozenset[Trait] = frozenset()
    """What it has in common with other types. By these traits, options are refused or have no effect."""
    moment: Moment = WINDOW
    """What its events give to the query."""
    details: Mapping[EventType, tuple[str, ...]] = field(default_factory=dict)
    """The fields that only its notifications have."""
    words: Mapping[str, Callable[[S], str]] = field(default_factory=dict)
    """For DIAGNOSE, by :attr:`Wait.what`: what a row that is waited for must be like, if only the spec tells
    that."""
    schedule: Callable[[StreamSpec], Schedule] | None = None
    """The planned instants (ns) of a stream, for a type with :attr:`Trait.CLOCK`."""
    nearest: Callable[[S], Trigger] | None = None
    """For a type without a clause: the trigger with a clause that comes nearest to a spec."""
    by_child: bool = False
    """Whether it must be grouped by tbname on a super table."""
    takes_true_for: bool = False
    at_home: Callable[[S, str], S] = lambda spec, timezone: spec
    """The spec with the server's time zone filled in, for a type that counts days from midnights."""
    on_clock: Callable[[S, str], S] = lambda spec, timezone: spec
    """The spec with the days of a session's clock, as a query of that session counts them."""
    conditions: Callable[[S], tuple[Condition, ...]] = lambda spec: ()
    """The conditions on rows in a spec."""
    counted: Callable[[S], tuple[str, ...]] = lambda spec: ()
    """The columns of which at least one must not be NULL for a row to count at all; if empty, every row
    counts."""
    measures: Callable[[S], Measures] = lambda spec: Measures()
    """The size of a spec's windows."""
    grid: Callable[[S, Precision], Grid] | None = None
    """Where its windows lie, for a type whose windows do not depend on the rows."""
    begins_with_row: Callable[[S], bool] = lambda spec: False
    """Whether a window that is cut again exists only as long as its first row does."""

    def __post_init__(self) -> None:
        if (self.schedule is not None) is not self.by_clock:
            raise ValueError(f"{self.keyword}: what goes by the clock has a schedule, and nothing else has")

    @property
    def name(self) -> str:
        """The name of the type in messages and notifications."""
        return self.spec.__name__

    @property
    def window(self) -> bool:
        """Whether it has windows, which open and close, rather than instants."""
        return Trait.INSTANTS not in self.traits

    @property
    def by_row(self) -> bool:
        """Whether rows trigger by themselves, each with a result of its own, under its own time."""
        return self.nearest is not None

    @property
    def recalculates(self) -> bool:
        """Whether disorder, updates and (with DELETE_RECALC) deletes make it calculate again."""
        return Trait.FINAL not in self.traits

    @property
    def by_clock(self) -> bool:
        """Whether processing time triggers it, and not rows: then it needs no trigger table."""
        return Trait.CLOCK in self.traits

    @property
    def numbered(self) -> bool:
        """Whether its windows are numbers of rows: by hand they are recalculated only between two times."""
        return Trait.NUMBERED in self.traits
