"""What calc-svc and its process for queries tell each other, over one pipe per lane.

Rows go as Arrow streams: that writes only the slice of a table that is sent, not the rest of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from calc_svc.spark.relations import Parquet, Relation
from millrace_core.errors import ErrorCode, PlanError


class Asked(NamedTuple):
    """A query to run. ``relations``: rows as Arrow, or files, whose members are in ``members``."""

    sql: str
    relations: dict[str, bytes | Parquet]
    members: dict[str, bytes]
    timezone: str
    limit: int | None


class Answered(NamedTuple):
    """``rows``: as Arrow; or ``code`` and ``message``: why there are none."""

    rows: bytes
    code: str = ""
    message: str = ""


def ask(sql: str, relations: Mapping[str, Relation], timezone: str, limit: int | None) -> Asked:
    members = {
        name: ipc_stream(one.members)
        for name, one in relations.items()
        if isinstance(one, Parquet) and one.members is not None
    }
    handed: dict[str, bytes | Parquet] = {
        name: replace(one, members=None) if isinstance(one, Parquet) else ipc_stream(one)
        for name, one in relations.items()
    }
    return Asked(sql, handed, members, timezone, limit)


def relations_of(asked: Asked) -> dict[str, Relation]:
    """The inverse of what :func:`ask` does to relations."""
    return {
        name: _table(one) if isinstance(one, bytes) else _files(one, asked.members.get(name))
        for name, one in asked.relations.items()
    }


def rows_of(answered: Answered) -> pa.Table:
    """:raises PlanError: why there are none."""
    if answered.code:
        raise PlanError(ErrorCode[answered.code], answered.message)
    return _table(answered.rows)


def ipc_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _table(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def _files(files: Parquet, members: bytes | None) -> Parquet:
    return files if members is None else replace(files, members=_table(members))
