"""Plans of OUTPUT_SUBTABLE and TAGS: names and tags of a stream's output tables, over its grouping columns.

Whatever can be known without a group's values is refused when the stream is made: an expression of the wrong
kind, a constant that its tag cannot hold. What depends on a group's values (a number beyond the tag's range,
a text that is too long) is reported with the group. Then its results are refused, so that nothing is stored
that has been cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sqlglot import exp

from millrace_core.catalog import Catalog
from millrace_core.errors import ErrorCode, Position, SqlError
from millrace_core.language.query import parse_expression
from millrace_core.language.query.nodes import START, position_of
from millrace_core.model.schema import MAX_NAME, Precision
from millrace_core.model.stream import Output, OutputTag, StreamSpec
from millrace_core.model.sub_tables import GROUP_ID
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.plan.expressions.annotate import Typer
from millrace_core.plan.expressions.lower import Lowerer
from millrace_core.plan.functions.casts import fits, plain_text
from millrace_core.plan.functions.scalar import convert
from millrace_core.plan.model import OutputPlan
from millrace_core.plan.scope import Context, Scope, column, near
from millrace_core.plan.spark.pieces import as_text, call, chain, text, when
from millrace_core.plan.spark.text import spark_text
from millrace_core.plan.streams.stream import context_of, grouping_types
from millrace_core.plan.types.constants import constant
from millrace_core.plan.types.typed import Typed, fail, number, typed, with_type, wrap, written

SHOWN = 64
"""The most characters of a value that an error shows."""
VOLATILE = ("now", "today", "rand")
"""Functions that would give a group a different name each time."""


class OutputPlaces(NamedTuple):
    """Where the expressions stand in the user's statement."""

    subtable: Position | None
    tags: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class _Lowered:
    """An expression over ``_grp``. ``place``: where it begins in the statement."""

    node: exp.Expr
    place: Position

    @property
    def type(self) -> Typed:
        return typed(self.node)

    def refused(self, code: ErrorCode, message: str) -> SqlError:
        return SqlError(code, message, self.place)


def plan_output(
    spec: StreamSpec, catalog: Catalog | None = None, places: OutputPlaces | None = None,
    precision: Precision | None = None,
) -> OutputPlan:  # fmt: skip
    """Plan OUTPUT_SUBTABLE and TAGS: expressions over the grouping columns, by name, ``%%n`` or ``%%tbname``.

    ``places``: for errors; if not given, those of the spec. ``precision``: that of the output table; if not
    given, that of its database in the catalog, or else that of the trigger table.

    If the output ``converts``, tags are given as their expressions give them: whoever has the values converts
    them. The tag of the groups' ids is left to the caller.

    :raises SqlError: for a name that is not a grouping column, an unknown function, a type that does not fit,
        or a constant that its tag cannot hold.
    """
    output = spec.output
    if output is None or not output.grouped:
        raise SqlError(ErrorCode.BAD_STREAM, f"the stream {spec.full_name} has no output sub-tables")
    ctx = context_of(spec, catalog or Catalog())
    places = places or _places_in(spec, output)
    known = catalog.databases.get(output.db) if catalog else None
    ticks = precision or (known.precision if known else ctx.precision)
    columns: list[exp.Expr] = [_named(column("_gid", "_grp"), "_gid")]
    name, fixed = _name(spec, output, ctx, places)
    columns.append(_named(name, "_subtable"))
    losses: list[exp.Expr] = []
    types: list[DataType] = []
    made_tags = [
        (tag, at) for tag, at in zip(output.tags, places.tags, strict=True) if tag.expression != GROUP_ID
    ]
    for tag, place in made_tags:
        made = _group_expression(tag.expression, "TAGS", place, spec, ctx)
        value, loss = (made.node, None) if output.converts else _tag(tag, made, ticks)
        columns.append(_named(value, tag.column.name))
        types.append(made.type.type if output.converts else tag.column.type)
        losses += [] if loss is None else [loss]
    if losses:
        columns.append(_named(call("COALESCE", *losses) if len(losses) > 1 else losses[0], "_lost"))
    tree = exp.Select(expressions=columns, from_=exp.From(this=exp.Table(this=exp.to_identifier("_grp"))))
    names = tuple(tag.column.name for tag, _ in made_tags)
    return OutputPlan(spark_text(tree), names, fixed, bool(losses), tuple(types))


