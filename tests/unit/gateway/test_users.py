"""Users and privileges: who may do what, with which password, and what is left after a drop."""

from __future__ import annotations

from typing import Any

import pytest

from api_gateway.session import Session
from millrace_core.errors import ErrorCode, MillraceError

from .conftest import NOW
from .whole import api, whole

STREAM = (
    "CREATE STREAM b.s COUNT_WINDOW(2) FROM a.t INTO c.o"
    " AS SELECT _twstart AS ts, count(*) AS n FROM d.other WHERE ts >= _twstart"
)


@pytest.fixture
def house(rig: Any) -> Any:
    for db in "abc":
        rig(f"CREATE DATABASE {db}", None)
    rig("CREATE TABLE a.t (ts TIMESTAMP, v INT)")
    rig("CREATE TABLE d.other (ts TIMESTAMP, v INT)")
    rig("CREATE USER ann PASS 'secret'")
    rig.calc.describes(("ts", "TIMESTAMP"), ("n", "BIGINT"))
    return rig


def as_ann(rig: Any, sql: str) -> ErrorCode | None:
    """What ann's statement is refused with; None where it is not."""
    try:
        rig.gateway.executor.execute(Session("ann", None, "UTC", NOW), sql)
    except MillraceError as error:
        return error.code
    return None


def test_logins_of_new_users(house: Any) -> None:
    logins = house.gateway.logins
    assert logins.check("ann", "secret").superuser is False
    assert "secret" not in str(house.catalog_records())
    house("ALTER USER ann PASS 'other'")
    with pytest.raises(MillraceError):
        logins.check("ann", "secret")
    assert logins.check("ann", "other").name == "ann"
    assert as_ann(house, "ALTER USER ann PASS 'third'") is None
    assert as_ann(house, "ALTER USER root PASS 'third'") is ErrorCode.PERMISSION
    house.restart()
    assert house.gateway.logins.check("ann", "third").name == "ann"
    house("ALTER USER root PASS 'mine'")
    assert house.gateway.logins.check("root", "mine").superuser
    house("DROP USER ann")
    with pytest.raises(MillraceError):
        house.gateway.logins.check("ann", "third")


def test_a_user_may_do_nothing_at_first(house: Any) -> None:
    for sql in (
        "SELECT v FROM a.t", "INSERT INTO a.t VALUES (1, 1)", "CREATE TABLE a.u (ts TIMESTAMP, v INT)",
        "DROP TABLE a.t", "ALTER TABLE a.t ADD COLUMN w INT", "DESCRIBE a.t", "SHOW a.TABLES", "USE a",
        "DROP DATABASE a", "CREATE DATABASE e", "CREATE USER bob PASS 'x'", "GRANT ALL ON *.* TO ann",
        "DROP USER ann", "CREATE SNODE ON DNODE 1", "DELETE FROM a.t", "SHOW CREATE DATABASE a", STREAM,
    ):  # fmt: skip
        assert as_ann(house, sql) is ErrorCode.PERMISSION, sql
    assert as_ann(house, "SELECT name FROM information_schema.ins_databases") is None
    assert as_ann(house, "SELECT server_version()") is None


def test_a_refusal_does_not_say_whether_a_table_is_there(house: Any) -> None:
    def told(sql: str) -> str:
        with pytest.raises(MillraceError) as caught:
            house.gateway.executor.execute(Session("ann", None, "UTC", NOW), sql)
        assert caught.value.code is ErrorCode.PERMISSION
        return caught.value.message

    for sql in ("SELECT * FROM a.{}", "DESCRIBE a.{}", "DROP TABLE a.{}", "DELETE FROM a.{} WHERE ts < 0"):
        assert told(sql.format("t")) == told(sql.format("absent"))
    house("GRANT READ ON a.t TO ann")
    assert "on the table a.t" in told("DROP TABLE a.t")


