"""CREATE, UPDATE, DROP and SHOW ANODES; the node is a real one, on a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from api_gateway.session import Session
from millrace_core.errors import ErrorCode, MillraceError, Position

from ...anode import serving

NOW = 1_767_225_600_000_000_000  # 2026-01-01 00:00:00 UTC


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as found:
        yield found


def test_a_node_is_asked_for_its_algorithms_and_kept(rig: Any, address: str) -> None:
    rig(f"CREATE ANODE '{address}'")
    (anode,) = rig.gateway.context.catalog.anodes.values()
    assert (anode.id, anode.url) == (1, address)
    assert ("anomaly-detection", "iqr") in anode.algorithms
    assert ("forecast", "arima") in anode.algorithms
    refused = rig.refused(f"CREATE ANODE '{address}'")
    assert "already registered, with the number 1" in refused.message
    rig("UPDATE ANODE 1")
    rig("UPDATE ALL ANODES")
    assert rig.gateway.context.catalog.anodes["1"].created == anode.created
    rig("DROP ANODE 1")
    assert not rig.gateway.context.catalog.anodes


def test_a_node_that_does_not_answer_is_not_kept(rig: Any) -> None:
    refused = rig.refused("CREATE ANODE '127.0.0.1:1'")
    assert refused.code is ErrorCode.ANODE_UNREACHABLE
    assert refused.code.value.number == 0x0441
    assert refused.position == Position(1, 14)
    assert not rig.gateway.context.catalog.anodes


REFUSED = [
    ("CREATE ANODE 'nobody'", "an anode's address must be 'host:port'"),
    ("CREATE ANODE 'http://a:1/x'", "an anode's address must be 'host:port'"),
    ("CREATE ANODE 5", "the address of an anode"),
    ("DROP ANODE 0", "this deployment's own"),
    ("DROP ANODE 7", "the anode 7 is not registered"),
    ("UPDATE ANODE 7", "the anode 7 is not registered"),
]


@pytest.mark.parametrize(("sql", "message"), REFUSED)
def test_refused(rig: Any, sql: str, message: str) -> None:
    assert message in rig.refused(sql).message


def test_calc_svc_says_what_there_is(rig: Any) -> None:
    types = ("type", "VARCHAR(192)", pa.array(["forecast"]))
    rig.calc.answers(("id", "INT", pa.array([0], pa.int32())), types)
    assert rig("SHOW ANODES FULL").rows == [(0, "forecast")]
    assert "ins_anodes_full" in rig.calc.asked[-1][1]["sql"]
    rig("SHOW ANODES")
    assert "ins_anodes ORDER" in rig.calc.asked[-1][1]["sql"]


def test_a_user_may_look_and_nothing_else(rig: Any) -> None:
    rig("CREATE USER someone PASS 'Secret_123'")
    execute = rig.gateway.executor.execute
    execute(Session("someone", None, "UTC", NOW), "SHOW ANODES")
    with pytest.raises(MillraceError, match="superuser"):
        execute(Session("someone", None, "UTC", NOW), "DROP ANODE 1")
