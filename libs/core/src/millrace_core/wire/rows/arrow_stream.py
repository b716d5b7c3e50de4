"""The structure of an Arrow IPC stream, checked before anything decodes it: frames, schema, sizes.

A value from anybody may claim anything, and a decoder in native code is too trusting: types nested a thousand
levels deep, buffers of exabytes. What passes here has flat columns of known types, and bodies whose buffers
lie within the value; the decoder then checks the cells themselves. Metadata are FlatBuffers (Message.fbs and
Schema.fbs of the Arrow format); equal metadata, as most messages of a producer have, are read only once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from millrace_core.wire.rows.decoded import undecodable

CONTINUATION = b"\xff\xff\xff\xff"
"""What every frame of a stream begins with. JSON never does: 0xFF does not occur in UTF-8 text."""
END = CONTINUATION + b"\0\0\0\0"
MOST_COLUMNS = 10_000
KEPT_BYTES = 16_384
"""Only metadata up to this size are remembered: what anybody may send must not fill the memory."""

Family = Literal["null", "int", "float", "bool", "text", "binary", "timestamp", "other"]
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_NAMES = (
    "none", "null", "int", "float", "binary", "utf8", "bool", "decimal", "date", "time", "timestamp",
    "interval", "list", "struct", "union", "fixed_size_binary", "fixed_size_list", "map", "duration",
    "large_binary", "large_utf8", "large_list", "run_end_encoded", "binary_view", "utf8_view", "list_view",
    "large_list_view",
)  # fmt: skip
"""Types by their number in Schema.fbs."""
_FAMILIES: dict[str, Family] = {
    "null": "null", "int": "int", "float": "float", "bool": "bool", "timestamp": "timestamp",
    "utf8": "text", "large_utf8": "text", "utf8_view": "text",
    "binary": "binary", "large_binary": "binary", "fixed_size_binary": "binary", "binary_view": "binary",
}  # fmt: skip
_OFFSETS = ("binary", "utf8", "large_binary", "large_utf8")
_UNITS = ("s", "ms", "us", "ns")
_PRECISIONS = ("16", "32", "64")


@dataclass(frozen=True, slots=True)
class Field:
    """A column. ``type``: as messages name it; ``unit``: that of timestamps ("" for others); ``buffers``: how
    many a batch has for it; ``viewed``: it has as many more as the batch says."""

    name: str
    family: Family
    type: str
    unit: str = ""
    buffers: int = 2
    viewed: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """What metadata say: ``kind`` (:data:`_SCHEMA` and so on) and the bytes of the body. For a batch: its
    rows, the nulls of each column, (place in the body, size) of each buffer, and how many buffers beyond two
    each column of views has."""

    kind: int
    body: int
    rows: int = 0
    nulls: tuple[int, ...] = ()
    buffers: tuple[tuple[int, int], ...] = ()
    views: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class IpcStream:
    """A value taken apart: the bytes of its schema's frame, those of the frames after it up to the end mark,
    and the number of rows in them. ``batches``: each with the place of its body in the value. ``alone``: it
    has dictionaries, which apply to this value only."""

    value: bytes
    schema: bytes
    rest: memoryview
    rows: int
    batches: list[tuple[int, Frame]]
    alone: bool


class _Table:
    """A table of a FlatBuffer: fields by number; every place is checked."""

    __slots__ = ("at", "data", "slots")

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        places = at - _number("<i", data, at)
        size = _number("<H", data, places)
        self.slots = [_number("<H", data, places + slot) for slot in range(4, min(size, 64), 2)]

    def _place(self, field: int) -> int | None:
        """Where the field is; None if it has its default."""
        return self.at + self.slots[field] if field < len(self.slots) and self.slots[field] else None

    def number(self, field: int, form: str) -> int:
        at = self._place(field)
        return 0 if at is None else _number(form, self.data, at)

    def table(self, field: int) -> _Table | None:
        at = self._place(field)
        return None if at is None else _Table(self.data, at + _number("<I", self.data, at))

    def vector(self, field: int, size: int) -> tuple[int, int]:
        """(where the first element is, how many) of a vector of elements of ``size`` bytes."""
        at = self._place(field)
        if at is None:
            return 0, 0
        at += _number("<I", self.data, at)
        count = _number("<I", self.data, at)
        if at + 4 + count * size > len(self.data):
            raise undecodable("Arrow: a vector extends beyond the end of the metadata")
        return at + 4, count

    def tables(self, field: int) -> list[_Table]:
        begin, count = self.vector(field, 4)
        places = range(begin, begin + 4 * count, 4)
        return [_Table(self.data, at + _number("<I", self.data, at)) for at in places]

    def text(self, field: int) -> str:
        begin, count = self.vector(field, 1)
        try:
            return self.data[begin : begin + count].decode()
        except UnicodeDecodeError as error:
            raise undecodable(f"Arrow: a column's name is invalid: {error}") from error


def _number(form: str, data: bytes, at: int) -> int:
    try:
        # a negative place would count from the end, so it is made to fail
        return int(struct.unpack_from(form, data, at if at >= 0 else len(data))[0])
    except struct.error as error:
        raise undecodable("Arrow: the metadata refer to a place outside the metadata") from error


def _read_frame(metadata: bytes) -> Frame:
    message = _Table(metadata, _number("<I", metadata, 0))
    kind, body = message.number(1, "<B"), message.number(3, "<q")
    header = message.table(2)
    if header is None or body < 0 or kind not in (_SCHEMA, _DICTIONARY, _BATCH):
        raise undecodable("Arrow: a frame is not a schema, dictionary or record batch")
    if kind == _SCHEMA:
        return Frame(kind, body)
    if kind == _DICTIONARY:
        if header.number(2, "<B"):
            raise undecodable("Arrow: delta dictionaries are not supported: send whole ones in each stream")
        header = header.table(1)
        if header is None:
            raise undecodable("Arrow: a dictionary has no values")
    return _batch(kind, header, body)


_frame = lru_cache(maxsize=1024)(_read_frame)


def _batch(kind: int, batch: _Table, body: int) -> Frame:
    """A batch whose buffers all lie in its body."""
    rows = batch.number(0, "<q")
    if batch.table(3) is not None:
        raise undecodable("Arrow: compressed buffers are not supported: let Kafka compress the message")
    begin, count = batch.vector(1, 16)
    nodes = struct.unpack_from(f"<{2 * count}q", batch.data, begin)
    if rows < 0 or any(length != rows for length in nodes[::2]):
        raise undecodable(f"Arrow: a column does not have the {rows} rows of its batch")
    if any(not 0 <= nulls <= rows for nulls in nodes[1::2]):
        raise undecodable("Arrow: a column has more nulls than rows")
    begin, count = batch.vector(2, 16)
    numbers = struct.unpack_from(f"<{2 * count}q", batch.data, begin)
    buffers = tuple(zip(numbers[::2], numbers[1::2], strict=True))
    if any(not 0 <= at <= at + size <= body for at, size in buffers):
        raise undecodable("Arrow: a buffer is outside its batch")
    begin, count = batch.vector(4, 8)
    views = struct.unpack_from(f"<{count}q", batch.data, begin)
    return Frame(kind, body, rows, nodes[1::2], buffers, views)


def schema_of(frame: bytes) -> tuple[Field, ...]:
    """The columns that a schema's frame describes.

    :raises WireError: UNDECODABLE if it is malformed, big-endian, or names a column twice.
    """
    metadata = frame[8:]
    header = _Table(metadata, _number("<I", metadata, 0)).table(2)
    if header is None or header.number(0, "<h"):
        raise undecodable("Arrow: only little-endian streams are supported")
    if header.vector(1, 4)[1] > MOST_COLUMNS:
        raise undecodable(f"Arrow: the schema has more than {MOST_COLUMNS} columns")
    fields = tuple(_field(table) for table in header.tables(1))
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise undecodable(f"Arrow: column `{twice}` appears twice")
    return fields


def _field(table: _Table) -> Field:
    number, details = table.number(2, "<B"), table.table(3)
    name = _NAMES[number] if number < len(_NAMES) else f"number {number}"
    shown, unit, family = name, "", _FAMILIES.get(name, "other")
    if details is None or (table.vector(5, 4)[1] and family != "other"):
        raise undecodable("Arrow: a column's type is malformed")
    if name == "int":
        shown = f"{'' if details.number(1, '<B') else 'u'}int{details.number(0, '<i')}"
        if details.number(0, "<i") not in (8, 16, 32, 64):
            raise undecodable(f"Arrow: unknown type {shown}")
    elif name in ("float", "timestamp"):
        sort = details.number(0, "<h")
        options = _PRECISIONS if name == "float" else _UNITS
        if not 0 <= sort < len(options):
            raise undecodable(f"Arrow: a {name} has an unknown size")
        unit = _UNITS[sort] if name == "timestamp" else ""
        shown = f"timestamp[{unit}]" if unit else f"float{options[sort]}"
    if table.table(4) is not None:
        shown = f"dictionary of {shown}"
        family = family if family in ("text", "binary") else "other"
        return Field(table.text(0), family, shown)
    buffers = 0 if name == "null" else 3 if name in _OFFSETS else 2
    return Field(table.text(0), family, shown, unit, buffers, name.endswith("_view"))


def take_apart(value: bytes, accept: Callable[[bytes], object]) -> IpcStream:
    """The frames of a value; ``accept`` checks whether its schema will do before any other frame is looked
    at.

    :raises WireError: UNDECODABLE if they do not form one whole stream, and what ``accept`` raises
    """
    schema, at, rows, alone, size = b"", 0, 0, False, len(value)
    batches: list[tuple[int, Frame]] = []
    while at < size:
        if value[at : at + 4] != CONTINUATION or at + 8 > size:
            raise undecodable(f"Arrow: no frame begins at byte {at}")
        length = int.from_bytes(value[at + 4 : at + 8], "little")
        if length == 0:
            if at + 8 != size:
                raise undecodable(f"Arrow: {size - at - 8} bytes after the end of the stream")
            break
        begin = at + 8 + length
        if begin > size:
            raise undecodable(f"Arrow: the stream is truncated: the frame at byte {at} is incomplete")
        frame = (_frame if length <= KEPT_BYTES else _read_frame)(value[at + 8 : begin])
        if (frame.kind == _SCHEMA) != (at == 0):
            raise undecodable("Arrow: a stream must be one schema, then batches")
        if begin + frame.body > size:
            why = f"the body of the frame at byte {at} is incomplete"
            raise undecodable(f"Arrow: the stream is truncated: {why}")
        # each row has a time, which takes at least a byte: no frame can hold more rows than it has bytes
        if frame.rows > frame.body:
            raise undecodable(f"Arrow: {frame.rows} rows cannot fit into {frame.body} bytes")
        if at == 0:
            schema = value[: begin + frame.body]
            accept(schema)
        elif frame.kind == _BATCH:
            rows += frame.rows
            batches.append((begin, frame))
        alone = alone or frame.kind == _DICTIONARY
        at = begin + frame.body
    if not schema:
        raise undecodable("Arrow: the stream has no schema")
    return IpcStream(value, schema, memoryview(value)[len(schema) : at], rows, batches, alone)
