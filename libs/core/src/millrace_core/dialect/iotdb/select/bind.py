"""The results of a SELECT: expands wildcards, and binds each result to the series of its device.

Without ALIGN BY DEVICE, every series that an item matches is a result with a column of its own; columns are
ordered by item, then as in FROM, then by path. With ALIGN BY DEVICE there is one column for each item and
measurement, and each device has rows of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from millrace_core.dialect.iotdb import expressions as e
from millrace_core.dialect.iotdb.codes import IotdbError, semantic, unsupported
from millrace_core.dialect.iotdb.paths import Pattern, write_node
from millrace_core.dialect.iotdb.schema import Schema, by_name, path_at
from millrace_core.dialect.iotdb.select.aggregates import AGGREGATES, check
from millrace_core.dialect.iotdb.select.sql import Missing, Sql, render, source_text
from millrace_core.dialect.iotdb.statements import Item, Select
from millrace_core.dialect.iotdb.times import TimeContext
from millrace_core.model.device import Device, Series


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate over one device, with its argument in SQL."""

    name: str
    argument: Sql


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression over aggregates: ``calls`` in the order in which they stand in ``tree``."""

    tree: e.Expression
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True, slots=True)
class Meaning:
    """One result for all devices that have the same series. ``name``: with :data:`HERE` instead of the
    device's path; ``sql``: that of a raw result; ``formula``: that of an aggregated one. ``measurement``: set
    if the result is a plain series, or an aggregate of one."""

    name: str
    type: str
    sql: Sql | None
    formula: Formula | None
    measurement: str | None


HERE = "\0"
"""Stands for a device's path; no name contains it."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One result for one device. A hundred thousand of these may share a few meanings."""

    device: Device
    meaning: Meaning

    @property
    def name(self) -> str:
        return self.meaning.name.replace(HERE, self.device.name)

    @property
    def type(self) -> str:
        return self.meaning.type

    @property
    def sql(self) -> Sql | None:
        return self.meaning.sql

    @property
    def formula(self) -> Formula | None:
        return self.meaning.formula

    @property
    def measurement(self) -> str | None:
        return self.meaning.measurement


@dataclass(frozen=True, slots=True)
class BoundColumn:
    """A column of the answer. ``bound``: its results, one for each device that has it; only one in all,
    unless devices are aligned or levels merged. ``slot``: the number of its item; unless devices are aligned,
    of the item and the path of FROM together: item * paths + path."""

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


def check_functions(select: Select) -> None:
    """Called before series are looked up: an unknown function is refused even if its series do not exist.

    :raises IotdbError: UNSUPPORTED_OPERATION for an unknown function, SEMANTIC_ERROR for an
        aggregate in WHERE.
    """
    trees = (*(item.expression for item in select.items), select.having, select.where)
    for tree in trees:
        for node in e.walk(tree) if tree is not None else ():
            if not isinstance(node, e.Call):
                continue
            if node.name not in AGGREGATES:
                known = ", ".join(sorted(AGGREGATES))
                raise unsupported(
                    f"the function {node.name} is not supported yet; supported functions: {known}",
                    node.position,
                )
            if tree is select.where:
                raise semantic(
                    f"{node.name}: WHERE applies to rows; put conditions on aggregates in HAVING",
                    node.position,
                )


def expand(
    select: Select, schema: Schema, session: TimeContext, aligned: Sequence[Device] | None
) -> list[BoundColumn]:
    """The columns of the answer; empty if nothing matches. ``aligned``: the devices of ALIGN BY DEVICE (see
    :func:`devices_of`); None: without ALIGN BY DEVICE."""
    for item in select.items:
        if not any(isinstance(node, e.SeriesRef) for node in e.walk(item.expression)):
            raise semantic(f"{item.text}: an item of SELECT needs a series", item.expression.position)
    if aligned is not None:
        return _by_device(select, aligned, session)
    found = []
    for place, item in enumerate(select.items):
        meant: dict[tuple[Series, ...], Meaning] = {}
        made = [
            (place * len(select.sources) + number, _bind(item, choice, session, meant))
            for number, source in enumerate(select.sources)
            for choice in _choices(item, source, schema)
        ]
        if item.alias is not None and len(made) > 1:
            raise semantic(f"the alias {item.alias} would name {len(made)} columns", item.expression.position)
        found += [BoundColumn(item.alias or one.name, one.type, (one,), slot) for slot, one in made]
    return found


def devices_of(select: Select, schema: Schema) -> list[Device]:
    """The devices of ALIGN BY DEVICE, ordered by path."""
    if len(select.sources) == 1:
        return schema.devices(select.sources[0])
    found = {device.name: device for source in select.sources for device in schema.devices(source)}
    return [found[name] for name in sorted(found)]


Choice = dict[e.SeriesRef, tuple[Device, Series]]


def _choices(item: Item, source: Pattern, schema: Schema) -> Iterator[Choice]:
    """Each combination of series that an item can mean below a path of FROM; all series are of one device."""
    nodes = list(dict.fromkeys(n for n in e.walk(item.expression) if isinstance(n, e.SeriesRef)))
    options = [schema.series(source.joined(node.path)) for node in nodes]
    if len(nodes) > 1 and len({device.name for option in options for device, _ in option}) > 1:
        raise unsupported(
            f"{item.text}: an expression over several devices is not supported yet; use ALIGN BY DEVICE to "
            "calculate it for each device",
            item.expression.position,
        )
    for choice in product(*options):
        yield dict(zip(nodes, choice, strict=True))


