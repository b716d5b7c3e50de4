"""The messages between a service and a trigger's process: length-prefixed MessagePack over a socket."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

_LENGTH = struct.Struct("!I")
MOST = 256 * 1024 * 1024
"""The most bytes of a frame."""
DTYPES: dict[str, str] = {
    "BOOLEAN": "?", "INT32": "<i4", "INT64": "<i8", "TIMESTAMP": "<i8", "FLOAT": "<f4", "DOUBLE": "<f8",
}  # fmt: skip
"""IoTDB's types whose values travel as an array; values of other types travel as text, one by one."""

OUT_OF_MEMORY = 77
"""The exit code of a process whose class has used up the memory that it may take."""


class FrameSeries(msgspec.Struct, array_like=True, frozen=True):
    """``column``: the index of its column in the frame."""

    measurement: str
    type: str
    column: int


class Cells(msgspec.Struct, array_like=True, frozen=True):
    """A column over all rows of a frame: the bytes of an array, or texts. ``present``: bool[rows];
    None: all."""

    values: bytes | list[str | None]
    present: bytes | None


class FrameTablet(msgspec.Struct, array_like=True, frozen=True):
    """One tablet: rows ``[begin, end)`` of the frame; ``series``: an index into the frame's lists of
    series."""

    device: str
    begin: int
    end: int
    series: int


class Begin(msgspec.Struct, array_like=True, frozen=True, tag=0):
    """``file``: the file that holds the class (below ``folder``); None: the folder holds it. ``again``: the
    trigger was created before, and ``state`` is what it kept. ``seconds``: how long one call of the class may
    take; ``memory``: bytes that the class may use beyond what the process takes without it."""

    folder: str
    file: str | None
    class_name: str
    attributes: dict[str, str]
    stateful: bool
    again: bool
    state: bytes | None
    seconds: float
    memory: int


class Fire(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """Tablets, in order. ``state``: whether the trigger's state is wanted afterwards."""

    times: bytes
    columns: list[Cells]
    series: list[list[FrameSeries]]
    parts: list[FrameTablet]
    state: bool


class End(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """The trigger was dropped."""


Request = Begin | Fire | End


class Begun(msgspec.Struct, array_like=True, frozen=True, tag=0):
    """``failed``: the step that failed (``load``, …); empty if none did: then ``strategy`` is the
    class's answer."""

    strategy: str
    failed: str = ""
    why: str = ""


class Written(msgspec.Struct, array_like=True, frozen=True):
    path: str
    times: list[int]
    values: list[bool | int | float | str | None]


class Fired(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """``count``: how many tablets were fired, from the first on; it stops early if they take long.
    ``failures`` and ``writes``: by the index of the tablet. ``state``: the current state, if it was
    wanted."""

    count: int
    failures: dict[int, str]
    writes: dict[int, list[Written]]
    state: bytes | None


class Ended(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """``why``: what ``on_drop`` raised, empty if nothing."""

    why: str = ""


Reply = Begun | Fired | Ended
T = TypeVar("T")


class Channel:
    """One end of the socket. ``receives``: the type of the messages that come."""

    def __init__(self, sock: socket.socket, receives: Any) -> None:
        self._sock = sock
        self._decoder = msgspec.msgpack.Decoder(receives)

    def send(self, message: msgspec.Struct, seconds: float | None = None) -> None:
        """:raises OSError: if the other end is gone, or does not take it in time."""
        data = msgspec.msgpack.encode(message)
        self._sock.settimeout(seconds)
        self._sock.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self, seconds: float | None = None) -> Any:
        """:raises EOFError: if the other end is gone.
        :raises TimeoutError: if nothing whole comes in that many seconds.
        :raises ValueError: if what comes is not a message.
        """
        until = None if seconds is None else time.monotonic() + seconds
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size, until))
        if length > MOST:
            raise ValueError(f"a frame of {length} bytes is too large")
        return self._decoder.decode(self._exactly(length, until))

    def _exactly(self, count: int, until: float | None) -> bytes:
        parts: list[bytes] = []
        while count:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            self._sock.settimeout(left)
            part = self._sock.recv(min(count, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        self._sock.close()


def pack(type_: str, values: npt.NDArray[Any], present: npt.NDArray[np.bool_]) -> Cells:
    """A column in the form in which it travels over the socket."""
    mask = None if present.all() else present.tobytes()
    if type_ in DTYPES:
        return Cells(np.ascontiguousarray(values, DTYPES[type_]).tobytes(), mask)
    return Cells([None if value is None else str(value) for value in values.tolist()], mask)


def unpack(type_: str, cells: Cells, rows: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """The inverse of :func:`pack`: values and where they are present, read-only."""
    present = np.ones(rows, np.bool_) if cells.present is None else np.frombuffer(cells.present, np.bool_)
    if isinstance(cells.values, bytes):
        values: npt.NDArray[Any] = np.frombuffer(cells.values, DTYPES[type_])
    else:
        values = np.array(cells.values, dtype=object)
        values.flags.writeable = False
    present.flags.writeable = False
    return values, present
