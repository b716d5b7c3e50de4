"""Addresses as readers see them: in SQL and in logs."""

from __future__ import annotations

import pytest

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
    assert address.without_passwords(f"NOTIFY('{url}', 'ws://b:c@h:2')", [url, "ws://b:c@h:2"]) == (
        f"NOTIFY('{there}', 'ws://b:***@h:2')"
    )
