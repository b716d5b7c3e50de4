"""Bytes that Spark's JVM gives are read as py4j reads them, only faster."""

from __future__ import annotations

from base64 import standard_b64encode

from hypothesis import example, given
from hypothesis import strategies as st
from py4j import protocol  # type: ignore[import-untyped]

from calc_svc.spark.jvm import decode_bytes


@given(st.binary(max_size=300))
@example(b"")
@example(bytes(range(256)))
def test_bytes_are_those_that_py4j_reads(given_bytes: bytes) -> None:
    answer = standard_b64encode(given_bytes).decode()
    assert decode_bytes(answer) == given_bytes == protocol.decode_bytearray(answer)


def test_py4j_uses_it() -> None:
    answer = f"!y{protocol.BYTES_TYPE}{standard_b64encode(b'rows').decode()}"
    assert isinstance(protocol.get_return_value(answer[1:], None), bytes)
