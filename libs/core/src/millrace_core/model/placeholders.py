"""Placeholders of a stream's query: one table of who offers them and where they may stand (seed 000)."""

from __future__ import annotations

from dataclasses import dataclass

WINDOWS = frozenset({"INTERVAL", "SESSION", "STATE_WINDOW", "EVENT_WINDOW", "COUNT_WINDOW"})
EVERY = WINDOWS | {"PERIOD", "SLIDING"}


@dataclass(frozen=True, slots=True)
class PlaceholderRule:
    """One row. ``triggers``: keywords of the triggers that offer it. ``close_only``: its close tells it.

    ``table``, ``value``: may it stand for a table, for a value? ``group``: is it the same for all triggers of
    a group, so that tags and sub-table names may use it?
    """

    triggers: frozenset[str]
    close_only: bool = False
    table: bool = False
    value: bool = True
    group: bool = False


_PERIOD, _SLIDING = frozenset({"PERIOD"}), frozenset({"SLIDING"})
PLACEHOLDERS: dict[str, PlaceholderRule] = {
    "_tprev_localtime": PlaceholderRule(_PERIOD),
    "_tnext_localtime": PlaceholderRule(_PERIOD),
    "_tprev_ts": PlaceholderRule(_SLIDING),
    "_tcurrent_ts": PlaceholderRule(_SLIDING),
    "_tnext_ts": PlaceholderRule(_SLIDING),
    "_twstart": PlaceholderRule(WINDOWS),
    "_twend": PlaceholderRule(WINDOWS, close_only=True),
    "_twduration": PlaceholderRule(WINDOWS, close_only=True),
    "_twrownum": PlaceholderRule(WINDOWS, close_only=True),
    "_tgrpid": PlaceholderRule(EVERY, group=True),
    "_tlocaltime": PlaceholderRule(EVERY),
    "%%n": PlaceholderRule(EVERY, group=True),
    "%%tbname": PlaceholderRule(EVERY, table=True, group=True),
    "%%trows": PlaceholderRule(EVERY, close_only=True, table=True, value=False),
}
"""By name; ``%%n`` stands for %%1, %%2 …."""