def test_reading_and_writing_are_granted_apart(house: Any) -> None:
    house("GRANT READ ON a.* TO ann")
    assert as_ann(house, "SELECT v FROM a.t") is None
    assert as_ann(house, "SELECT v FROM (SELECT v FROM d.other)") is ErrorCode.PERMISSION
    assert as_ann(house, "INSERT INTO a.t VALUES (1, 1)") is ErrorCode.PERMISSION
    house("GRANT WRITE ON a.* TO ann")
    assert as_ann(house, "INSERT INTO a.t VALUES (1, 1)") is None
    house("REVOKE READ ON a.* FROM ann")
    assert as_ann(house, "SELECT v FROM a.t") is ErrorCode.PERMISSION
    assert as_ann(house, "INSERT INTO a.t VALUES (2, 1)") is None
    house("REVOKE ALL ON *.* FROM ann")
    assert as_ann(house, "DESCRIBE a.t") is ErrorCode.PERMISSION


def test_a_stream_needs_every_database_that_it_touches(house: Any) -> None:
    grants = ["READ ON a", "WRITE ON b", "WRITE ON c", "READ ON d"]
    for left_out in range(4):
        for place, what in enumerate(grants):
            verb, to = ("REVOKE", "FROM") if place == left_out else ("GRANT", "TO")
            house(f"{verb} {what}.* {to} ann")
        assert as_ann(house, STREAM) is ErrorCode.PERMISSION, grants[left_out]
    house("GRANT READ ON d.* TO ann")
    assert as_ann(house, STREAM) is None
    house("REVOKE WRITE ON b.* FROM ann")
    for sql in ("STOP STREAM b.s", "START STREAM b.s", "DROP STREAM b.s"):
        assert as_ann(house, sql) is ErrorCode.PERMISSION, sql
    house("REVOKE ALL ON *.* FROM ann")
    house("GRANT WRITE ON b.* TO ann")
    assert as_ann(house, "DROP STREAM b.s") is None  # the stream's database alone counts now


def test_a_stream_over_information_schema_is_a_superusers(house: Any) -> None:
    """It would write for everybody what only its maker may know of."""
    for what in ("READ ON a", "WRITE ON b", "WRITE ON c"):
        house(f"GRANT {what}.* TO ann")
    stream = STREAM.replace("d.other WHERE ts >= _twstart", "information_schema.ins_users")
    assert as_ann(house, stream) is ErrorCode.PERMISSION


def test_tables_are_granted_one_by_one(house: Any) -> None:
    house("CREATE TABLE a.other (ts TIMESTAMP, v INT)")
    house("GRANT READ ON a.t TO ann")
    assert as_ann(house, "SELECT v FROM a.t") is None
    assert as_ann(house, "DESCRIBE a.t") is None
    for sql in ("SELECT v FROM a.other", "INSERT INTO a.t VALUES (1, 1)", "ALTER TABLE a.t ADD COLUMN w INT",
                "DELETE FROM a.t", "DROP TABLE a.t", "CREATE TABLE a.u (ts TIMESTAMP, v INT)",
                "SELECT t.v FROM a.t, a.other WHERE t.ts = other.ts", "DESCRIBE a.other",
                "DROP DATABASE a"):  # fmt: skip
        assert as_ann(house, sql) is ErrorCode.PERMISSION, sql
    house("GRANT WRITE ON a.t TO ann")
    for sql in ("INSERT INTO a.t VALUES (1, 1)", "ALTER TABLE a.t ADD COLUMN w INT", "DELETE FROM a.t"):
        assert as_ann(house, sql) is None, sql
    house("REVOKE READ ON a.t FROM ann")
    assert as_ann(house, "SELECT v FROM a.t") is ErrorCode.PERMISSION
    assert as_ann(house, "INSERT INTO a.t VALUES (3, 1, 1)") is None
    house("REVOKE ALL ON a.t FROM ann")
    assert as_ann(house, "INSERT INTO a.t VALUES (4, 1, 1)") is ErrorCode.PERMISSION


