"""Placeholders of a stream's query: who offers them and where they may stand (seed 000).

Those that every trigger type has are here, the others with the types (``trigger.types``); all of them gives
``trigger.types.registry.placeholders``.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class PlaceholderRule:
    """``triggers``: keywords of the triggers that offer it. ``close_only``: its close tells it.

    ``table``, ``value``: may it stand for a table, for a value? ``group``: is it the same for all triggers of
    a group, so that tags and sub-table names may use it?
    """

    triggers: frozenset[str] = frozenset()
    close_only: bool = False
    table: bool = False
    value: bool = True
    group: bool = False

    def offered_by(self, keywords: Set[str]) -> PlaceholderRule:
        """The same, offered by these triggers as well."""
        return replace(self, triggers=self.triggers | keywords)


SHARED: dict[str, PlaceholderRule] = {
    "_tgrpid": PlaceholderRule(group=True),
    "_tlocaltime": PlaceholderRule(),
    "%%n": PlaceholderRule(group=True),
    "%%tbname": PlaceholderRule(table=True, group=True),
    "%%trows": PlaceholderRule(close_only=True, table=True, value=False),
}
"""By name; ``%%n`` stands for %%1, %%2 …."""