def _places_in(spec: StreamSpec, output: Output) -> OutputPlaces:
    """Without TAGS the tags are the grouping columns, which do not stand in the statement as expressions."""
    tags = spec.places.tags or (START,) * len(output.tags)
    return OutputPlaces(spec.places.subtable or START if output.subtable is not None else None, tags)


def _named(node: exp.Expr, name: str) -> exp.Expr:
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


# -- OUTPUT_SUBTABLE ----------------------------------------------------------------------------------


def _name(
    spec: StreamSpec, output: Output, ctx: Context, places: OutputPlaces
) -> tuple[exp.Expr, str | None]:
    """The expression for the name, and the name itself if it is the same for all groups."""
    if output.subtable is None:
        return exp.Cast(this=exp.Null(), to=exp.DataType.build("STRING", dialect="spark")), None
    place = places.subtable or Position(1, 1)
    made = _group_expression(output.subtable, "OUTPUT_SUBTABLE", place, spec, ctx)
    if not made.type.text:
        message = f"OUTPUT_SUBTABLE must be text, not {made.type.type}"
        raise made.refused(ErrorCode.TYPE_MISMATCH, message)
    # a distinct name contains the group
    same = isinstance(made.node, exp.Literal) and (output.naming == "given" or not spec.grouped)
    fixed = made.node.name if same else None
    return exp.Substring(this=made.node, start=number(1), length=number(MAX_NAME)), fixed


# -- TAGS ---------------------------------------------------------------------------------------------


def _tag(tag: OutputTag, made: _Lowered, precision: Precision) -> tuple[exp.Expr, exp.Expr | None]:
    """The tag's value, NULL if the tag cannot hold it; and a text that says so, NULL if it can. None instead
    of the text: it always can."""
    wanted = Typed(tag.column.type, precision if tag.column.type == TIMESTAMP else None)
    if not _gives(made, wanted):
        only = ", which only a grouping tag of type JSON can give" if wanted.type.name == "JSON" else ""
        message = f"the tag {tag.column.name} is {wanted.type}{only}, but its expression is {made.type.type}"
        raise made.refused(ErrorCode.TYPE_MISMATCH, message)
    cannot = f"the tag {tag.column.name} {wanted.type} cannot hold "
    given = _constant(made.node)
    if given is not None:
        if not _holds(wanted.type, given):
            raise made.refused(ErrorCode.INVALID_VALUE, f"{cannot}{given!r}")
        return convert(made.node, wanted), None
    value = plain_text(made.node) if wanted.text and made.type.real else made.node
    loses = _loses(value, made.type, wanted)
    if loses is None:
        return convert(made.node, wanted), None
    whole = convert(made.node.copy(), wanted) if not wanted.text else as_text(value.copy())
    shown = exp.Substring(this=plain_text(made.node.copy()), start=number(1), length=number(SHOWN))
    told = when((loses.copy(), chain([text(cannot), shown])))
    return when((loses, exp.Null()), default=whole), told


def _gives(made: _Lowered, wanted: Typed) -> bool:
    """Whether an expression of this type can give any value of the wanted type without a CAST."""
    source = made.type
    if source.null:
        return True
    match wanted.type.name:
        case "JSON":
            return source.type.name == "JSON" and isinstance(made.node, exp.Column)
        case "VARCHAR" | "NCHAR":
            return source.type.name != "VARBINARY"
        case "VARBINARY":
            return source.type.name in ("VARCHAR", "NCHAR", "VARBINARY")
        case "BOOL":
            return source.type.name == "BOOL"
        case "TIMESTAMP":
            return source.timestamp or source.integer
    time = source.timestamp and wanted.type.name == "BIGINT"
    return time or source.number or source.type.name == "BOOL"