def test_a_super_table_stands_for_its_children(house: Any) -> None:
    house("CREATE STABLE a.st (ts TIMESTAMP, v INT) TAGS (site INT)")
    house("CREATE TABLE a.c1 USING a.st TAGS (1)")
    house("CREATE TABLE a.c2 USING a.st TAGS (2)")
    house("GRANT ALL ON a.st TO ann")
    for sql in ("SELECT v FROM a.c1", "SELECT v FROM a.st", "INSERT INTO a.c1 VALUES (1, 1)",
                "CREATE TABLE a.c3 USING a.st TAGS (3)", "INSERT INTO a.c4 USING a.st TAGS (4) VALUES (1, 1)",
                "ALTER TABLE a.c1 SET TAG site = 5", "SHOW TAGS FROM a.c2"):  # fmt: skip
        assert as_ann(house, sql) is None, sql
    house("REVOKE ALL ON a.st FROM ann")
    house("GRANT READ ON a.c1 TO ann")
    assert as_ann(house, "SELECT v FROM a.c1") is None
    for sql in ("SELECT v FROM a.c2", "SELECT v FROM a.st", "INSERT INTO a.c1 VALUES (1, 1)"):
        assert as_ann(house, sql) is ErrorCode.PERMISSION, sql


def test_a_stream_can_do_with_privileges_of_tables(house: Any) -> None:
    house("CREATE TABLE c.o (ts TIMESTAMP, n BIGINT)")
    grants = ["WRITE ON b.*", "READ ON a.t", "WRITE ON c.o", "READ ON d.other"]
    for left_out in range(4):
        for place, what in enumerate(grants):
            verb, to = ("REVOKE", "FROM") if place == left_out else ("GRANT", "TO")
            house(f"{verb} {what} {to} ann")
        assert as_ann(house, STREAM) is ErrorCode.PERMISSION, grants[left_out]
    house("GRANT READ ON d.other TO ann")
    assert as_ann(house, STREAM) is None
    assert as_ann(house, "STOP STREAM b.s") is None


@pytest.mark.parametrize(("sql", "grants"), [
    ("CREATE VTABLE b.c1 (v FROM a.t.v, w FROM d.other.v) USING b.virt TAGS (1)",
     ["WRITE ON b.virt", "READ ON a.t", "READ ON d.other"]),
    ("CREATE VTABLE b.c1 (a.t.v, d.other.v) USING b.virt TAGS (1)",
     ["WRITE ON b.*", "READ ON a.*", "READ ON d.other"]),
    ("CREATE VTABLE b.pair (ts TIMESTAMP, v INT FROM a.t.v, w INT FROM d.other.v)",
     ["WRITE ON b.*", "READ ON a.t", "READ ON d.*"]),
])  # fmt: skip
def test_a_virtual_table_takes_reading_each_of_its_sources(house: Any, sql: str, grants: list[str]) -> None:
    house("CREATE STABLE b.virt (ts TIMESTAMP, v INT, w INT) TAGS (k INT) VIRTUAL 1")
    for left_out in grants:
        for what in grants:
            verb, to = ("REVOKE", "FROM") if what == left_out else ("GRANT", "TO")
            house(f"{verb} {what} {to} ann")
        if left_out.startswith("READ"):  # writing to a source is not reading it
            house(f"GRANT {left_out.replace('READ', 'WRITE')} TO ann")
        assert as_ann(house, sql) is ErrorCode.PERMISSION, left_out
    house(f"GRANT {grants[-1]} TO ann")
    assert as_ann(house, sql) is None


def test_an_output_table_that_is_not_there_needs_its_database(house: Any) -> None:
    for what in ("WRITE ON b.*", "READ ON a.t", "READ ON d.other"):
        house(f"GRANT {what} TO ann")
    assert as_ann(house, STREAM) is ErrorCode.PERMISSION
    house("GRANT WRITE ON c.* TO ann")
    assert as_ann(house, STREAM) is None


def test_a_table_s_privilege_is_not_that_of_a_stream_of_its_name(house: Any) -> None:
    house("CREATE TABLE b.s (ts TIMESTAMP, v INT)")
    house(STREAM)
    house("GRANT ALL ON b.s TO ann")
    for sql in ("STOP STREAM b.s", "DROP STREAM b.s", "SHOW CREATE STREAM b.s"):
        assert as_ann(house, sql) is ErrorCode.PERMISSION, sql
    assert as_ann(house, "SHOW CREATE TABLE b.s") is None


