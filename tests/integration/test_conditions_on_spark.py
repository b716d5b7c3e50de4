"""Conditions of triggers as data mean on every row what Spark SQL means by the planner's text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from ..unit.dialect import test_conditions as conditions
from . import test_plan_on_spark as plans

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def answers() -> Iterator[dict[str, list[Any]]]:
    """Condition -> what it is of each row: all of them in one job."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").appName("millrace-conditions-test")
    for key, value in plans.SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    table = conditions.rows().to_arrow()
    types = {pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0), **plans.SPARK_TYPES}
    schema = pa.schema([field.with_type(types.get(field.type, field.type)) for field in table.schema])
    plan = conditions.planned(conditions.CONDITIONS)
    session.createDataFrame(table.cast(schema)).createOrReplaceTempView(plan.sources[0].relation)
    found = session.sql(plan.one_sql({})).toArrow()
    yield {sql: column.to_pylist() for sql, column in zip(conditions.CONDITIONS, found.columns, strict=True)}
    session.stop()


@pytest.mark.parametrize("sql", conditions.CONDITIONS)
def test_a_condition_means_what_spark_means(sql: str, answers: dict[str, list[Any]]) -> None:
    assert not conditions.differences(sql, conditions.rows(), answers[sql])
