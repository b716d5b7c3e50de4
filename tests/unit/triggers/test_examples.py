"""The example triggers, loaded as a trigger's process loads them, on tablets as it makes them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millrace_triggers import Tablet
from millrace_triggers.load import load_class
from millrace_triggers.tablet import Column

FOLDER = Path(__file__).parents[3] / "examples" / "triggers"


def made(name: str, **attributes: str) -> Any:
    instance = load_class(FOLDER, FOLDER / f"{name.partition(':')[0]}.py", name)()
    instance.validate(attributes)
    instance.on_create(attributes)
    return instance


def tablet(device: str = "root.p.d", **columns: list[float | None]) -> Tablet:
    rows = len(next(iter(columns.values())))
    found = {
        name: Column(
            "DOUBLE", np.array([0 if v is None else v for v in values], float),
            np.array([v is not None for v in values]),
        )
        for name, values in columns.items()
    }  # fmt: skip
    return Tablet(device, np.arange(rows, dtype=np.int64) * 1000, found)


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[Any]]]:
    came: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", came
    server.shutdown()
    server.server_close()


def test_a_threshold_calls_its_webhook(webhook: tuple[str, list[Any]]) -> None:
    url, came = webhook
    alert = made("threshold_alert:ThresholdAlert", limit="10", url=url)
    assert alert.fire(tablet(v=[9, 11, None, 12]))
    assert alert.fire(tablet(v=[10]))
    found = [{"series": "root.p.d.v", "time": at, "value": value} for at, value in ((1000, 11), (3000, 12))]
    assert came == [{"alerts": found}]
    with pytest.raises(ValueError, match="url"):
        made("threshold_alert:ThresholdAlert", limit="10", url="ftp://x")


def test_the_guide_s_alerts_have_a_severity(webhook: tuple[str, list[Any]]) -> None:
    url, came = webhook
    trigger = made("cluster_alerting:ClusterAlertingExample", url=url)
    wt01 = "root.ln.wf01.wt01"
    counts = {"n": Column("INT32", np.array([999] * 4, np.int32), np.ones(4, bool))}
    temperatures = tablet(wt01, temperature=[50.0, 100.5, None, 100.0])
    trigger.fire(
        Tablet(wt01, temperatures.times, {"temperature": temperatures._columns["temperature"]} | counts)
    )
    (events,) = came
    assert [event["labels"] for event in events] == [
        {
            "alertname": "alert_test",
            "series": f"{wt01}.temperature",
            "value": "100.5",
            "severity": "critical",
        },
        {"alertname": "alert_test", "series": f"{wt01}.temperature", "value": "100.0", "severity": "warning"},
    ]
    assert events[0]["annotations"]["summary"] == "high temperature"
    trigger.fire(tablet(wt01, temperature=[20.0]))
    assert len(came) == 1
    with pytest.raises(ValueError, match="url"):
        made("cluster_alerting:ClusterAlertingExample", url="alertmanager")


def test_a_series_is_derived_from_two_others() -> None:
    product = made("derived_series:Product", left="volts", right="amps", into="watts")
    both = tablet(volts=[230, 230, None], amps=[2, None, 3])
    assert product.fire(both)
    assert [(one.path, one.times, one.values) for one in both.writes] == [("root.p.d.watts", [0], [460.0])]
    other = tablet(watts=[460])
    assert product.fire(other)
    assert other.writes == []


def test_values_that_repeat_the_one_before_are_left_out() -> None:
    changes = made("deduplication:Changes", suffix="_changes")
    first, second = tablet(status=[1, 1, 2]), tablet(status=[2, 1])
    assert changes.fire(first)
    again = made("deduplication:Changes", suffix="_changes")
    again.restore(changes.state())
    assert again.fire(second)
    told = [(one.path, one.times, one.values) for one in (*first.writes, *second.writes)]
    path = "root.p.d.status_changes"
    assert told == [(path, [0], [1.0]), (path, [2000], [2.0]), (path, [1000], [1.0])]
