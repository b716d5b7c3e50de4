"""Users and privileges: who may do what, with which password, and what is left after a drop."""

from __future__ import annotations

from typing import Any

import pytest

from api_gateway.session import Session
from millrace_core.errors import ErrorCode, MillraceError

from .conftest import NOW

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
    ("GRANT READ ON a.t TO ann", ErrorCode.UNSUPPORTED),
    ("REVOKE ALL ON *.* FROM root", ErrorCode.NOT_ALLOWED),
    ("CREATE SNODE ON DNODE 2", ErrorCode.NOT_ALLOWED),
    ("DROP SNODE ON DNODE 1", ErrorCode.NOT_ALLOWED),
])  # fmt: skip
def test_what_cannot_be_is_refused(house: Any, sql: str, code: ErrorCode) -> None:
    assert house.refused(sql).code is code


def test_snodes_are_listed(house: Any) -> None:
    house("CREATE SNODE ON DNODE 1")
    assert [row[0] for row in house("SHOW SNODES").rows] == [1]
    assert house.refused("CREATE SNODE ON DNODE 1").code is ErrorCode.NOT_ALLOWED
    house("DROP SNODE ON DNODE 1")
    assert house("SHOW SNODES").rows == []
    assert house("SHOW DNODES").rows == [[1, "local", "ready"]]