def _loses(value: exp.Expr, source: Typed, wanted: Typed) -> exp.Expr | None:
    """Whether the tag cannot hold the value; None: it can hold all of this type. For a text tag,
    ``value`` is a text."""
    if source.null:
        return None
    if wanted.text:
        most = wanted.type.length
        if most is None or fits(source, wanted) or (not source.text and written(source) <= most):
            return None
        shown = as_text(value.copy())
        measured = exp.Length(this=shown) if wanted.type.name == "NCHAR" else call("OCTET_LENGTH", shown)
        return exp.GT(this=measured, expression=number(most))
    info, own = wanted.type.info, source.type.info
    if wanted.timestamp or info.low is None or info.high is None or source.type.name == "BOOL":
        return None
    if own.low is not None and own.high is not None and info.low <= own.low and own.high <= info.high:
        return None
    below = exp.LT(this=wrap(value.copy()), expression=number(info.low))
    return exp.Or(this=below, expression=exp.GT(this=wrap(value.copy()), expression=number(info.high)))


def _constant(node: exp.Expr) -> int | float | str | None:
    """The value of a constant expression; None if it is not constant, or of a form that is not examined."""
    whole = constant(node)
    if whole is not None:
        return whole
    inner = node.unnest()
    sign = -1 if isinstance(inner, exp.Neg) else 1
    inner = inner.this.unnest() if isinstance(inner, exp.Neg) else inner
    inner = inner.this if isinstance(inner, exp.Cast) else inner
    if not isinstance(inner, exp.Literal):
        return None
    return inner.name if inner.is_string else sign * float(inner.name)


def _holds(type_: DataType, value: int | float | str) -> bool:
    if type_.name in ("VARCHAR", "NCHAR", "VARBINARY"):
        shown = (
            value if isinstance(value, str) else f"{value:.6f}" if isinstance(value, float) else str(value)
        )
        return len(shown if type_.name == "NCHAR" else shown.encode()) <= (type_.length or 0)
    if type_.info.low is None or type_.info.high is None or isinstance(value, str):
        return True
    return value == int(value) and type_.info.low <= value <= type_.info.high


# -- both ---------------------------------------------------------------------------------------------


def _group_expression(sql: str, what: str, place: Position, spec: StreamSpec, ctx: Context) -> _Lowered:
    """The expression, lowered, over ``_grp``."""
    tree = parse_expression(sql, place)
    holder = exp.Paren(this=tree)
    grouping = dict(zip(spec.partition, grouping_types(spec), strict=False))
    for node in list(holder.walk()):
        if isinstance(node, exp.Column):
            if node.name not in grouping or node.args.get("table"):
                message = f"{what}: {node.name} is not a grouping column{near(node.name, grouping)}"
                raise fail(ErrorCode.UNKNOWN_COLUMN, message, node)
            number_ = spec.partition.index(node.name) + 1
            node.replace(_of_group(node, f"_g{number_}", grouping[node.name]))
        elif isinstance(node, exp.Placeholder):
            node.replace(_grouping_placeholder(node, ctx))
        elif isinstance(node, exp.Anonymous) and node.name in VOLATILE:
            raise fail(ErrorCode.NOT_ALLOWED, f"{what}: {node.name} is not constant within a group", node)
    typer = Typer(ctx)
    typer.aggregate = what
    found = typer.visit(holder.this)
    type_ = typed(found)
    lowered = Lowerer(Scope(exp.Select()), ctx).visit(found)
    return _Lowered(with_type(lowered, type_), place)


def _grouping_placeholder(node: exp.Expr, ctx: Context) -> exp.Expr:
    name = node.name
    if not name.startswith("%%") or name not in ctx.placeholders:
        raise fail(ErrorCode.NOT_ALLOWED, f"{name} cannot be used here: only grouping columns can", node)
    target = "_tbname" if name == "%%tbname" else f"_g{name.removeprefix('%%')}"
    return _of_group(node, target, ctx.placeholders[name])


def _of_group(node: exp.Expr, name: str, type_: Typed) -> exp.Expr:
    """A column of ``_grp``, to replace the node."""
    made = with_type(column(name, "_grp"), type_)
    place = position_of(node)
    made.meta.update(line=place.line, col=place.column)
    return made
