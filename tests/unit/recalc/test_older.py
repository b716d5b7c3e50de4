"""What streams of the older dialect do about the past: pauses, and how much history there may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.model.stream import Duration, Emission
from millrace_core.wire import control

from .conftest import ALL, make, same


@pytest.mark.parametrize("fills", [True, False])
def test_what_was_written_during_a_pause_is_as_if_it_came_now(
    kit: Any, deployment: Any, tmp_path: Path, fills: bool
) -> None:
    """SEMANTICS-FRONTENDS, Life cycle: RESUME; whether or not the stream fills history. Its rows expire, and
    windows that they close are told of as live."""
    history = {"fill_history": ALL} if fills else {}
    spec = make(kit, "session", expired_time=Duration(30, "a"), **history)
    spec = msgspec.structs.replace(spec, emission=Emission(untreated="live"))
    together = deployment(tmp_path, spec)
    together.define()
    together.write("c1", [100, 200])
    together.run()
    together.answer()
    together.cluster.control(control.StopStream(spec.uid))
    together.run()
    together.write("c1", [205])
    together.write("c1", [120])
    live_from = {0: together.cluster.ends[together.topic]}
    together.cluster.control(control.StartStream(spec.uid, live_from, 1, untreated=True))
    together.run()
    together.answer()
    together.write("c1", [300])
    together.run()
    together.answer()
    same(together.windows(), {100: (100, 1), 200: (205, 2)})
    assert together.cluster.totals()["expired"] == 1
    assert {event.cause for event in together.events} == {"LIVE"}


@pytest.mark.parametrize("untreated", [True, False])
def test_a_stream_that_is_paused_again_before_it_has_been_told_of_the_first_pause_goes_on(
    kit: Any, deployment: Any, tmp_path: Path, untreated: bool
) -> None:
    """It held its rows for ever: what it waited for had been asked for in the life before."""
    spec = msgspec.structs.replace(make(kit, "session"), emission=Emission(untreated="live"))
    together = deployment(tmp_path, spec)
    together.define()
    together.write("c1", [100, 200])
    together.run()
    together.answer()
    for epoch, ts in ((1, 205), (2, 230)):
        together.cluster.control(control.StopStream(spec.uid))
        together.run()
        together.write("c1", [ts])
        live_from = {0: together.cluster.ends[together.topic]}
        treated = untreated or epoch == 1
        together.cluster.control(control.StartStream(spec.uid, live_from, epoch, untreated=treated))
        together.run()
        together.write("c1", [ts + 2])
        together.run()
    together.answer()
    together.write("c1", [300])
    together.run()
    together.answer()
    last = {230: 232} if untreated else {232: 232}
    assert {start: end for start, (end, _) in together.windows().items()} == {100: 100, 200: 207, **last}


@pytest.mark.parametrize(("rows", "fits"), [([100, 200], True), ([100, 200, 300], False)])
def test_history_may_have_so_many_windows(
    kit: Any, deployment: Any, tmp_path: Path, rows: list[int], fits: bool
) -> None:
    """Seed 002: 20 million; more is an error, and nothing is told."""
    spec = make(kit, "session", fill_history=ALL)
    together = deployment(tmp_path, msgspec.structs.replace(spec, emission=Emission(most_history=1)))
    together.write("c1", rows)
    together.run()
    together.define()
    together.run()
    if fits:
        together.answer()
        assert list(together.windows()) == [100]
        return
    with pytest.raises(MillraceError, match="more than 1 windows") as raised:
        together.answer()
    assert raised.value.code is ErrorCode.TOO_LARGE
    assert together.windows() == {}
