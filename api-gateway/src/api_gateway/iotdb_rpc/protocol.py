"""A frame of IoTDB's RPC: a call in Thrift's binary or compact protocol, and its answer in the same one."""

from __future__ import annotations

from typing import Any

from iotdb.thrift.rpc.IClientRPCService import Processor
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TCompactProtocol import TCompactProtocolAccelerated
from thrift.Thrift import TException
from thrift.transport.TTransport import TMemoryBuffer

from api_gateway.iotdb.execute import IotdbExecutor
from api_gateway.iotdb_rpc.calls import Calls
from api_gateway.iotdb_rpc.session import Client

COMPACT = 0x82
"""The first byte of a call in the compact protocol."""
_BROKEN = (TException, UnicodeDecodeError, ValueError, OverflowError, EOFError, MemoryError)


class _Processor(Processor):  # type: ignore[misc]
    """Knows the calls that :class:`Calls` has; any others are answered as unknown methods."""

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        known: dict[str, Any] = self.__dict__["_processMap"]
        self._processMap = {name: call for name, call in known.items() if hasattr(calls, name)}


class Conversation:
    """The calls of one connection."""

    def __init__(self, executor: IotdbExecutor, client: Client) -> None:
        self._processor = _Processor(Calls(executor, client))

    def answer(self, frame: bytes) -> bytes:
        """The answer to a frame; :raises ValueError: if it is not a call, so that there is no answer."""
        kind: Any = (
            TCompactProtocolAccelerated if frame[:1] == bytes([COMPACT]) else TBinaryProtocolAccelerated
        )
        limits = {"string_length_limit": len(frame), "container_length_limit": len(frame)}
        out = TMemoryBuffer()
        try:
            self._processor.process(kind(TMemoryBuffer(frame), **limits), kind(out))
        except _BROKEN as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        found: bytes = out.getvalue()
        return found