def _bind(
    item: Item, choice: Choice, session: TimeContext, known: dict[tuple[Series, ...], Meaning]
) -> Bound:
    """One result with a column of its own. ``known``: the meanings of the item so far, by their series."""
    device = next(iter(choice.values()))[0]
    key = tuple([series for _, series in choice.values()])
    meaning = known.get(key)
    if meaning is None:
        chosen = {node: series for node, (_, series) in choice.items()}
        meaning = known[key] = _meaning(item, chosen, session, lambda one: path_at(HERE, one))
    return Bound(device, meaning)


def _meaning(
    item: Item, choice: dict[e.SeriesRef, Series], session: TimeContext, name: Callable[[Series], str]
) -> Meaning:
    """The meaning of an item for devices that have these series. ``name``: gives the name of a series."""
    text = source_text(item.expression, lambda node: name(choice[node]))
    only = next(iter(choice.values())).measurement if len(choice) == 1 else None
    tree = item.expression
    found = calls(tree)
    if not found:
        sql = render(tree, choice.get, session)
        return Meaning(text, sql.type, sql, None, only if isinstance(tree, e.SeriesRef) else None)
    formula = _formula(tree, found, choice.get, session)
    single = len(found) == 1 and tree is found[0]
    type_ = AGGREGATES[found[0].name].type_for(formula.calls[0].argument) if single else _type_over(tree)
    return Meaning(text, type_, None, formula, only if single else None)


def _type_over(tree: e.Expression) -> str:
    """The type of an expression over aggregates."""
    match tree:
        case e.Binary(operator="+" | "-" | "*" | "/" | "%") | e.Unary(operator="-"):
            return "DOUBLE"
        case _:
            return "BOOLEAN"


def _formula(tree: e.Expression, found: Sequence[e.Call], bind: object, session: TimeContext) -> Formula:
    made = []
    for call in found:
        if len(call.arguments) != 1:
            raise semantic(f"{call.name} takes one argument", call.position)
        if calls(call.arguments[0]):
            raise semantic(f"{call.name}: an aggregate cannot contain an aggregate", call.position)
        argument = render(call.arguments[0], bind, session)  # type: ignore[arg-type]
        if (problem := check(call.name, argument)) is not None:
            raise semantic(problem, call.position)
        made.append(AggregateCall(call.name, argument))
    return Formula(tree, tuple(made))


def bind_condition(tree: e.Expression, device: Device, session: TimeContext) -> Formula | None:
    """HAVING for one device; None: the device lacks one of its series."""

    def series_of(node: e.SeriesRef) -> Series | None:
        return device.find(_measurement(node))

    try:
        return _formula(tree, calls(tree), series_of, session)
    except Missing:
        return None


def _measurement(node: e.SeriesRef) -> str:
    if len(node.path.nodes) != 1 or node.path.wild:
        raise semantic(f"{node.path}: a single measurement is needed here", node.position)
    return node.path.nodes[0].text


# -- ALIGN BY DEVICE -----------------------------------------------------------------------------------------


def _by_device(select: Select, devices: Sequence[Device], session: TimeContext) -> list[BoundColumn]:
    found = []
    for place, item in enumerate(select.items):
        for node in e.walk(item.expression):
            if isinstance(node, e.SeriesRef) and len(node.path.nodes) != 1:
                raise _no_suffix(node)
        made: dict[str, list[Bound]] = {}
        known: dict[tuple[Series, ...], list[Meaning]] = {}
        for device in devices:
            meanings = known.get(device.series)
            if meanings is None:
                meanings = known[device.series] = [
                    _meaning(item, choice, session, lambda one: write_node(one.measurement))
                    for choice in _of_device(item, device)
                ]
            for meaning in meanings:
                made.setdefault(meaning.name, []).append(Bound(device, meaning))
        if item.alias is not None and len(made) > 1:
            raise semantic(f"the alias {item.alias} would name {len(made)} columns", item.expression.position)
        found += [
            BoundColumn(item.alias or name, _one_type(name, made[name], item), tuple(made[name]), place)
            for name in sorted(made)
        ]
    return found


def _of_device(item: Item, device: Device) -> Iterator[dict[e.SeriesRef, Series]]:
    nodes = list(dict.fromkeys(n for n in e.walk(item.expression) if isinstance(n, e.SeriesRef)))
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
        yield dict(zip(nodes, choice, strict=True))


def _no_suffix(node: e.SeriesRef) -> IotdbError:
    return semantic(
        f"{node.path}: with ALIGN BY DEVICE, name only the measurement; the rest of the path belongs in FROM",
        node.position,
    )


def _one_type(name: str, bound: Sequence[Bound], item: Item) -> str:
    types = {one.type for one in bound}
    if len(types) > 1:
        raise semantic(
            f"{name} has different types in different devices ({', '.join(sorted(types))})",
            item.expression.position,
        )
    return types.pop()