def test_a_privilege_ends_with_its_table(house: Any) -> None:
    house("GRANT ALL ON a.t TO ann")
    house("DROP TABLE a.t")
    house("CREATE TABLE a.t (ts TIMESTAMP, v INT)")
    assert as_ann(house, "SELECT v FROM a.t") is ErrorCode.PERMISSION
    assert as_ann(house, "USE a") is ErrorCode.PERMISSION
    house("GRANT READ ON a.t TO ann")
    house("REVOKE ALL ON a.* FROM ann")
    assert as_ann(house, "SELECT v FROM a.t") is ErrorCode.PERMISSION
    house("GRANT READ ON a.t TO ann")
    house.restart()
    assert as_ann(house, "SELECT v FROM a.t") is None


def test_lists_show_what_may_be_read_or_written(house: Any) -> None:
    def seen(sql: str) -> list[object]:
        rows = house.gateway.executor.execute(Session("ann", "a", "UTC", NOW), sql).rows
        return [row[0] for row in rows]

    house("CREATE TABLE a.other (ts TIMESTAMP, v INT)")
    house(
        "CREATE STREAM a.s COUNT_WINDOW(2) FROM a.t INTO c.o AS SELECT _twstart AS ts, count(*) AS n FROM a.t"
    )
    assert as_ann(house, "SHOW a.TABLES") is ErrorCode.PERMISSION
    house("GRANT READ ON a.t TO ann")
    assert (seen("SHOW TABLES"), seen("SHOW STREAMS")) == (["t"], [])
    house("GRANT WRITE ON a.* TO ann")
    assert (seen("SHOW TABLES"), seen("SHOW STREAMS")) == (["other", "t"], ["s"])


def test_verifying_takes_reading_the_output_table_too(house: Any) -> None:
    house(
        "CREATE STREAM a.s COUNT_WINDOW(2) FROM a.t INTO c.o AS SELECT _twstart AS ts, count(*) AS n FROM a.t"
    )
    verify = "VERIFY STREAM a.s FROM 2 TO 1"
    house("GRANT READ ON a.* TO ann")
    assert as_ann(house, "DIAGNOSE STREAM a.nothing") is ErrorCode.UNKNOWN_STREAM
    assert as_ann(house, verify) is ErrorCode.PERMISSION
    house("GRANT READ ON c.o TO ann")
    assert as_ann(house, verify) is ErrorCode.INVALID_VALUE, "allowed, but the times are the wrong way round"


def test_privileges_are_shown(house: Any) -> None:
    house("GRANT READ ON a.t TO ann")
    house("GRANT ALL ON b.* TO ann")
    house("CREATE USER bob PASS 'x'")
    house("GRANT READ ON *.* TO bob")
    mine = [["ann", "read", "a", "t"], ["ann", "read", "b", ""], ["ann", "write", "b", ""]]
    rows = house("SHOW USER PRIVILEGES").rows
    assert sorted(rows) == [*mine, ["bob", "read", "*", ""], ["root", "all", "*", ""]]
    told = house.gateway.executor.execute(Session("ann", None, "UTC", NOW), "SHOW USER PRIVILEGES").rows
    assert sorted(told) == mine
    house("DROP TABLE a.t")
    assert ["ann", "read", "a", "t"] not in house("SHOW USER PRIVILEGES").rows


def test_grants_end_with_their_user_and_their_database(house: Any) -> None:
    house("GRANT ALL ON a.* TO ann")
    house("DROP DATABASE a", None)
    house("CREATE DATABASE a", None)
    assert as_ann(house, "SHOW a.TABLES") is ErrorCode.PERMISSION
    house("GRANT ALL ON *.* TO ann")
    assert as_ann(house, "SHOW a.TABLES") is None
    house("DROP USER ann")
    house("CREATE USER ann PASS 'x'")
    assert as_ann(house, "SHOW a.TABLES") is ErrorCode.PERMISSION


