"""Tokens, passwords and the Authorization header."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_gateway.access import login
from api_gateway.access.attempts import FREE, LONGEST, Attempts
from api_gateway.access.login import (
    Logins,
    hash_password,
    make_token,
    new_user,
    read_authorization,
    read_token,
)
from api_gateway.settings import GatewaySettings
from millrace_core.errors import ErrorCode, MillraceError
from millrace_wal import MemoryLog

from .conftest import Calc, gateway_on

# printed in TDengine's documentation of its REST API
KNOWN = "/KfeAzX/f9na8qdtNZmtONryp201ma04bEl8LcvLUd7a8qdtNZmtONryp201ma04"
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)


def test_the_token_is_the_one_that_clients_compute_themselves() -> None:
    assert make_token("root", "taosdata") == KNOWN
    assert read_token(KNOWN) == ("root", "taosdata")


@given(NAMES, NAMES)
def test_a_token_gives_back_what_went_in(name: str, password: str) -> None:
    assert read_token(make_token(name, password)) == (name, password)


def test_a_name_that_the_token_has_no_room_for_is_refused() -> None:
    assert make_token("a" * 24, "b" * 24)
    with pytest.raises(MillraceError) as caught:
        make_token("root", "b" * 25)
    assert caught.value.code is ErrorCode.TOO_LARGE


@pytest.mark.parametrize("header", [
    None, "", "Basic", "Basic !!!", "Basic " + base64.b64encode(b"nocolon").decode(), "Taosd", "Taosd abcd",
    "Taosd " + base64.b64encode(bytes(48)).decode()[:-1], f"Digest {KNOWN}",
])  # fmt: skip
def test_what_is_no_credential_is_refused(header: str | None) -> None:
    with pytest.raises(MillraceError) as caught:
        read_authorization(header)
    assert caught.value.code is ErrorCode.AUTHENTICATION


@pytest.mark.parametrize("scheme", ["Taosd", "Bearer", "taosd"])
def test_a_token_and_basic_say_the_same(scheme: str) -> None:
    basic = "Basic " + base64.b64encode(b"root:taos:data").decode()
    assert read_authorization(basic) == ("root", "taos:data")
    assert read_authorization(f"{scheme} {KNOWN}") == ("root", "taosdata")


def test_only_the_right_password_passes_also_after_a_right_one() -> None:
    users = {"root": new_user("root", "taosdata", superuser=True)}
    logins = Logins(users)
    for _ in range(2):
        assert logins.check("root", "taosdata").superuser
        for name, password in [("root", "taosdatA"), ("root", ""), ("boot", "taosdata")]:
            with pytest.raises(MillraceError) as caught:
                logins.check(name, password)
            assert caught.value.message == "Authentication failure"
    users["root"] = new_user("root", "changed")
    with pytest.raises(MillraceError):
        logins.check("root", "taosdata")
    assert logins.check("root", "changed")


def test_the_password_itself_is_not_stored() -> None:
    user = new_user("root", "taosdata")
    assert "taosdata" not in user.password
    assert user.password != new_user("root", "taosdata").password


def test_an_unknown_user_takes_as_long_as_a_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    logins = Logins({"root": new_user("root", "taosdata")})
    hashed: list[str] = []

    def counted(password: str, salt: str) -> str:
        hashed.append(password)
        return hash_password(password, salt)

    monkeypatch.setattr(login, "hash_password", counted)
    for name in ("root", "boot"):
        with pytest.raises(MillraceError):
            logins.check(name, "wrong")
    assert hashed == ["wrong", "wrong"]


def test_failures_one_after_another_make_the_next_login_wait() -> None:
    now = [100.0]
    logins = Logins({"ann": new_user("ann", "right")}, Attempts(lambda: now[0]))

    def tried(password: str, address: str = "a") -> str:
        try:
            return logins.check("ann", password, address).name
        except MillraceError as error:
            return error.message

    for _ in range(FREE):
        assert tried("wrong") == "Authentication failure"
    assert tried("right") == "too many failed logins: try again in 1 s"
    assert tried("right", "b") == "ann", "whoever fails elsewhere keeps nobody out"
    now[0] += 1
    assert tried("wrong") == "Authentication failure"
    assert tried("right") == "too many failed logins: try again in 2 s"
    now[0] += 2
    assert tried("right") == "ann"
    for _ in range(FREE - 1):
        assert tried("wrong") == "Authentication failure"
    assert tried("right") == "ann", "they count from the last login that was right"
    for _ in range(40):
        tried("wrong")
        now[0] += LONGEST
    assert tried("right") == "ann", "nobody waits longer"


def test_an_unknown_user_waits_like_a_known_one() -> None:
    logins = Logins({}, Attempts(lambda: 0.0))
    for message in ["Authentication failure"] * FREE + ["too many failed logins: try again in 1 s"]:
        with pytest.raises(MillraceError) as caught:
            logins.check("boot", "x")
        assert caught.value.message == message


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({}, False),
        ({"host": "::1"}, False),
        ({"host": "localhost"}, False),
        ({"host": "0.0.0.0"}, True),
        ({"host": "10.1.2.3"}, True),
        ({"host": "10.1.2.3", "allow_default_password": True}, False),
        ({"host": "10.1.2.3", "root_password": "better"}, False),
    ],
)
def test_a_password_that_everybody_knows_is_for_this_machine_alone(
    changes: dict[str, Any], refused: bool
) -> None:
    log = MemoryLog()
    gateway = gateway_on(log, Calc(), **changes)
    try:
        if refused:
            with pytest.raises(MillraceError) as caught:
                gateway.start()
            assert "MILLRACE_ROOT_PASSWORD" in caught.value.message
        else:
            gateway.start()
    finally:
        gateway.stop()


def test_roots_first_password_may_stand_in_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    with pytest.raises(MillraceError, match=r"MILLRACE_ROOT_PASSWORD_FILE = .* No such file"):
        _ = GatewaySettings(root_password_file=str(secret)).first_password
    secret.write_text("\n")
    with pytest.raises(MillraceError, match="is empty"):
        _ = GatewaySettings(root_password_file=str(secret)).first_password
    secret.write_text("of a file\n")
    assert GatewaySettings(root_password_file=str(secret)).first_password == "of a file"
    assert GatewaySettings().first_password == "taosdata"
