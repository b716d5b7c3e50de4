"""A seed of ``make chaos``: kills and pauses of every part under rows in any order lose nothing.

Seed 17 kills the broker, then notify-svc. ``MILLRACE_CHAOS_SEED=1`` runs another one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ..chaos.__main__ import main

SEED = os.environ.get("MILLRACE_CHAOS_SEED", "17")


@pytest.mark.stack
def test_kills_and_pauses_lose_nothing(jars: Path, tmp_path: Path) -> None:
    """On a stack of its own: what it wounds no other test meets."""
    given = ["--seeds", SEED, "--minutes", "0.4", "--folder", str(tmp_path)]
    code = main(given)
    reports = [file.read_text() for file in tmp_path.glob("seed-*/report.txt")]
    assert code == 0, reports
