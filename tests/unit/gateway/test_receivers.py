"""Addresses of NOTIFY: what lies behind our own door is refused at CREATE."""

from __future__ import annotations

from typing import Any

import pytest

from api_gateway.receivers import resolve
from millrace_core.errors import ErrorCode, MillraceError

NEW = "CREATE STREAM s1 PERIOD(10s) FROM one NOTIFY('{}')"
OLD = (
    "CREATE STREAM s1 TRIGGER WINDOW_CLOSE INTO o AS SELECT _wstart, count(*) FROM one INTERVAL(1m) "
    "NOTIFY('{}') ON ('WINDOW_CLOSE')"
)


@pytest.fixture
def one(rig: Any) -> Any:
    rig("CREATE TABLE one (ts TIMESTAMP, v INT)")
    rig.calc.describes(("_wstart", "TIMESTAMP"), ("count(*)", "BIGINT"))
    return rig


@pytest.mark.parametrize("sql", [NEW, OLD])
@pytest.mark.parametrize(
    "host",
    [
        "10.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "[fe80::1]",
        "user:pw@192.168.0.1",
        "inside",
    ],
)
def test_a_private_address_is_refused_and_where_it_stands_is_told(one: Any, sql: str, host: str) -> None:
    text = sql.format(f"ws://{host}:8080/x")
    error = one.refused(text)
    assert error.code is ErrorCode.NOT_ALLOWED
    assert error.position.column == text.index("'ws") + 1
    assert "MILLRACE_NOTIFY_ALLOW" in error.message and host not in error.message


@pytest.mark.parametrize("sql", [NEW, OLD])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "93.184.215.14", "outside", "not.known"])
def test_what_is_public_or_named_by_the_setting_is_not(one: Any, sql: str, host: str) -> None:
    one(sql.format(f"ws://{host}:8080/x"))
    assert [name for _, name in one.gateway.context.catalog.streams] == ["s1"]


def test_one_private_address_among_others_is_enough(one: Any) -> None:
    assert one.refused(NEW.format("ws://outside:1/x', 'ws://10.0.0.1:1/x")).code is ErrorCode.NOT_ALLOWED


def test_explain_shows_an_address_without_its_password(one: Any) -> None:
    made = "CREATE STREAM x COUNT_WINDOW(2) FROM one NOTIFY('ws://u:hunter2@outside:1/x') ON (WINDOW_CLOSE)"
    rows = one(f"EXPLAIN {made}").rows
    assert "ws://u:***@outside:1/x" in str(rows)
    assert "hunter2" not in str(rows)
    with pytest.raises(MillraceError, match="this is not a valid address") as caught:
        one(made.replace("outside:1", "outside"))
    assert "hunter2" not in str(caught.value)


def test_without_the_setting_loopback_is_refused_too(one: Any) -> None:
    one.restart(notify_allow="")
    assert one.refused(NEW.format("ws://localhost:1/x")).code is ErrorCode.NOT_ALLOWED


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "::1", "localhost"])
def test_an_address_is_found_in_whichever_way_it_is_written(host: str) -> None:
    assert set(resolve(host)) <= {"127.0.0.1", "::1"} and resolve(host)


@pytest.mark.parametrize("host", ["", "a" * 64 + ".invalid", "\ud800"])
def test_what_is_no_name_has_no_address_or_our_own(host: str) -> None:
    assert set(resolve(host)) <= {"127.0.0.1", "::1"}
