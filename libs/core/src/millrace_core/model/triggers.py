"""When a stream triggers, as data: what the specs of all trigger types share, and how they are read.

The types themselves are packages of ``trigger.types``. The definition of a stream does not list them: a spec
is read by the name of its type, once that type has been registered.
"""

from __future__ import annotations

from enum import Enum

import msgspec


class Trigger:
    """The base of the specs: what a trigger clause says, with its names resolved.

    A spec is a frozen ``msgspec.Struct`` as well, with ``tag_field="type"``: in messages its class's name
    stands beside its fields.
    """

    __slots__ = ()


class Trait(Enum):
    """The properties of trigger types that rules depend on. The words say why an option is refused."""

    CLOCK = "it triggers by the clock, never for times in the past"
    INSTANTS = "it triggers at points in time, which do not open or close"
    FINAL = "its results are never recalculated when rows change"
    ROWS = "its windows are made of rows, so none is empty"
    NUMBERED = "its windows count rows, regardless of their times"


class UnknownTrigger(Trigger):
    """A trigger whose type is not registered in this process. A process that only passes a definition on, or
    looks only at its name, need not know what triggers it."""

    __slots__ = ("type",)

    def __init__(self, type_: str) -> None:
        self.type = type_


_specs: dict[str, type[Trigger]] = {}


def spec_of(name: str) -> type[Trigger] | None:
    """The registered spec of this name, if there is one."""
    return _specs.get(name)


def register_spec(spec: type[Trigger]) -> None:
    """Make a type's spec readable. :raises ValueError: if another type has the same name."""
    if _specs.setdefault(spec.__name__, spec) is not spec:
        raise ValueError(f"there are two trigger types named {spec.__name__}")


def unregister_spec(spec: type[Trigger]) -> None:
    """Undo :func:`register_spec`."""
    del _specs[spec.__name__]


def read_trigger(wanted: type, data: object) -> object:
    """The spec that decoded data stands for: the ``dec_hook`` of whatever holds the definition of a stream.

    :raises msgspec.ValidationError: for a type that is not registered, or fields that the type does not have.
    """
    found = read_known_trigger(wanted, data)
    if isinstance(found, UnknownTrigger):
        raise msgspec.ValidationError(f"there is no trigger type {found.type!r}")
    return found


def read_known_trigger(wanted: type, data: object) -> object:
    """As :func:`read_trigger`, but a type that is not registered is an :class:`UnknownTrigger`."""
    if wanted is not Trigger:
        # also called for a field that takes any object, such as a tag's value
        return data
    name = data.get("type") if isinstance(data, dict) else None
    if not isinstance(name, str):
        raise msgspec.ValidationError("a trigger must be an object that names its type")
    spec = _specs.get(name)
    return UnknownTrigger(name) if spec is None else msgspec.convert(data, spec)
