"""Plans of streams, kept while what they name in the catalog stays as it was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from calc_svc.store.catalog import CatalogView
from millrace_core.catalog import Catalog, Definitions
from millrace_core.model.stream import StreamSpec
from millrace_core.plan import Plan, plan_stream


class _Known(NamedTuple):
    """``definitions``: the state of the catalog for which the plan is known to be right; ``names``: what the
    plan asked the catalog for; ``part``: what the catalog had under these names."""

    definitions: int
    spec: StreamSpec
    names: tuple[tuple[str, str], ...]
    part: Catalog
    plan: Plan


class Plans:
    """A plan is made anew when a table that it names, a database or an anode has changed. Other tables come
    and go without a thousand streams being planned again for each. Thread-safe: two threads may plan the same
    stream at the same time, and find the same plan."""

    def __init__(self, catalog: CatalogView) -> None:
        self._catalog = catalog
        self._known: dict[tuple[int, str | None], _Known] = {}

    def of(self, spec: StreamSpec) -> Plan:
        """The plan of the stream's query.

        :raises SqlError: as :func:`millrace_core.plan.plan_stream`.
        """
        key, definitions = (spec.uid, spec.query), self._catalog.definitions
        known = self._known.get(key)
        if known is None or known.spec != spec:
            return self._new(spec, definitions)
        if known.definitions != definitions:
            if not known.part.is_like(_part(self._catalog, known.names)):
                return self._new(spec, definitions)
            self._known[key] = known._replace(definitions=definitions)
        return known.plan

    def _new(self, spec: StreamSpec, definitions: int) -> Plan:
        noting = _Noting(self._catalog)
        plan = plan_stream(spec, noting)
        self._forget()
        self._known[spec.uid, spec.query] = _Known(definitions, spec, noting.names, noting.part_before, plan)
        return plan

    def _forget(self) -> None:
        """Forget the plans of streams that were dropped."""
        there = {entry.spec.uid for entry in self._catalog.streams()}
        for key in [key for key in list(self._known) if key[0] not in there]:
            self._known.pop(key, None)


class _Noting:
    """The definitions; notes what a plan asks for."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self.names: tuple[tuple[str, str], ...] = ()
        self.part_before = Catalog()

    def part(self, wanted: Iterable[tuple[str, str]], *, families: bool) -> Catalog:
        self.names = tuple(wanted)
        self.part_before = _part(self._definitions, self.names)
        return self._definitions.part(self.names, families=True) if families else self.part_before


def _part(definitions: Definitions, names: Iterable[tuple[str, str]]) -> Catalog:
    """The part without children of super tables: no stream's plan depends on which children there are."""
    return definitions.part(names, families=False)
