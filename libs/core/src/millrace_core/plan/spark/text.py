"""Turns trees into Spark SQL text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator

MARK = "\x00"


class SparkSql(Spark):
    """Spark SQL, with placeholders between marks so that constants can replace them."""

    class Generator(SparkGenerator):
        TRANSFORMS: ClassVar[dict[type[exp.Expr], Any]] = {
            **SparkGenerator.TRANSFORMS,
            exp.Placeholder: lambda self, node: f"{MARK}{node.name}{MARK}",
        }


def spark_text(tree: exp.Expr, pretty: bool = False) -> str:
    """The text of a tree, with all names quoted. Names are case sensitive, so the session must be, too."""
    return tree.sql(SparkSql, identify=True, pretty=pretty)


def column_of(placeholder: str) -> str:
    """The column of the trigger relation that holds a placeholder's value."""
    name = placeholder.removeprefix("%%")
    if name == placeholder:
        return placeholder
    return f"_g{name}" if name.isdigit() else f"_{name}"


def literal(value: object) -> str:
    """A Spark SQL constant."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return f"({value})" if value < 0 else str(value)
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case bytes():
            return f"X'{value.hex()}'"
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


@dataclass(frozen=True, slots=True)
class Template:
    """SQL text with gaps: ``texts[0]`` gap ``names[0]`` ``texts[1]`` …"""

    texts: tuple[str, ...]
    names: tuple[str, ...]

    @staticmethod
    def of(tree: exp.Expr) -> Template:
        parts = spark_text(tree).split(MARK)
        return Template(tuple(parts[0::2]), tuple(column_of(name) for name in parts[1::2]))

    def fill(self, row: Mapping[str, object]) -> str:
        filled = [text + literal(row[name]) for text, name in zip(self.texts, self.names, strict=False)]
        return "".join(filled) + self.texts[-1]
