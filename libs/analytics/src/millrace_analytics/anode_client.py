"""A client of somebody else's analytics node, over TDgpt's REST protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from millrace_analytics.algorithm import AnalysisError, Flags, Forecast, Series
from millrace_analytics.steps import steps
from millrace_core.analytics import Analysis, AnalysisKind
from millrace_core.errors import ErrorCode, MillraceError

PROTOCOL = 1.0
LIST_SECONDS = 5.0
_PATHS: dict[AnalysisKind, str] = {"anomaly-detection": "/anomaly-detect", "forecast": "/forecast"}


def list_algorithms(address: str) -> list[tuple[AnalysisKind, str]]:
    """The algorithms that the node at ``host:port`` offers, each with its kind.

    :raises MillraceError: ANODE_UNREACHABLE, if it does not answer, or does not follow the protocol.
    """
    try:
        answer = httpx.get(f"http://{address}/list", timeout=LIST_SECONDS, trust_env=False)
        answer.raise_for_status()
        details = answer.json()["details"]
        return [
            (detail["type"], algorithm["name"])
            for detail in details
            if detail["type"] in _PATHS
            for algorithm in detail["algo"]
        ]
    except httpx.HTTPError as error:
        why = str(error) or type(error).__name__
        raise MillraceError(
            ErrorCode.ANODE_UNREACHABLE, f"the request to the analytics node at {address} failed: {why}"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise MillraceError(
            ErrorCode.ANODE_UNREACHABLE, f"the answer of {address} to /list is not that of an analytics node"
        ) from error


def detect(analysis: Analysis, series: Series) -> Flags:
    """Which values the node finds anomalous.

    :raises AnalysisError: if the node refuses the rows (with its reason), or cannot be reached.
    """
    answer = _ask(analysis, series, {})
    if int(answer.get("rows", -1)) < 0:
        # for white noise we find no window (SEMANTICS, S4), while the node reports an error
        if "white noise" in str(answer.get("msg", "")).lower():
            return np.zeros(len(series.values), dtype=bool)
        raise AnalysisError(f"the analytics node at {analysis.url}: {answer.get('msg', 'no reason given')}")
    flags = np.zeros(len(series.values), dtype=bool)
    for first, last in answer.get("res", []):
        flags |= (series.times >= int(first)) & (series.times <= int(last))
    return flags


def forecast(analysis: Analysis, series: Series) -> tuple[NDArray[np.int64], Forecast]:
    """The times and values of the forecast rows; :raises AnalysisError: as :func:`detect`."""
    start, every = steps(analysis, series)
    wanted = analysis.parameters
    more = {
        "forecast_rows": int(wanted["rows"]), "conf": float(wanted["conf"]), "return_conf": 1,
        "start": start, "every": every,
    }  # fmt: skip
    answer = _ask(analysis, series, more)
    if int(answer.get("rows", -1)) < 0:
        raise AnalysisError(f"the analytics node at {analysis.url}: {answer.get('msg', 'no reason given')}")
    times, values, *bounds = (np.asarray(column) for column in answer["res"])
    low, high = bounds if len(bounds) == 2 else (values, values)
    return times.astype(np.int64), Forecast(values, low, high)


def _ask(analysis: Analysis, series: Series, more: Mapping[str, object]) -> dict[str, Any]:
    body = {
        "schema": [["ts", "TIMESTAMP", 8], ["val", "DOUBLE", 8]],
        "data": [series.times.tolist(), series.values.tolist()],
        "rows": len(series.values), "algo": analysis.algorithm, "option": analysis.option,
        "prec": analysis.precision, "wncheck": int(analysis.wncheck), "protocol": PROTOCOL,
    }  # fmt: skip
    try:
        answer = httpx.post(
            f"http://{analysis.url}{_PATHS[analysis.kind]}", json={**body, **more}, timeout=analysis.timeout,
            trust_env=False,
        )  # fmt: skip
        answer.raise_for_status()
        found = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        why = str(error) or type(error).__name__
        raise AnalysisError(f"the request to the analytics node at {analysis.url} failed: {why}") from error
    if not isinstance(found, dict):
        raise AnalysisError(
            f"the answer of the analytics node at {analysis.url} does not follow the protocol"
        )
    return found
