"""Java's objects as Python sees them, freed as soon as nobody uses them.

py4j's own keep a circle: each object remembers its methods, and each of these its object. So only Python's
garbage collector frees them, and Java keeps what they stand for until then: data frames with all of their
rows. The collector goes by how many objects Python has, not by how much Java holds, and in a service it runs
seldom (decision 0081): a gigabyte of rows of queries that had ended was kept.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaMember, JavaObject, is_magic_member  # type: ignore[import-untyped]
from py4j.protocol import REFERENCE_TYPE, register_output_converter  # type: ignore[import-untyped]


class FreedAtOnce(JavaObject):  # type: ignore[misc]
    """An object that does not remember its methods: making one takes a microsecond, calling it a hundred."""

    def __getattr__(self, name: str) -> Any:
        if is_magic_member(name):  # Java has none of these
            raise AttributeError(name)
        if self._auto_field:
            return super().__getattr__(name)
        return JavaMember(name, self, self._target_id, self._gateway_client)


def free_at_once() -> None:
    """From now on, what calls to Java return is a :class:`FreedAtOnce`."""
    register_output_converter(REFERENCE_TYPE, FreedAtOnce)
