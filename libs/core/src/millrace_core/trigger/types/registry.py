"""The existing trigger types. A new one takes a package in this folder and an entry in :data:`BUILT_IN`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.placeholders import SHARED, PlaceholderRule
from millrace_core.model.triggers import Trait, Trigger, register_spec, unregister_spec
from millrace_core.trigger.types.count import COUNT
from millrace_core.trigger.types.event import EVENT
from millrace_core.trigger.types.interval import INTERVAL
from millrace_core.trigger.types.period import PERIOD
from millrace_core.trigger.types.rows import ROWS
from millrace_core.trigger.types.session import SESSION
from millrace_core.trigger.types.sliding import SLIDING
from millrace_core.trigger.types.state import STATE
from millrace_core.trigger.types.trigger_type import TriggerType

BUILT_IN: tuple[TriggerType[Any], ...] = (PERIOD, SLIDING, INTERVAL, SESSION, STATE, EVENT, COUNT, ROWS)
"""In the order in which they are listed to users."""

_types: dict[type[Trigger], TriggerType[Any]] = {}


def register(type_: TriggerType[Any]) -> None:
    """Make a trigger type known: from now on statements can use it and definitions with it can be read.

    :raises ValueError: if there is one with its name or its keyword.
    """
    if any(type_.keyword == known.keyword for known in _types.values()):
        raise ValueError(f"there are two trigger types with the keyword {type_.keyword}")
    register_spec(type_.spec)
    _types[type_.spec] = type_
    placeholders.cache_clear()


def unregister(type_: TriggerType[Any]) -> None:
    """Take back :func:`register`."""
    unregister_spec(type_.spec)
    del _types[type_.spec]
    placeholders.cache_clear()


def trigger_types() -> tuple[TriggerType[Any], ...]:
    """The types that have a clause, in the order in which they were registered."""
    return tuple(found for found in _types.values() if found.nearest is None)


def type_of(trigger: Trigger) -> TriggerType[Any]:
    """The type of a trigger; :raises MillraceError: UNSUPPORTED if nobody has registered it."""
    found = _types.get(type(trigger))
    if found is None:
        name = getattr(trigger, "type", type(trigger).__name__)
        raise MillraceError(ErrorCode.UNSUPPORTED, f"unknown trigger type {name}")
    return found


def type_named(keyword: str) -> TriggerType[Any]:
    """The type with this keyword (in upper case).

    :raises KeyError: if there is none.
    """
    return {found.keyword: found for found in _types.values()}[keyword]


def having(trait: Trait | None) -> frozenset[str]:
    """The keywords of the types with a trait; none if the trait is None."""
    return frozenset(found.keyword for found in trigger_types() if trait in found.traits)


@cache
def placeholders() -> Mapping[str, PlaceholderRule]:
    """All placeholders in queries, by name; ``%%n`` stands for %%1, %%2 …."""
    every = frozenset(found.keyword for found in trigger_types())
    rules = {name: rule.offered_by(every) for name, rule in SHARED.items()}
    for found in trigger_types():
        for one in found.moment.placeholders:
            rule = rules.get(one.name, PlaceholderRule(close_only=one.close_only))
            rules[one.name] = rule.offered_by({found.keyword})
    return rules


for built_in in BUILT_IN:
    register(built_in)
