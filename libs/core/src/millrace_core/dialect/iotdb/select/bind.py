"""The results of a SELECT: wildcards expanded, each over the series of its device.

Without ALIGN BY DEVICE a result is a column of its own for each series that an item means, in the order of
the items, then of FROM, then by path. With it there is one column for each item and measurement, and there
are rows for each device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from millrace_core.dialect.iotdb import expressions as e
from millrace_core.dialect.iotdb.codes import IotdbError, semantic, unsupported
from millrace_core.dialect.iotdb.paths import Pattern, write_node
from millrace_core.dialect.iotdb.schema import Schema, by_name, path_of
from millrace_core.dialect.iotdb.select.aggregates import AGGREGATES, check
from millrace_core.dialect.iotdb.select.sql import Missing, Sql, render, source_text
from millrace_core.dialect.iotdb.statements import Item, Select
from millrace_core.dialect.iotdb.times import Session
from millrace_core.model.device import Device, Series


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate over one device: its SQL argument."""

    name: str
    argument: Sql


@dataclass(frozen=True, slots=True)
class Formula:
    """What is calculated of aggregates: ``calls`` by the place of their call in ``tree``."""

    tree: e.Expression
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """One result over one device. ``sql``: of a raw one; ``formula``: of an aggregated one.
    ``measurement``: of a result that is a series alone, or an aggregate of one."""

    device: Device
    name: str
    type: str
    sql: Sql | None
    formula: Formula | None
    measurement: str | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the answer. ``bound``: of each device that has it: one, unless devices are aligned or
    levels merged. ``slot``: the number of the item that it is of, or, unless devices are aligned, of the item
    and path of FROM together: item * paths + path."""

    name: str
    type: str
    bound: tuple[Bound, ...]
    slot: int


def calls(node: e.Expression) -> list[e.Call]:
    return [part for part in e.walk(node) if isinstance(part, e.Call) and part.name in AGGREGATES]


def is_aggregated(select: Select) -> bool:
    """:raises IotdbError: if some items are aggregates and some are not."""
    kinds = {bool(calls(item.expression)) for item in select.items}
    if len(kinds) > 1:
        raise semantic("aggregates and raw values cannot be selected together", select.position)
    return kinds.pop()


def expand(select: Select, schema: Schema, session: Session) -> list[Column]:
    """The columns of the answer; empty if no series is meant."""
    for item in select.items:
        if not any(isinstance(node, e.Series) for node in e.walk(item.expression)):
            raise semantic(f"{item.text}: an item needs a series", item.expression.position)
    if select.by_device:
        return _by_device(select, schema, session)
    found = []
    for place, item in enumerate(select.items):
        made = [
            (place * len(select.sources) + number, _bind(item, choice, session))
            for number, source in enumerate(select.sources)
            for choice in _choices(item, source, schema)
        ]
        if item.alias is not None and len(made) > 1:
            raise semantic(f"the alias {item.alias} is for {len(made)} columns", item.expression.position)
        found += [Column(item.alias or one.name, one.type, (one,), slot) for slot, one in made]
    return found


def devices_of(select: Select, schema: Schema) -> list[Device]:
    """The devices of ALIGN BY DEVICE, by path."""
    found = {device.name: device for source in select.sources for device in schema.devices(source)}
    return [found[name] for name in sorted(found)]


Choice = dict[e.Series, tuple[Device, Series]]


def _choices(item: Item, source: Pattern, schema: Schema) -> Iterator[Choice]:
    """Each way to mean series below a path of FROM, all of one device."""
    nodes = list(dict.fromkeys(n for n in e.walk(item.expression) if isinstance(n, e.Series)))
    options = [schema.series(source.joined(node.path)) for node in nodes]
    if len(nodes) > 1 and len({device.name for option in options for device, _ in option}) > 1:
        raise unsupported(
            f"{item.text}: an expression over several devices is not supported yet; with ALIGN BY DEVICE it "
            "is calculated for each of them",
            item.expression.position,
        )
    for choice in product(*options):
        yield dict(zip(nodes, choice, strict=True))


def _bind(item: Item, choice: Choice, session: Session, named: bool = False) -> Bound:
    """One result. ``named``: by measurements, as under ALIGN BY DEVICE, not by whole paths."""
    device = next(iter(choice.values()))[0]

    def name(node: e.Series) -> str:
        one, series = choice[node]
        return write_node(series.measurement) if named else path_of(one, series)

    def series_of(node: e.Series) -> Series | None:
        return choice[node][1] if node in choice else None

    text = source_text(item.expression, name)
    only = next(iter(choice.values()))[1].measurement if len(choice) == 1 else None
    tree = item.expression
    found = calls(tree)
    if not found:
        sql = render(tree, series_of, session)
        return Bound(device, text, sql.type, sql, None, only if isinstance(tree, e.Series) else None)
    formula = _formula(tree, found, series_of, session)
    single = len(found) == 1 and tree is found[0]
    type_ = AGGREGATES[found[0].name].type_for(formula.calls[0].argument) if single else "DOUBLE"
    return Bound(device, text, type_, None, formula, only if single else None)


def _formula(tree: e.Expression, found: Sequence[e.Call], bind: object, session: Session) -> Formula:
    made = []
    for call in found:
        if len(call.arguments) != 1:
            raise semantic(f"{call.name} takes one argument", call.position)
        if calls(call.arguments[0]):
            raise semantic(f"{call.name}: an aggregate of an aggregate", call.position)
        argument = render(call.arguments[0], bind, session)  # type: ignore[arg-type]
        if (problem := check(call.name, argument)) is not None:
            raise semantic(problem, call.position)
        made.append(Call(call.name, argument))
    return Formula(tree, tuple(made))


def bind_condition(tree: e.Expression, device: Device, session: Session) -> Formula | None:
    """HAVING over one device; None: it lacks a series of it."""

    def series_of(node: e.Series) -> Series | None:
        return device.find(_measurement(node))

    try:
        return _formula(tree, calls(tree), series_of, session)
    except Missing:
        return None


def _measurement(node: e.Series) -> str:
    if len(node.path.nodes) != 1 or node.path.wild:
        raise semantic(f"{node.path}: one measurement is needed here", node.position)
    return node.path.nodes[0].text


# -- ALIGN BY DEVICE -----------------------------------------------------------------------------------------


def _by_device(select: Select, schema: Schema, session: Session) -> list[Column]:
    devices = devices_of(select, schema)
    found = []
    for place, item in enumerate(select.items):
        for node in e.walk(item.expression):
            if isinstance(node, e.Series) and len(node.path.nodes) != 1:
                raise _no_suffix(node)
        made: dict[str, list[Bound]] = {}
        for device in devices:
            for choice in _of_device(item, device):
                bound = _bind(item, choice, session, named=True)
                made.setdefault(bound.name, []).append(bound)
        if item.alias is not None and len(made) > 1:
            raise semantic(f"the alias {item.alias} is for {len(made)} columns", item.expression.position)
        found += [
            Column(item.alias or name, _one_type(name, made[name], item), tuple(made[name]), place)
            for name in sorted(made)
        ]
    return found


def _of_device(item: Item, device: Device) -> Iterator[Choice]:
    nodes = list(dict.fromkeys(n for n in e.walk(item.expression) if isinstance(n, e.Series)))
    options = []
    for node in nodes:
        last = node.path.nodes[0]
        if last.wild:
            pattern = Pattern((last,))
            options.append([s for s in by_name(device) if pattern.matches((s.measurement,))])
        else:
            series = device.find(last.text)
            options.append([] if series is None else [series])
    for choice in product(*options):
        yield {node: (device, series) for node, series in zip(nodes, choice, strict=True)}


def _no_suffix(node: e.Series) -> IotdbError:
    return semantic(
        f"{node.path}: ALIGN BY DEVICE takes measurements, the rest of the path belongs into FROM",
        node.position,
    )


def _one_type(name: str, bound: Sequence[Bound], item: Item) -> str:
    types = {one.type for one in bound}
    if len(types) > 1:
        raise semantic(
            f"{name} has different types among the devices ({', '.join(sorted(types))})",
            item.expression.position,
        )
    return types.pop()
