"""Whoever may not look learns nothing: two deployments that differ only where a user may not look answer
everything that the user asks with the same bytes, on every surface (docs/SECURITY.md)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conftest import examples
from tests.unit.gateway.asked import (
    REQUESTS,
    Request,
    by_rpc,
    of_iotdb,
    resource,
    series_by_rpc,
    tablet,
)
from tests.unit.gateway.whole import Ask, Whole, api, sql, told, whole
from tests.unit.gateway.worlds import ANN, OPTIONAL, TABLES, Granted, Secret, World, pairs


def answers(world: World, requests: list[Request]) -> list[Any]:
    with whole() as deployment:
        world.build(deployment)
        return [(name, one(deployment, ask)) for name, ask in requests]


def one(deployment: Whole, ask: Ask) -> Any:
    found = told(ask(deployment, ANN))
    deployment.settle()
    return found


@settings(max_examples=examples(20), suppress_health_check=list(HealthCheck))
@given(pairs(), st.lists(REQUESTS, min_size=1, max_size=25))
def test_what_a_user_may_not_know_changes_nothing_of_what_the_user_is_told(
    worlds: tuple[World, World], requests: list[Request]
) -> None:
    known, other = (answers(world, requests) for world in worlds)
    assert known == other


# -- what was found ------------------------------------------------------------------------------------------

_ROWS = [(0, 1, "u"), (1, 2, "v")]
FULL = Secret(dict.fromkeys(TABLES, _ROWS), dict.fromkeys(TABLES, 1), frozenset(OPTIONAL), "alpha", 7)
EMPTY = Secret({name: [] for name in TABLES}, dict.fromkeys(TABLES, 2), frozenset(), "beta", 9)
KNOWN = Secret({name: [(3, 4, "u")] for name in TABLES}, dict.fromkeys(TABLES, 3), frozenset(), "known", 5)
LINKS = {"a": "b", "b": "c", "c": "a"}
FOUND: dict[str, tuple[list[tuple[str, str]], list[str], list[str], list[Request]]] = {
    "nothing was granted": (
        [],
        ["SELECT v FROM z.nt", "USE z", "USE `root.q`", "SHOW CREATE DATABASE z", "SHOW DATABASES",
         "SHOW USERS", "DROP STREAM g_z", "PAUSE STREAM held_alpha_a", "STOP STREAM z.s",
         "RECALCULATE STREAM g_z FROM 0", "DIAGNOSE STREAM g_z", "SHOW CREATE STREAM g_z",
         "DROP STREAM IF EXISTS g_z"],
        ["SELECT v FROM root.q.d1", "SELECT * FROM root.**", "DELETE FROM root.q.d1.v", "DROP CQ cq_root",
         "DELETE TIMESERIES root.q.**", "CREATE TIMESERIES root.q.d1.v WITH DATATYPE=INT32",
         "DIAGNOSE CQ cq_root", "INSERT INTO root.q.d1(time, v) VALUES (1, 1)",
         "SELECT count(v) INTO root.q.d1(w) FROM root.q.d1"],
        [("database()", sql("SELECT database()", "z")), ("bare name", sql("STOP STREAM s", "z")),
         *(resource("GET", "", name) for name in ("z.s", "g_z", "a.hs")),
         *(resource("GET", "/subscription", name) for name in ("z.s", "g_z", "a.hs")),
         *(resource("POST", "/stop", name) for name in ("z.s", "g_z", "held_beta_b")),
         resource("DELETE", "", "g_z"), tablet("root.q.d1"), tablet("root.p.h1"),
         series_by_rpc(["root.p.h1"]), by_rpc("SELECT v FROM root.q.d1")],
    ),
    "reading and writing single tables": (
        [("WRITE", "a.c1"), ("READ", "b.nt"), ("READ", "`root.p`.`root.p.d1`")],
        ["INSERT INTO a.c1 USING z.st TAGS (1) (ts, v) VALUES (0, 1)", "DELETE FROM a.c1",
         "CREATE TABLE a.c1 USING z.st TAGS (1)", "SELECT * FROM a.c9",
         "INSERT INTO a.c1 USING a.h1 TAGS (1) (ts, v) VALUES (0, 1)",
         "SELECT * FROM information_schema.ins_tables"],
        ["SELECT * FROM root.p.*", "SELECT v FROM root.p.h1", "SHOW DEVICES", "DELETE FROM root.p.*.v",
         "SELECT count(v) INTO root.p.h1(w) FROM root.p.d1"],
        [],
    ),
    "a database whose streams read others": (
        [("ALL", "a.*")],
        ["DIAGNOSE STREAM a.s", "DIAGNOSE STREAM a.s2", "VERIFY STREAM a.s FROM 0 TO '2027-01-01'",
         *(f"SELECT * FROM information_schema.ins_{what}"
           for what in ("streams", "stream_tasks", "stream_counters", "stream_recalculates")),
         "SHOW a.STREAMS", "SHOW STREAMS", "DESCRIBE a.vt", "SHOW CREATE VTABLE a.vt", "DROP TABLE a.st",
         "ALTER STABLE a.st DROP TAG site"],
        [],
        [resource("GET", "", "a.s"), resource("GET", "", "g_a"), ("GET", api("GET"))],
    ),
    "writing alone": (
        [("WRITE", "a.*"), ("WRITE", "`root.p`.*")],
        ["DELETE FROM a.nt", "DELETE FROM a.st WHERE ts < '2026-01-01 00:00:01'", "SELECT * FROM a.nt",
         "SELECT * FROM information_schema.ins_streams", "SHOW a.STREAMS", "DIAGNOSE STREAM a.s2"],
        ["SELECT v FROM root.p.d1", "SELECT * FROM root.p.**", "DELETE FROM root.p.d1.v"],
        [resource("GET", "", "a.s2"), resource("GET", "/subscription", "a.s2")],
    ),
}  # fmt: skip
"""What gave something away, or might: grants, SQL, IoTDB's, other requests."""


