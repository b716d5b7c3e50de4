"""Paths of series and devices, and patterns over them.

A path is ``root.db….device.measurement``: nodes of letters, digits, ``_`` and what is not ASCII, others in
back quotes. In a pattern ``*`` stands for one node, or for a part of one (``m*``); ``**`` for one or more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import msgspec

from millrace_core.dialect.iotdb.codes import IotdbError, Status
from millrace_core.errors import Position

ROOT = "root"
ONE, MANY = "*", "**"
MOST_WILD = 3
"""Wildcards of a pattern, or of a node."""
TIMES = ("time", "timestamp")
"""What the time of rows is called, in any case: no series is."""
NAME = r"[^\x00-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f\s]"
"""A character of a node that needs no quotes: a letter, digit or ``_`` of ASCII, and all that is not ASCII
but blanks."""
_PLAIN = re.compile(f"{NAME}+")
_NUMBER = re.compile(r"[0-9]+(?:[eE][0-9]+)?")


class Node(NamedTuple):
    """One node as written: ``quoted`` ones have no wildcards."""

    text: str
    quoted: bool = False

    @property
    def wild(self) -> bool:
        return not self.quoted and "*" in self.text


@lru_cache(65_536)
def write_node(name: str) -> str:
    """The node as a path has it, back-quoted where it must be."""
    if _PLAIN.fullmatch(name) and not _NUMBER.fullmatch(name):
        return name
    return "`" + name.replace("`", "``") + "`"


def write_path(nodes: Sequence[str]) -> str:
    """``root.plant.d1``: the text of a path, and the name of what it stands for."""
    return ".".join(map(write_node, nodes))


_NODE = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def read_path(text: str) -> tuple[str, ...]:
    """The nodes of what :func:`write_path` wrote."""
    return tuple(
        found[2] if found[2] is not None else found[1].replace("``", "`") for found in _NODE.finditer(text)
    )


class Pattern(msgspec.Struct, frozen=True, dict=True):
    """A path or a pattern: where it stands in the statement, if it came from one."""

    nodes: tuple[Node, ...]
    position: Position | None = None

    @staticmethod
    def of(names: Sequence[str]) -> Pattern:
        """The path of these nodes, whatever characters they have."""
        return Pattern(tuple(Node(name, not _PLAIN.fullmatch(name)) for name in names))

    def __str__(self) -> str:
        return ".".join(node.text if node.wild else write_node(node.text) for node in self.nodes)

    @property
    def wild(self) -> bool:
        return any(node.wild for node in self.nodes)

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes as names, of a path without wildcards."""
        return tuple(node.text for node in self.nodes)

    def joined(self, suffix: Pattern) -> Pattern:
        """The suffix below this one. :raises IotdbError: see :meth:`check`."""
        return Pattern((*self.nodes, *suffix.nodes), suffix.position or self.position).check()

    def check(self) -> Pattern:
        """The pattern, if paths are held against it in no time: each further wildcard takes as often as long
        as a path has nodes, or a node characters.

        :raises IotdbError: ILLEGAL_PATH for one with too many of them.
        """
        many = sum(node == Node(MANY) for node in self.nodes)
        if many > MOST_WILD:
            raise self._too_wild(f"{many} ** in a path, there are at most {MOST_WILD} **")
        for node in self.nodes:
            if not node.quoted and node.text != MANY and node.text.count(ONE) > MOST_WILD:
                raise self._too_wild(f"a node has at most {MOST_WILD} *")
        return self

    def _too_wild(self, why: str) -> IotdbError:
        return IotdbError(Status.ILLEGAL_PATH, f"{str(self)[:64]}: {why}", self.position)

    def below(self, path: Pattern) -> Pattern:
        """The path itself if it is a whole one (``root.…``), else below this one."""
        return path if path.nodes[0] == Node(ROOT) else self.joined(path)

    def matches(self, nodes: Sequence[str]) -> bool:
        """Whether a path of these nodes is meant, to its last node."""
        return self._regex.fullmatch("\0".join(nodes)) is not None

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        return _regex(self.nodes)


def _regex(nodes: Sequence[Node]) -> re.Pattern[str]:
    """Over the nodes with NUL between: no node has it, as no statement may."""
    return re.compile("\0".join(map(_part, nodes)), re.DOTALL)


def _part(node: Node) -> str:
    if not node.wild:
        return re.escape(node.text)
    if node.text == MANY:
        return "[^\0]+(?:\0[^\0]+)*"
    if node.text == ONE:
        return "[^\0]+"
    return "[^\0]*".join(re.escape(part) for part in node.text.split(ONE))
