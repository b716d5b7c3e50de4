"""The functions of ANOMALY_WINDOW and FORECAST, which Spark calls in Python, a batch of arrays at a time."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import ArrowUDFType, arrow_udf

from millrace_analytics import columns
from millrace_core.plan.analytics import forecast
from millrace_core.plan.windows import anomaly

WINDOWS = "array<struct<w: int, e: string>>"
FORECASTS = "array<struct<t: bigint, v: double, low: double, high: double, e: string>>"


_CALLS = re.compile(f"{anomaly.FUNCTION}|{forecast.FUNCTION}", re.IGNORECASE)


def called(sql: str) -> bool:
    """Whether the query may call one of them."""
    return _CALLS.search(sql) is not None


def register(session: SparkSession) -> None:
    """Make them known to the session, under the names that plans call, unless it knows them. The first time
    takes a second: a session gets them when a query calls one."""
    if session.catalog.functionExists(forecast.FUNCTION):
        return

    def find_anomalies(rows: pa.Array[Any], asked: pa.Array[Any]) -> pa.Array[Any]:
        return columns.find_anomalies(rows, asked)

    def rows_to_come(rows: pa.Array[Any], asked: pa.Array[Any]) -> pa.Array[Any]:
        return columns.forecast(rows, asked)

    session.udf.register(anomaly.FUNCTION, arrow_udf(find_anomalies, WINDOWS, ArrowUDFType.SCALAR))
    session.udf.register(forecast.FUNCTION, arrow_udf(rows_to_come, FORECASTS, ArrowUDFType.SCALAR))
