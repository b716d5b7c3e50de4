"""What the bench of traces makes of spans: figures, the median, a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from bench.trace import WHOLE, Begun, figures, ids, median
from bench.waterfall import depths, step_of, waterfall
from bench.workload import SteadyRow

from millrace_service.spans import Span

SVG = "{http://www.w3.org/2000/svg}"


def trace(number: int, total: int) -> list[Span]:
    """A whole of this many ms, a part that begins after one, and a part of it."""
    ms, name = 1_000_000, f"{number}"
    return [
        Span(name, "a", "", "bench", WHOLE, 0, total * ms),
        Span(name, "b", "a", "trigger-svc", "row.read", ms, 3 * ms),
        Span(name, "c", "b", "calc-svc", "a < b", 2 * ms, 3 * ms),
    ]


def test_figures_are_those_of_each_span_in_the_order_of_their_begin() -> None:
    assert figures([trace(1, 5), trace(2, 7), trace(3, 9)]) == [
        ("bench", WHOLE, 3, 0.0, 7.0, 9.0),
        ("trigger-svc", "row.read", 3, 1.0, 2.0, 2.0),
        ("calc-svc", "a < b", 3, 2.0, 1.0, 1.0),
    ]


def test_the_median_is_the_trace_in_the_middle() -> None:
    assert median([trace(1, 9), trace(2, 5), trace(3, 7)])[0].trace == "3"


def test_each_bar_is_as_long_as_its_span_and_begins_where_it_does() -> None:
    found = ET.fromstring(waterfall(trace(1, 4), "of a & b"))
    bars = [one for one in found.iter(f"{SVG}rect") if one.get("height") == "14"]
    at = [(float(bar.attrib["x"]), float(bar.attrib["width"])) for bar in bars]
    assert at == [(250.0, 760.0), (440.0, 380.0), (630.0, 190.0)]
    texts = [one.text for one in found.iter(f"{SVG}text")]
    assert texts[0] == "of a & b"
    assert {"bench", "trigger-svc", "calc-svc", "a < b", "4.00", "2.00", "1.00", "0 ms", "4 ms"} <= set(texts)


def test_a_span_that_took_no_time_is_seen() -> None:
    found = ET.fromstring(waterfall([Span("t", "a", "gone", "x", "y", 5, 5)], "one"))
    assert [one.get("width") for one in found.iter(f"{SVG}rect") if one.get("height") == "14"] == ["1.0"]


def test_what_lies_below_others_is_set_in() -> None:
    assert depths(trace(1, 4)) == {"a": 0, "b": 1, "c": 2}


@pytest.mark.parametrize(("ms", "step"), [(10, 1), (11, 2), (30, 5), (99, 10), (0.4, 0.05)])
def test_the_axis_has_round_ticks(ms: float, step: float) -> None:
    assert step_of(ms) == pytest.approx(step)


def test_the_producer_begins_the_traces_of_rows_that_close_a_window() -> None:
    begun = Begun()
    assert begun.header(SteadyRow("d3", 5, None)) is None
    ((name, value),) = begun.header(SteadyRow("d3", 2000, 1000)) or []
    assert name == "traceparent"
    assert value.decode().split("-")[1:3] == list(ids(("d3", 1000)))
    assert list(begun.at) == [("d3", 1000)]
