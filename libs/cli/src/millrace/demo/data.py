"""The demo's data: hourly temperatures in degrees Fahrenheit, of Seattle and San Francisco in 2010, as the
PyPI package ``vega_datasets`` carries them."""

from __future__ import annotations

import csv
import importlib.util
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from millrace_core.errors import ErrorCode, MillraceError

DAY_MS = 86_400_000
CITIES = {"seattle": "seattle-temps.csv", "san_francisco": "sf-temps.csv"}  # child table -> file
TITLES = {"seattle": "Seattle", "san_francisco": "San Francisco"}  # child table -> its tag


class Reading(NamedTuple):
    """One row: time in ms since 1970 (the files' clock is read as UTC) and temperature."""

    ts: int
    temp: float


def path(city: str) -> Path:
    """The CSV file of a city (a child table's name)."""
    spec = importlib.util.find_spec("vega_datasets")
    for place in (spec.submodule_search_locations if spec else None) or ():
        file = Path(place, "_data", CITIES[city])
        if file.is_file():
            return file
    raise MillraceError(
        ErrorCode.UNAVAILABLE, f"the package vega_datasets, which contains {CITIES[city]}, is not installed"
    )


def read(file: Path) -> list[Reading]:
    """The readings in the order of the file. The two files write their columns and times differently."""
    with file.open(newline="") as lines:
        return [Reading(_millis(row["date"]), float(row["temp"])) for row in csv.DictReader(lines)]


def _millis(text: str) -> int:
    form = "%Y/%m/%d %H:%M:%S" if text.count(":") == 2 else "%Y/%m/%d %H:%M"
    return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp() * 1000)


def messages(readings: Sequence[Reading]) -> Iterator[bytes]:
    """WAL values: an array of rows a day, in the order of the readings."""
    for _, day in groupby(readings, key=lambda reading: reading.ts // DAY_MS):
        yield json.dumps([reading._asdict() for reading in day]).encode()
