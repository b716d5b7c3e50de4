"""Java's objects as Python sees them, without Java."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.java_gateway import JavaObject  # type: ignore[import-untyped]

from millrace_spark.java_objects import FreedAtOnce


class Client:
    """A gateway's client that manages no memory and answers nothing."""

    address, port, converters = "127.0.0.1", "0", ()
    gateway_property = SimpleNamespace(auto_field=False, enable_memory_management=False, pool=None)


@pytest.mark.parametrize(("kind", "stays"), [(FreedAtOnce, False), (JavaObject, True)])
def test_an_object_whose_methods_were_looked_up_is_freed_with_its_last_name(kind: Any, stays: bool) -> None:
    gc.disable()
    try:
        one = kind("o7", Client())
        assert one.method.command_header == "o7\nmethod\n"
        left = weakref.ref(one)
        del one
        assert (left() is not None) == stays
    finally:
        gc.enable()


def test_java_is_not_asked_for_what_only_python_has() -> None:
    assert not hasattr(FreedAtOnce("o7", Client()), "__arrow_c_stream__")
