"""Runs generated SQL on DuckDB, in the place of a Spark lane: the calculation without a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot


class DuckLane:
    """A lane: relations in, a table out."""

    def __init__(self) -> None:
        self.jobs = 0

    def run(
        self, sql: str, relations: Mapping[str, pa.Table], timezone: str, limit: int | None = None
    ) -> pa.Table:
        self.jobs += 1
        with duckdb.connect(config={"threads": "1"}) as connection:
            for name, relation in relations.items():
                connection.register(name, relation)
            text = sqlglot.transpile(sql, read="spark", write="duckdb", identify=True)[0]
            return connection.execute(text).to_arrow_table()


class DuckEngine:
    """An engine with one lane for everything."""

    def __init__(self) -> None:
        self.only = DuckLane()

    @contextmanager
    def lane(self, pool: str, timeout: float) -> Iterator[DuckLane]:
        yield self.only


@pytest.fixture
def duck() -> Any:
    return DuckEngine()
