"""What an algorithm is: one class in one file, found through the entry points ``millrace.algorithms``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from millrace_core.analytics import Parameter, Value

Values = NDArray[np.float64]
Flags = NDArray[np.bool_]
Parameters = Mapping[str, Value]


class AnalysisError(Exception):
    """An analysis cannot be done with these rows or parameters: the text says why, for the user."""


@dataclass(frozen=True, slots=True)
class Series:
    """Rows in order of time: ``times`` in ticks and ``values`` without NULLs, equally many."""

    times: NDArray[np.int64]
    values: Values


@dataclass(frozen=True, slots=True)
class Forecast:
    """The values of the forecast rows, and the bounds of each. ``error``: the mean square error over the
    rows that the model was fitted to."""

    values: Values
    low: Values
    high: Values
    error: float = 0.0


@runtime_checkable
class Detector(Protocol):
    """An algorithm of kind ``anomaly-detection``.

    ``requires``: the packages that it imports when it runs, by the names that pip knows.
    """

    name: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]]
    requires: ClassVar[tuple[str, ...]]

    def detect(self, series: Series, parameters: Parameters) -> Flags:
        """Which values are anomalies; ``parameters`` are checked and complete.

        :raises AnalysisError: if the series does not suit the algorithm.
        """
        ...


@runtime_checkable
class Forecaster(Protocol):
    """An algorithm of kind ``forecast``. ``most_rows``: the longest series that it accepts."""

    name: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]]
    requires: ClassVar[tuple[str, ...]]
    most_rows: ClassVar[int]

    def forecast(self, series: Series, rows: int, confidence: float, parameters: Parameters) -> Forecast:
        """The next ``rows`` values, with bounds that hold with the given ``confidence`` (0 to 1).

        :raises AnalysisError: if the series does not suit the algorithm.
        """
        ...
