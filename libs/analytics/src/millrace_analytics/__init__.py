"""Anomaly detection and forecasts: algorithms as plug-ins over NumPy columns (seed 001)."""

from millrace_analytics.algorithm import AnalysisError, Detector, Forecast, Forecaster, Series
from millrace_analytics.registry import directory

__all__ = ["AnalysisError", "Detector", "Forecast", "Forecaster", "Series", "directory"]
