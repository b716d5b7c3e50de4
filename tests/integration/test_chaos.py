"""A seed of ``make chaos``: kills and pauses of every part under rows in any order lose nothing.

``MILLRACE_CHAOS_SEED=1`` runs seed 1; without it none runs, while services that
live through a kill of the broker may not find their groups again (decision 0043).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ..chaos.__main__ import main

SEED = os.environ.get("MILLRACE_CHAOS_SEED", "")


@pytest.mark.stack
@pytest.mark.skipif(not SEED, reason="MILLRACE_CHAOS_SEED names no seed")
def test_kills_and_pauses_lose_nothing(jars: Path, tmp_path: Path) -> None:
    """On a stack of its own: what it wounds no other test meets."""
    given = ["--seeds", SEED, "--minutes", "0.4", "--folder", str(tmp_path)]
    code = main(given)
    reports = [file.read_text() for file in tmp_path.glob("seed-*/report.txt")]
    assert code == 0, reports
