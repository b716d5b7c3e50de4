"""docs/BENCH.md shows what is published in ``bench/published``."""

from __future__ import annotations

import json

import pytest
from bench.table import DOCUMENT, OWN, PUBLISHED, published, rewritten, tables


def test_the_tables_are_those_of_the_published_figures() -> None:
    assert DOCUMENT.read_text() == rewritten(DOCUMENT.read_text()), "run `make figures`"


def test_each_part_says_when_and_by_which_command() -> None:
    peers, system = (json.loads((PUBLISHED / name).read_text()) for name in ("peers.json", "system.json"))
    for part in (*peers["parts"].values(), *system["parts"]):
        assert part["date"] and part["command"].startswith("python -m bench")
    used = {run["part"] for runs in peers["measures"].values() for run in runs}
    assert used == set(peers["parts"])


def test_what_was_not_measured_is_shown_as_such() -> None:
    part = {"commit": None, "command": "python -m bench.peers", "date": "2026-01-01"}
    run = {"job": "event", "of": {"devices": 1000}, "part": "p"}
    peers = {
        "parts": {"p": part},
        "measures": {
            "throughput": [
                {**run, "peer": "millrace-trigger", "figures": {"rows_per_s": 12_345}},
                {**run, "peer": "flink", "figures": {"rows_per_s": 999}},
            ]
        },
    }
    text = tables(peers, {"parts": []})
    assert "| throughput | event | devices 1,000 | 12,345 rows/s |  | 999 rows/s |  | P1 |" in text
    whole = text.partition("### Second")[0]
    assert "12,345" not in whole and "Not measured of the whole: throughput of `event`." in whole
    assert "| `start_seconds` | not measured |" in text


def test_a_document_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="has no lines"):
        rewritten("# The bench\n")


def test_a_results_file_takes_the_place_of_what_it_measured_again() -> None:
    part = {"commit": "c", "date": "2026-01-01"}
    one = {"command": "python -m bench idle", "idle_cores": 0.2, "machine": {}, "versions": {}, **part}
    two = {**one, "idle_cores": 0.1, "start_seconds": 9.0}
    first = published({"parts": []}, one)
    assert first["parts"] == [
        {**part, "command": "python -m bench idle", "note": "", "figures": {"idle_cores": 0.2}}
    ]
    both = published(first, {key: value for key, value in two.items() if key != "idle_cores"}, "quiet")
    assert [each["note"] for each in both["parts"]] == ["", "quiet"]
    (last,) = published(both, two, "quiet")["parts"]
    assert last["figures"] == {"idle_cores": 0.1, "start_seconds": 9.0}
    for nothing in (
        {**one, "command": "python -m bench idle --quick"},
        {"command": "python -m bench", **part},
    ):
        with pytest.raises(ValueError, match="no figures to publish"):
            published({"parts": []}, nothing)


def test_what_is_published_is_shown() -> None:
    """A figure that has been measured again elsewhere goes, and what no table shows is not kept."""
    parts = json.loads((PUBLISHED / "system.json").read_text())["parts"]
    having = [[n for n, part in enumerate(parts) if one.value(part["figures"]) is not None] for one in OWN]
    assert {numbers[-1] for numbers in having if numbers} == set(range(len(parts)))
