"""A YAML file as plain data that knows the line of every place, and errors that name the line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


class BadCase(Exception):
    """A file that is not a case. The message begins with ``file:line``."""

    def __init__(self, path: Path, line: int, message: str) -> None:
        super().__init__(f"{path}:{line}: {message}")


class BadCases(Exception):
    """Several files that are not cases, one line for each."""

    def __init__(self, errors: Iterable[BadCase]) -> None:
        super().__init__("\n".join(map(str, errors)))


Where = tuple[str | int, ...]


@dataclass(frozen=True)
class Source:
    """A file's content as plain data, and by place the line of every key and list item."""

    path: Path
    data: Any
    lines: Mapping[Where, int]

    def bad(self, where: Where, message: str) -> BadCase:
        """The error for a place; the line is that of the nearest place that has one."""
        while where and where not in self.lines:
            where = where[:-1]
        return BadCase(self.path, self.lines.get(where, 1), message)


def parse(path: Path, text: str) -> Source:
    """YAML to plain data. :raises BadCase: if the text is not YAML, or a key is given twice."""
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        lines: dict[Where, int] = {}
        if node is not None:
            _note_lines(path, node, (), lines)
        data = None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadCase(path, mark.line + 1 if mark else 1, error.problem or str(error)) from error
    except (yaml.YAMLError, ValueError) as error:
        raise BadCase(path, 1, str(error)) from error
    return Source(path, data, lines)


def _note_lines(path: Path, node: yaml.Node, where: Where, lines: dict[Where, int]) -> None:
    lines.setdefault(where, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            _note_lines(path, item, (*where, number), lines)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            place = (*where, str(key.value))
            if place in lines:
                raise BadCase(path, key.start_mark.line + 1, f"'{key.value}' is given twice")
            lines[place] = key.start_mark.line + 1
            _note_lines(path, value, place, lines)
