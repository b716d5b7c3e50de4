"""The gateway's OpenAPI, asked at random over HTTP: whatever is sent, no answer is the server's fault."""

from __future__ import annotations

import base64

import pyarrow as pa
from hypothesis import strategies as st

from api_gateway.service import gateway_app

from ...openapi import ask_everything, served
from .conftest import Rig, gateway_on

KNOWN = {"Authorization": "Basic " + base64.b64encode(b"root:taosdata").decode()}
WORDS = """
SELECT INSERT INTO VALUES CREATE DROP STREAM TABLE DATABASE USING TAGS FROM WHERE SHOW QUERIES KILL QUERY
DESCRIBE d d.t t ts v 'x' 1 -1 1e400 0x ( ) , ; * . %%trows INTERVAL(1s) SLIDING(1s) USER PASS GRANT READ ON
DIAGNOSE VERIFY TO é \\ ` " /* --
"""
statements = st.one_of(
    st.text(max_size=200), st.lists(st.sampled_from(WORDS.split()), max_size=20).map(" ".join),
    st.sampled_from(["SHOW DATABASES", "SELECT 1", "SELECT server_version()", "SHOW STREAMS"]),
)  # fmt: skip


def test_no_answer_is_the_servers_fault(rig: Rig) -> None:
    rig.calc.describes(("ts", "TIMESTAMP"), ("n", "BIGINT"))
    rig.calc.answers(("n", "BIGINT", pa.array([1], pa.int64())))
    rig("CREATE TABLE t (ts TIMESTAMP, v INT)")
    rig(
        "CREATE STREAM s INTERVAL(1s) SLIDING(1s) FROM t INTO o"
        " AS SELECT _twstart AS ts, count(*) AS n FROM %%trows"
    )
    rig.gateway.stop()
    # the app's own life begins and ends it
    gateway = gateway_on(rig.log, rig.calc, query_seconds=5, accept_seconds=0.1, apply_seconds=5)
    with served(gateway_app(gateway)) as url:
        assert ask_everything(url, KNOWN, 60, statements) > 15
