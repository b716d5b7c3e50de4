"""History that is answered again after a kill, when late rows have changed its windows meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import ALL, make


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.xfail(reason="what history tells again takes the place of the joined window", strict=True)
def test_a_session_that_late_rows_have_joined_stays_joined(
    kit: Any, deployment: Any, tmp_path: Path, first: bool
) -> None:
    """As in a chaos run (seed 34): of two sessions that late rows had joined the old end came back."""
    fill = {"fill_history_first" if first else "fill_history": ALL}
    together = deployment(tmp_path, make(kit, "session", delete_recalc=True, **fill))
    together.write("c1", [1, 3])
    together.write("c1", [12, 14])
    together.run()
    together.define()
    together.run()
    asked = list(together.requests)
    together.answer()
    together.write("c1", [7, 9])
    together.write("c1", [40])
    together.run()
    together.answer()
    assert together.windows()[1][0] == 14
    together.requests += asked
    together.answer()
    assert together.windows()[1][0] == 14
