"""Placeholders of a stream's query: which triggers offer them and where they may stand (seed 000).

Those that every trigger type has are here, the others are with the types (``trigger.types``).
``trigger.types.registry.placeholders`` gives all of them.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class PlaceholderRule:
    """``triggers``: keywords of the triggers that offer it. ``close_only``: only a window's close tells it.

    ``table``, ``value``: may it stand for a table, for a value? ``group``: is it the same for all triggers of
    a group, so that tags and sub-table names may use it?
    """

    triggers: frozenset[str] = frozenset()
    close_only: bool = False
    table: bool = False
    value: bool = True
    group: bool = False

    def offered_by(self, keywords: Set[str]) -> PlaceholderRule:
        """The same rule, with these triggers offering the placeholder as well."""
        return replace(self, triggers=self.triggers | keywords)


SHARED: dict[str, PlaceholderRule] = {
    "_tgrpid": PlaceholderRule(group=True),
    "_tlocaltime": PlaceholderRule(),
    "%%n": PlaceholderRule(group=True),
    "%%tbname": PlaceholderRule(table=True, group=True),
    "%%trows": PlaceholderRule(close_only=True, table=True, value=False),
}
"""By name; ``%%n`` stands for %%1, %%2 …."""
