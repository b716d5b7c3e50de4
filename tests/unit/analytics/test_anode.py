"""The analytics node, served and asked over a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from millrace_analytics import AnalysisError, Series, directory
from millrace_analytics.anode_client import list_algorithms
from millrace_analytics.columns import anomalous, predicted
from millrace_core.analytics import Directory, of_anodes
from millrace_core.errors import ErrorCode, MillraceError

from ...anode import serving

VALUES = [10.0, 11, 10, 12, 11, 10, 12, 11, 100, 102, 11, 10, -50, 12]
TIMES = [1000 * at for at in range(len(VALUES))]
SERIES = Series(np.array(TIMES), np.array(VALUES))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as found:
        yield found


@pytest.fixture
def remote(address: str) -> Directory:
    """A directory that knows the node alone."""
    return Directory(tuple(of_anodes([(1, address, list_algorithms(address))])))


def post(address: str, path: str, **body: Any) -> dict[str, Any]:
    answer = httpx.post(f"http://{address}{path}", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_list_as_tdgpt_has_it(address: str) -> None:
    found = httpx.get(f"http://{address}/list").json()
    assert found["protocol"] == 1.0
    assert [one["type"] for one in found["details"]] == ["forecast", "anomaly-detection"]
    assert {"name": "iqr"} in found["details"][1]["algo"]
    assert httpx.get(f"http://{address}/status").json() == {"protocol": 1.0, "status": "ready"}


def test_anomalies_as_tdgpt_has_them(address: str) -> None:
    body = {
        "schema": [["ts", "TIMESTAMP", 8], ["val", "INT", 4]], "data": [TIMES, VALUES], "rows": len(VALUES),
        "algo": "iqr", "option": "algo=iqr,wncheck=0", "prec": "ms", "wncheck": 0, "protocol": 1.0,
    }  # fmt: skip
    found = post(address, "/anomaly-detect", **body)
    assert found == {
        "algo": "iqr", "option": "algo=iqr,wncheck=0", "rows": 2, "res": [[8000, 9000], [12000, 12000]],
    }  # fmt: skip


def test_what_cannot_be_analysed(address: str) -> None:
    few = post(address, "/anomaly-detect", data=[TIMES[:3], VALUES[:3]], algo="iqr", wncheck=0)
    assert few == {"rows": -1, "msg": "iqr needs 10 to 40000 rows in a group, not 3"}
    unknown = post(address, "/anomaly-detect", data=[TIMES, VALUES], algo="x")
    assert unknown["rows"] == -1
    assert "known algorithms: grubbs, iqr" in unknown["msg"]
    uneven = post(address, "/anomaly-detect", data=[TIMES, VALUES[:12]], algo="iqr")
    assert uneven == {"rows": -1, "msg": "the columns have different numbers of rows: 14 and 12"}


def test_our_side_of_the_protocol_gives_what_is_computed_here(remote: Directory) -> None:
    options = "algo=1:ksigma, k=2, wncheck=0"
    there = anomalous(remote.read("anomaly-detection", options, "ms"), SERIES)
    here = anomalous(directory().read("anomaly-detection", "algo=ksigma, k=2, wncheck=0", "ms"), SERIES)
    assert np.array_equal(there, here)
    assert here.any()


def test_a_forecast_over_the_protocol(remote: Directory) -> None:
    series = Series(np.arange(30) * 500, np.arange(30) * 2.0)
    options = "algo=holtwinters, trend=add, rows=3, wncheck=0"
    there, here = (
        predicted(known.read("forecast", options, "ms"), series) for known in (remote, directory())
    )
    assert there[0].tolist() == here[0].tolist() == [15_000, 15_500, 16_000]
    assert there[1].values == pytest.approx(here[1].values)


def test_its_refusal_and_its_silence_are_told(remote: Directory) -> None:
    few = Series(np.arange(3), np.arange(3.0))
    with pytest.raises(AnalysisError, match=r"analytics node at .*needs 10 to 40000 rows in a group"):
        anomalous(remote.read("anomaly-detection", "algo=iqr", "ms"), few)
    nobody = Directory(tuple(of_anodes([(2, "127.0.0.1:1", [("anomaly-detection", "iqr")])])))
    with pytest.raises(AnalysisError, match=r"request to the analytics node at 127\.0\.0\.1:1 failed"):
        anomalous(nobody.read("anomaly-detection", "", "ms"), SERIES)
    with pytest.raises(MillraceError) as refused:
        list_algorithms("127.0.0.1:1")
    assert refused.value.code is ErrorCode.ANODE_UNREACHABLE


def test_ours_are_asked_first_unless_the_number_says_otherwise(remote: Directory) -> None:
    both = Directory((*directory().algorithms, *remote.algorithms))
    assert both.find("anomaly-detection", "iqr").anode == 0
    assert both.find("anomaly-detection", "1:iqr").anode == 1
    with pytest.raises(MillraceError, match="unknown algorithm '3:iqr'"):
        both.find("anomaly-detection", "3:iqr")
