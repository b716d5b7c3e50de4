"""Passwords come by environment, file or prompt, and stand on no command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from millrace import login
from millrace.__main__ import parser
from millrace.login import Login, asked_login, find_login
from millrace_core.errors import ErrorCode, MillraceError

ROOT = Path(__file__).parents[3]


def test_without_anything_root_has_its_first_password() -> None:
    assert find_login(None, {}) == Login("root", "taosdata")
    assert find_login(None, {"MILLRACE_ROOT_PASSWORD": "given"}) == Login("root", "given")


def test_the_environment_and_then_the_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of a file \n")
    files = {"MILLRACE_PASSWORD_FILE": str(secret), "MILLRACE_ROOT_PASSWORD": "first"}
    assert find_login(None, files) == Login("root", "of a file ")
    assert find_login("ann", files | {"MILLRACE_PASSWORD": "p"}) == Login("ann", "p")
    assert find_login(None, {"MILLRACE_USER": "ann", "MILLRACE_PASSWORD": "p"}) == Login("ann", "p")
    assert find_login(None, {"MILLRACE_ROOT_PASSWORD_FILE": str(secret)}).password == "of a file "


def test_what_is_missing_is_told() -> None:
    with pytest.raises(MillraceError, match="no password for ann: set MILLRACE_PASSWORD") as caught:
        find_login("ann", {"MILLRACE_ROOT_PASSWORD": "of-root-alone"})
    assert caught.value.code is ErrorCode.AUTHENTICATION
    with pytest.raises(MillraceError, match="MILLRACE_PASSWORD_FILE = '/none'"):
        find_login(None, {"MILLRACE_PASSWORD_FILE": "/none"})


def test_a_login_does_not_show_its_password() -> None:
    assert "secret" not in repr(Login("root", "secret"))


def test_it_may_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(login, "getpass", lambda text: asked.append(text) or "typed")
    assert asked_login("ann") == Login("ann", "typed")
    assert asked == ["password for ann: "]


def test_the_command_line_takes_no_password(capsys: pytest.CaptureFixture[str]) -> None:
    assert parser().parse_args(["sql", "-p", "SELECT 1"]).ask is True
    with pytest.raises(SystemExit):
        parser().parse_args(["sql", "--password=secret", "SELECT 1"])
    with pytest.raises(SystemExit):
        parser().parse_args(["sql", "-psecret", "SELECT 1"])
    capsys.readouterr()


@pytest.mark.parametrize(
    "file", ["Makefile", "README.md", "examples/first_stream.sh", "docker-compose.yml", ".ci/run"]
)
def test_no_command_of_ours_has_one(file: str) -> None:
    text = (ROOT / file).read_text()
    assert not re.search(r"(-u|--user|--password|-p)[ =]\S*:?taosdata", text)
