"""An analytics node: our algorithms behind TDgpt's REST protocol, so that a TDengine can use them."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from millrace_analytics.algorithm import AnalysisError, Series
from millrace_analytics.columns import anomalous, check_rows, predicted, window_numbers
from millrace_analytics.registry import directory
from millrace_core.analytics import MOST_ROWS, Analysis, AnalysisKind
from millrace_core.errors import MillraceError
from millrace_service import Health
from millrace_service.web import service_app

PROTOCOL = 1.0
VERSION = 0.1
Column = Annotated[list[float | None], Field(max_length=MOST_ROWS)]


class Asked(BaseModel):
    """A request: ``data`` holds the columns that ``column_schema`` names, the time first."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    column_schema: list[tuple[str, str, int]] = Field(default=[], alias="schema", max_length=64)
    data: list[Column] = Field(min_length=2, max_length=64)
    algo: str = ""
    option: str = ""
    prec: str = "ms"
    wncheck: int = 1
    forecast_rows: int = 10
    conf: float = 95
    return_conf: int = 1
    start: int = -1
    every: int = -1

    def series(self) -> tuple[Series, np.ndarray[Any, np.dtype[np.bool_]]]:
        """The rows that have a value, and for each row of the request whether it has one."""
        times, values = self.data[0], self.data[1]
        if len(times) != len(values):
            raise AnalysisError(f"the columns have different numbers of rows: {len(times)} and {len(values)}")
        known = np.array([value is not None and math.isfinite(value) for value in values], dtype=bool)
        rows = [(int(t or 0), v) for t, v, there in zip(times, values, known, strict=True) if there]
        pairs = list(zip(*rows, strict=True)) if rows else [(), ()]
        return Series(np.array(pairs[0], dtype=np.int64), np.array(pairs[1], dtype=np.float64)), known

    def analysis(self, kind: AnalysisKind, more: str = "") -> Analysis:
        parts = [self.option, f"algo={self.algo}" if self.algo else "", f"wncheck={self.wncheck}", more]
        return directory().read(kind, ",".join(part for part in parts if part), self.prec)


def anode_app() -> FastAPI:
    """``GET /status``, ``GET /list``, ``POST /anomaly-detect``, ``POST /forecast``, and ``/healthz``.

    The answer to what cannot be analysed is ``{"rows": -1, "msg": why}`` with status 200, as in TDgpt.
    """
    app = service_app("anode", lambda: Health(True))

    @app.get("/status")
    def status() -> dict[str, object]:
        return {"protocol": PROTOCOL, "status": "ready"}

    @app.get("/list")
    def algorithms() -> dict[str, object]:
        kinds: tuple[AnalysisKind, ...] = ("forecast", "anomaly-detection")
        details = [
            {
                "type": kind,
                "algo": [{"name": one.name} for one in directory().of_kind(kind) if not one.missing],
            }
            for kind in kinds
        ]
        return {"protocol": PROTOCOL, "version": VERSION, "details": details}

    # each runs in a thread of the pool, because it computes
    @app.post("/anomaly-detect")
    def anomaly_detect(asked: Asked) -> dict[str, object]:
        return _answered(_windows, asked)

    @app.post("/forecast")
    def forecast(asked: Asked) -> dict[str, object]:
        return _answered(_rows_to_come, asked)

    return app


def _answered(analyse: Any, asked: Asked) -> dict[str, object]:
    try:
        found: dict[str, object] = analyse(asked)
    except (AnalysisError, MillraceError) as error:
        return {"rows": -1, "msg": str(error)}
    return found


def _windows(asked: Asked) -> dict[str, object]:
    analysis = asked.analysis("anomaly-detection")
    check_rows(analysis, len(asked.data[0]))
    series, known = asked.series()
    numbers = window_numbers(anomalous(analysis, series), known)
    found: dict[int, list[int]] = {}
    for time, number in zip(asked.data[0], numbers, strict=True):
        if number is not None:
            found.setdefault(number, []).append(int(time or 0))
    windows = [[times[0], times[-1]] for _, times in sorted(found.items())]
    return {"algo": analysis.algorithm, "option": asked.option, "rows": len(windows), "res": windows}


def _rows_to_come(asked: Asked) -> dict[str, object]:
    more = f"rows={asked.forecast_rows},conf={asked.conf:g},start={asked.start}"
    analysis = asked.analysis("forecast", more if asked.every < 0 else f"{more},every={asked.every}")
    check_rows(analysis, len(asked.data[0]))
    series, _ = asked.series()
    times, found = predicted(analysis, series)
    columns = [times.tolist(), found.values.tolist()]
    if asked.return_conf:
        columns += [found.low.tolist(), found.high.tolist()]
    return {
        "rows": len(times), "period": int(analysis.parameters.get("period", 0)), "algo": analysis.algorithm,
        "mse": found.error, "res": columns,
    }  # fmt: skip