@pytest.mark.parametrize(("sql", "code"), [
    ("CREATE USER ann PASS 'x'", ErrorCode.USER_EXISTS),
    ("CREATE USER bob PASS ''", ErrorCode.INVALID_VALUE),
    ("CREATE USER a_name_of_more_than_twenty_three PASS 'x'", ErrorCode.INVALID_VALUE),
    ("DROP USER root", ErrorCode.NOT_ALLOWED),
    ("DROP USER bob", ErrorCode.UNKNOWN_USER),
    ("GRANT READ ON a.* TO bob", ErrorCode.UNKNOWN_USER),
    ("GRANT READ ON nowhere.* TO ann", ErrorCode.UNKNOWN_DATABASE),
    ("GRANT READ ON a.nowhere TO ann", ErrorCode.UNKNOWN_TABLE),
    ("REVOKE READ ON a.nowhere FROM ann", ErrorCode.UNKNOWN_TABLE),
    ("GRANT READ ON nowhere.t TO ann", ErrorCode.UNKNOWN_DATABASE),
    ("GRANT READ ON *.t TO ann", ErrorCode.SYNTAX),
    ("GRANT READ ON a.t WITH site = 1 TO ann", ErrorCode.UNSUPPORTED),
    ("REVOKE ALL ON *.* FROM root", ErrorCode.NOT_ALLOWED),
    ("CREATE SNODE ON DNODE 2", ErrorCode.NOT_ALLOWED),
    ("DROP SNODE ON DNODE 1", ErrorCode.NOT_ALLOWED),
])  # fmt: skip
def test_what_cannot_be_is_refused(house: Any, sql: str, code: ErrorCode) -> None:
    assert house.refused(sql).code is code


def test_the_last_snode_that_a_stream_needs_stays(house: Any) -> None:
    """A stream is made without one as well: then the services that are there anyway are enough."""

    def at(second: int, sql: str) -> None:
        house.gateway.executor.execute(Session("root", "a", "UTC", NOW + second * 1_000_000_000), sql)

    create, drop = "CREATE SNODE ON DNODE 1", "DROP SNODE ON DNODE 1"
    at(1, STREAM)
    at(2, create)
    at(3, drop)
    at(4, "DROP STREAM b.s")
    at(5, create)
    at(6, STREAM)
    error = house.refused(drop)
    assert error.code is ErrorCode.NOT_ALLOWED
    assert "the stream b.s needs it" in error.message
    at(7, "STOP STREAM b.s")
    assert house.refused(drop).code is ErrorCode.NOT_ALLOWED
    at(8, "DROP STREAM b.s")
    at(9, drop)


def test_snodes_are_listed(house: Any) -> None:
    house("CREATE SNODE ON DNODE 1")
    assert [row[0] for row in house("SHOW SNODES").rows] == [1]
    assert house.refused("CREATE SNODE ON DNODE 1").code is ErrorCode.NOT_ALLOWED
    house("DROP SNODE ON DNODE 1")
    assert house("SHOW SNODES").rows == []
    assert house("SHOW DNODES").rows == [[1, "local", "ready"]]


def test_only_who_may_read_subscribes_to_a_streams_events() -> None:
    """notify-svc asks this, and again and again while somebody listens."""
    with whole() as deployment:
        for sql in (
            "CREATE DATABASE a",
            "CREATE TABLE a.t (ts TIMESTAMP, v INT)",
            "CREATE STREAM a.s COUNT_WINDOW(2) FROM a.t INTO a.o"
            " AS SELECT _twstart AS ts, sum(v) FROM %%trows",
            "CREATE USER ann PASS 'secret-1'",
        ):
            deployment.root(sql)

        def status() -> int:
            found: int = api("GET", "/a.s/subscription")(deployment, ("ann", "secret-1")).status_code
            return found

        # of what ann may not know at all it is not told that it is there
        seen = [status()]
        for sql in ("GRANT WRITE ON a.* TO ann", "GRANT READ ON a.* TO ann", "REVOKE READ ON a.* FROM ann",
                    "DROP USER ann"):  # fmt: skip
            deployment.root(sql)
            seen.append(status())
        assert seen[1:] == [403, 204, 403, 401]
        assert seen[0] in (403, 404)
