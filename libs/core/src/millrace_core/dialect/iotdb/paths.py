"""Paths of series and devices, and patterns over them.

A path is ``root.db….device.measurement``. Its nodes are made of letters, digits, ``_`` and characters outside
of ASCII; other nodes stand in back quotes. In a pattern ``*`` stands for one node, or for a part of one
(``m*``); ``**`` stands for one or more nodes.
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
"""The most wildcards of a pattern, or of a node."""
TIMES = ("time", "timestamp")
"""Names for the time of rows, in any case; no series may have them."""
NAME = r"[^\x00-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f\s]"
"""A character of a node that needs no quotes: a letter, digit or ``_`` of ASCII, or anything outside of ASCII
except blanks."""
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
    """The node as it stands in a path: back-quoted if necessary."""
    if _PLAIN.fullmatch(name) and not _NUMBER.fullmatch(name):
        return name
    return "`" + name.replace("`", "``") + "`"


def write_path(nodes: Sequence[str]) -> str:
    """``root.plant.d1``: the text of a path, which is also the name of what is at that path."""
    return ".".join(map(write_node, nodes))


_NODE = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def read_path(text: str) -> tuple[str, ...]:
    """The nodes of a path that :func:`write_path` wrote."""
    return tuple(
        found[2] if found[2] is not None else found[1].replace("``", "`") for found in _NODE.finditer(text)
    )


class Pattern(msgspec.Struct, frozen=True, dict=True):
    """A path or a pattern, and where it stands in the statement if it came from one."""

    nodes: tuple[Node, ...]
    position: Position | None = None

    @staticmethod
    def of(names: Sequence[str]) -> Pattern:
        """The path with these nodes, whatever characters they contain."""
        return Pattern(tuple(Node(name, not _PLAIN.fullmatch(name)) for name in names))

    def __str__(self) -> str:
        return ".".join(node.text if node.wild else write_node(node.text) for node in self.nodes)

    @property
    def wild(self) -> bool:
        return any(node.wild for node in self.nodes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes; the path must have no wildcards."""
        return tuple(node.text for node in self.nodes)

    def joined(self, suffix: Pattern) -> Pattern:
        """The suffix appended to this one. :raises IotdbError: see :meth:`check`."""
        return Pattern((*self.nodes, *suffix.nodes), suffix.position or self.position).check()

    def check(self) -> Pattern:
        """The pattern, if matching paths against it is cheap: each further wildcard multiplies the time by
        the number of a path's nodes, or of a node's characters.

        :raises IotdbError: ILLEGAL_PATH if it has too many wildcards.
        """
        many = sum(node == Node(MANY) for node in self.nodes)
        if many > MOST_WILD:
            raise self._too_wild(f"the path has {many} **; at most {MOST_WILD} are allowed")
        for node in self.nodes:
            if not node.quoted and node.text != MANY and node.text.count(ONE) > MOST_WILD:
                raise self._too_wild(f"a node can have at most {MOST_WILD} *")
        return self

    def _too_wild(self, why: str) -> IotdbError:
        return IotdbError(Status.ILLEGAL_PATH, f"{str(self)[:64]}: {why}", self.position)

    def below(self, path: Pattern) -> Pattern:
        """The path itself if it is complete (``root.…``), else the path appended to this one."""
        return path if path.nodes[0] == Node(ROOT) else self.joined(path)

    def matches(self, nodes: Sequence[str]) -> bool:
        """Whether the pattern matches the whole path with these nodes."""
        return self._regex.fullmatch("\0".join(nodes)) is not None

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        return _regex(self.nodes)


def _regex(nodes: Sequence[Node]) -> re.Pattern[str]:
    """An expression over the nodes joined by NUL, which no node contains because no statement may."""
    return re.compile("\0".join(map(_part, nodes)), re.DOTALL)


def _part(node: Node) -> str:
    if not node.wild:
        return re.escape(node.text)
    if node.text == MANY:
        return "[^\0]+(?:\0[^\0]+)*"
    if node.text == ONE:
        return "[^\0]+"
    return "[^\0]*".join(re.escape(part) for part in node.text.split(ONE))
