"""An output table that was altered under its stream."""

from __future__ import annotations

import msgspec
import pytest

from millrace_core.calc.results import check_output
from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.schema import Column, Table
from millrace_core.model.stream import Output, StreamSpec
from millrace_core.model.types import TIMESTAMP, DataType
from millrace_core.trigger.types import Count


def test_results_are_refused_by_an_output_table_that_was_altered() -> None:
    ts, n = Column("ts", TIMESTAMP), Column("n", DataType("BIGINT"))
    output = Output("d", "o", (ts, n))
    spec = StreamSpec(1, "d", "s", "", Count(1, 1), output=output)
    table = Table("d", "o", "normal", 1, "ms", (ts, n, Column("more", DataType("INT"))))
    check_output(spec, table)
    text = Column("n", DataType("VARCHAR", 8))
    texts = msgspec.structs.replace(spec, output=Output("d", "o", (ts, text)))
    for length, fits in ((8, True), (9, True), (7, False)):
        other = msgspec.structs.replace(table, columns=(ts, Column("n", DataType("VARCHAR", length))))
        if fits:
            check_output(texts, other)
            continue
        with pytest.raises(MillraceError, match=r"n must be VARCHAR\(8\), but is now VARCHAR\(7\)"):
            check_output(texts, other)
    for columns in ((ts,), (ts, Column("n", DataType("INT")))):
        with pytest.raises(MillraceError) as caught:
            check_output(spec, msgspec.structs.replace(table, columns=columns))
        assert caught.value.code is ErrorCode.TYPE_MISMATCH
        assert "n must be BIGINT, but is" in caught.value.message
