"""The rows that a request for history waits for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from .conftest import ALL, make


def test_what_other_streams_have_seen_is_not_waited_for(kit: Any, deployment: Any, tmp_path: Path) -> None:
    """It is rows of other tables: the history of the stream would never come."""
    together = deployment(tmp_path, make(kit, "session", fill_history_first=ALL))
    together.write("c1", [1, 3])
    together.run()
    together.define()
    together.run()
    request, wanted = together.requests[0], together.answers.wanted
    other = replace(request, stream=request.stream + 1, why="CHANGE", seen={0: 99})
    assert wanted([request], [other]) == wanted([request])
    mine = replace(other, stream=request.stream)
    assert wanted([request], [other, mine]).wal[together.topic][0] == 99
