"""What goes for statements of all dialects while they run."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from api_gateway.running import Running
from api_gateway.upkeep.recovery import settle
from millrace_core.errors import ErrorCode, MillraceError


def test_what_an_outage_leaves_open_is_found_out_before_the_next_change(rig: Any) -> None:
    """Whichever dialect that is in: all of them change one catalog."""
    settled: list[object] = []
    of_all = Running(rig.gateway.context, settled.append)
    for code, changes, then in [
        (ErrorCode.UNAVAILABLE, True, 1), (ErrorCode.UNAVAILABLE, False, 1), (ErrorCode.SYNTAX, True, 1),
        (ErrorCode.UNAVAILABLE, True, 2),
    ]:  # fmt: skip
        with pytest.raises(MillraceError), of_all.changing(changes):
            raise MillraceError(code, "away")
        with of_all.changing(False):
            pass
        with of_all.changing(True):
            pass
        assert len(settled) == then, (code, changes)


def test_both_dialects_of_a_gateway_share_it(rig: Any) -> None:
    gateway = rig.gateway
    assert gateway.executor._running is gateway.iotdb._running


def test_a_log_has_no_texts_of_a_statement(rig: Any) -> None:
    """They may be passwords, or addresses with such."""
    of_all = Running(rig.gateway.context, settle)
    with (
        capture_logs() as lines,
        pytest.raises(MillraceError),
        of_all.counted("AlterUser", "ALTER USER eve PASS 'it\\'s ''mine'; SELECT \"also mine\" -- 'mine"),
    ):
        raise KeyError("x")
    (line,) = [line for line in lines if "sql" in line]
    assert line["sql"] == "ALTER USER eve PASS '…'; SELECT '…' -- '…'"


def test_an_error_that_nobody_has_thought_of_becomes_one_of_ours(rig: Any) -> None:
    of_all = Running(rig.gateway.context, settle)
    with pytest.raises(MillraceError) as caught, of_all.counted("Query", "SELECT 1") as counted:
        counted.kind = "Other"
        raise KeyError("x")
    assert caught.value.code is ErrorCode.INTERNAL and "KeyError" in caught.value.message
