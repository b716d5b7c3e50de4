"""The sub-tables of a stream's groups: names and tags, computed once per group from its expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa

from calc_svc.spark.session import Runs
from calc_svc.store.columns import plain_arrow
from millrace_core.calc.conversion import convert, scale
from millrace_core.calc.results import SubTable, group_number, sub_table_name
from millrace_core.catalog import Catalog
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Precision
from millrace_core.model.stream import ResultColumn, StreamSpec
from millrace_core.model.sub_tables import GROUP_ID
from millrace_core.plan import OutputPlan, grouping_types, plan_output
from millrace_core.wire.events import Group
from millrace_core.wire.rows.decoded import polars_type

LARGEST = 200_000
"""How many groups of a stream are remembered."""


@dataclass(slots=True)
class GroupNames:
    """Thread-safe, except that what is found about one stream's groups (:meth:`refusals`) is one thread's."""

    _known: dict[int, dict[int, SubTable]] = field(default_factory=dict)
    """Stream -> group -> its sub-table."""

    _faults: dict[int, dict[int, MillraceError]] = field(default_factory=dict)
    """Stream -> group -> why its last results could not be written."""

    def resolve(
        self, spec: StreamSpec, groups: Sequence[Group], lane: Runs, precision: Precision | None = None
    ) -> Mapping[int, SubTable]:
        """The sub-tables of these groups (and of others) by their ids, with one job for all that are new.
        ``precision``: of the output table."""
        if spec.output is None:
            return {}
        known = self._known.setdefault(spec.uid, {})
        new = {g.id: g for g in groups if g.id not in known}
        if len(known) + len(new) > LARGEST:
            known = {group.id: known[group.id] for group in groups if group.id in known}
            self._known[spec.uid] = known
        if not new:
            return known
        if not spec.output.grouped:
            known |= {id_: SubTable(spec.output.table, {}) for id_ in new}
            return known
        plan = plan_output(spec, precision=precision)
        if not plan.tags and spec.output.subtable is None:
            known |= {gid: _sub_table(spec, group, None, {}) for gid, group in new.items()}
            return known
        result = lane.run(plan.sql, {"_grp": _relation(spec, list(new.values()))}, spec.timezone)
        frame = pl.DataFrame(pl.from_arrow(result))
        tags = _tags(spec, plan, frame, precision)
        lost = frame["_lost"].to_list() if plan.checked else [None] * len(frame)
        for place, (gid, name) in enumerate(frame.select("_gid", "_subtable").iter_rows()):
            own = {column: values[place] for column, values in tags.items()}
            known[gid] = _sub_table(spec, new[gid], name, own, lost[place])
        return known

    def refusals(
        self, spec: StreamSpec, groups: Sequence[Group], homes: Mapping[int, SubTable], catalog: Catalog
    ) -> dict[int, MillraceError]:
        """The groups to whose sub-table nothing can be written, and why: another table has its name, or a tag
        cannot hold the group's value. Earlier findings about these groups are forgotten. ``homes``: their
        sub-tables."""
        faults = self._faults.setdefault(spec.uid, {})
        if spec.output is None or not spec.output.grouped:
            return {}
        found: dict[int, MillraceError] = {}
        for group in {group.id: group for group in groups}.values():
            faults.pop(group.id, None)
            error = _refusal(spec, homes[group.id], catalog)
            if error is not None:
                found[group.id] = faults[group.id] = error
        return found

    def fault(self, uid: int) -> MillraceError | None:
        """Why results of one of the stream's groups could not be written, as far as it is known."""
        return next(iter(self._faults.get(uid, {}).values()), None)


def _tags(
    spec: StreamSpec, plan: OutputPlan, frame: pl.DataFrame, precision: Precision | None
) -> dict[str, list[object]]:
    """By tag, its values for all groups, in the tag's own type."""
    assert spec.output is not None
    own: Precision = spec.source.table.precision if spec.source else "ms"
    there = precision or own
    goals = {tag.column.name: tag.column for tag in spec.output.tags}
    found: dict[str, list[object]] = {}
    for name, type_ in zip(plan.tags, plan.types, strict=True):
        given = frame[name].cast(polars_type(type_), strict=False)
        if spec.output.converts:
            source = ResultColumn(name, type_)
            given = convert(given, source, goals[name], scale(own, there), there, spec.timezone)
        found[name] = [cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell for cell in given]
    return found


def _sub_table(
    spec: StreamSpec, group: Group, name: str | None, tags: Mapping[str, object], fault: str | None = None
) -> SubTable:
    assert spec.output is not None
    ids = [tag.column.name for tag in spec.output.tags if tag.expression == GROUP_ID]
    numbers = dict.fromkeys(ids, group_number(spec, group))
    return SubTable(sub_table_name(spec, group, name), {**tags, **numbers}, fault)


def _refusal(spec: StreamSpec, home: SubTable, catalog: Catalog) -> MillraceError | None:
    assert spec.output is not None
    out = spec.output
    if home.fault is not None:
        message = f"nothing can be written to {out.db}.{home.name}: {home.fault}"
        return MillraceError(ErrorCode.INVALID_VALUE, message)
    other = catalog.find(out.db, home.name)
    if other is None or (other[1] is not None and other[0].name == out.table):
        return None
    table, child = other
    kind = f"a {table.kind} table" if child is None else f"a child table of {table.name}"
    message = (
        f"the sub-table {out.db}.{home.name} of {out.table} cannot be created: {kind} of this name already "
        "exists"
    )
    return MillraceError(ErrorCode.TABLE_EXISTS, message)


def _relation(spec: StreamSpec, groups: Sequence[Group]) -> pa.Table:
    """``_grp(_gid, _tbname, _g1, _g2, …)``: one row per group, its grouping columns' values."""
    columns = {
        "_gid": pl.Series([group.id for group in groups], dtype=pl.Int64),
        "_tbname": pl.Series([group.table for group in groups], dtype=pl.String),
    }
    for place, type_ in enumerate(grouping_types(spec)):
        cells = [group.key[place] for group in groups]
        columns[f"_g{place + 1}"] = pl.Series(cells, dtype=polars_type(type_.type))
    return plain_arrow(pl.DataFrame(columns))
