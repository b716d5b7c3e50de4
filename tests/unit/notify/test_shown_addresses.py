"""Addresses as readers see them: in SQL and in logs."""

from __future__ import annotations

import re

import pytest

from millrace_core.dialect.tdengine.parser import parse
from millrace_core.language.statements import CreateStream
from millrace_core.model import address


@pytest.mark.parametrize(
    ("url", "there"),
    [
        ("ws://ann:se:cret@h:1/x?k=v", "ws://ann:***@h:1/x?k=v"),
        ("ws://ann@h:1", "ws://ann@h:1"),
        ("wss://h:1/a:b@c", "wss://h:1/a:b@c"),
    ],
)
def test_addresses_are_shown_without_their_passwords(url: str, there: str) -> None:
    assert address.shown(url) == there
    assert address.without_passwords(f"NOTIFY('{url}', 'ws://b:c@h:2')") == (
        f"NOTIFY('{there}', 'ws://b:***@h:2')"
    )


@pytest.mark.parametrize("literal", [
    r"'ws://u:se\'cr@h:1'", r"'ws:\/\/u\:secret\@h'", "'ws://u:it''s@h'", '"ws://u:secret@h"', '"ws://u:se\'cret@h"',
])  # fmt: skip
def test_however_an_address_is_written_in_a_statement(literal: str) -> None:
    made = "CREATE STREAM `it's` COUNT_WINDOW(2) FROM t -- it's\n /* isn't */"
    sql = f"{made} NOTIFY({literal}) ON (WINDOW_CLOSE)"
    statement = parse(sql)
    assert isinstance(statement, CreateStream)
    assert statement.notify is not None
    for shown in (address.without_passwords(sql), address.without_passwords(f"{sql} -- {sql}")):
        assert "u:***@h" in shown
        assert not re.search(r"secret|cr|it''s@", shown.replace("CREATE", ""))
    assert address.without_passwords(shown) == shown
    assert (
        address.without_passwords("SELECT 'a@b', `x'y`, 'it''s' -- it's")
        == "SELECT 'a@b', `x'y`, 'it''s' -- it's"
    )
