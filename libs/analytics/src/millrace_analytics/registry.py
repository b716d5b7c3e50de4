"""The installed algorithms, found through entry points."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec

import structlog

from millrace_analytics.algorithm import Detector, Forecaster
from millrace_core.analytics import MOST_ROWS, Algorithm, AnalysisKind, Directory

GROUP = "millrace.algorithms"
MODULES = {"scikit-learn": "sklearn"}
"""Packages whose module has a different name."""


@cache
def algorithms() -> dict[tuple[AnalysisKind, str], Detector | Forecaster]:
    """All plug-ins by kind and name, one instance of each. One that fails to load is logged and left out."""
    found: dict[tuple[AnalysisKind, str], Detector | Forecaster] = {}
    for point in entry_points(group=GROUP):
        made = _loaded(point)
        if made is not None:
            found[kind_of(made), made.name] = made
    return found


def _loaded(point: EntryPoint) -> Detector | Forecaster | None:
    log = structlog.get_logger("analytics")
    try:
        made = point.load()()
    except Exception as error:  # somebody else's plug-in may raise anything
        log.error("algorithm not loaded", entry_point=point.value, error=f"{type(error).__name__}: {error}")
        return None
    if isinstance(made, Detector | Forecaster):
        return made
    log.error("algorithm not loaded", entry_point=point.value, error="neither a Detector nor a Forecaster")
    return None


def kind_of(algorithm: Detector | Forecaster) -> AnalysisKind:
    return "anomaly-detection" if isinstance(algorithm, Detector) else "forecast"


def directory() -> Directory:
    """What this process can compute, for the planner; algorithms that lack packages are listed with those."""
    return Directory(
        tuple(
            Algorithm(
                name, kind, one.parameters, getattr(one, "most_rows", MOST_ROWS), _missing(one.requires)
            )
            for (kind, name), one in sorted(algorithms().items())
        )
    )


def _missing(packages: tuple[str, ...]) -> str:
    absent = [name for name in packages if find_spec(MODULES.get(name, name)) is None]
    return ", ".join(absent)