@pytest.mark.parametrize("name", FOUND)
def test_what_gave_something_away_does_so_no_more(name: str) -> None:
    grants, statements, of_devices, others = FOUND[name]
    requests = [*((text, sql(text)) for text in statements), *map(of_iotdb, of_devices), *others]
    known, other = (
        answers(World(Granted(tuple(grants)), LINKS, True, KNOWN, secret), requests)
        for secret in (FULL, EMPTY)
    )
    differing = [(left, right) for left, right in zip(known, other, strict=True) if left != right]
    assert differing == []


def test_what_a_user_may_know_is_told() -> None:
    """To say nothing at all would pass the tests above."""
    grants = (("ALL", "a.*"), ("READ", "b.st"), ("WRITE", "c.nt"), ("READ", "`root.p`.`root.p.d1`"))
    with whole() as deployment:
        World(Granted(grants), LINKS, True, KNOWN, FULL).build(deployment)

        def rows(text: str, **query: str) -> Any:
            found = sql(text, **query)(deployment, ANN).json()
            return found.get("data", found)

        assert rows("SHOW DATABASES") == [
            ["a"], ["b"], ["c"], ["information_schema"], ["performance_schema"], ["root.p"],
        ]  # fmt: skip
        assert rows("SHOW USERS") == [["ann", 0]]
        assert rows("SELECT database()") == [[None]]
        # its rows are ann's to read, so is what comes of them
        closed = (
            "SELECT stream_name, status, message, rows_read FROM information_schema.ins_streams ORDER BY 1"
        )
        assert rows(closed) == [
            ["g_a", "failed", "", None], ["s", "Failed", "cannot read known", 5], ["s2", "Failed", "", None],
        ]  # fmt: skip
        assert rows("DIAGNOSE STREAM a.s")[0][:3] == ["stream", None, "status"]
        assert rows("VERIFY STREAM a.s FROM 0 TO '2027-01-01'") == []
        assert rows("DELETE FROM a.nt") == [[1]]
        assert rows("DELETE FROM c.nt") == [[0]], "to count them would be to read them"
        assert rows("SELECT * FROM root.**", dialect="iotdb") == [["2026-01-01T00:00:03.000Z", 4, "u"]]
        assert rows("SELECT v FROM root.p.d2", dialect="iotdb")["code"] == 771
