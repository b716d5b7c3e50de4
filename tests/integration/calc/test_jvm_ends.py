"""Spark's JVM is killed in the middle of calculations, as the kernel does for want of memory: no trigger is
given up, and the process ends, so that it is started again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest

from millrace.java import Java
from millrace_core.catalog import StreamEntry
from millrace_core.model.schema import Database
from millrace_core.wire import topics

pytestmark = pytest.mark.java

MINUTE = 60_000
MINUTES = 40


def test_no_trigger_is_given_up_and_the_process_ends(
    broker: str, java: Java, tmp_path: Path, kit: Any
) -> None:
    calc = kit.Calc(broker, java, tmp_path)
    calc.log.ensure_topics(topics.TOPICS)
    spec = kit.stream(40, kit.QUERY)
    own = [child for child in kit.CHILDREN if child.name in ("m0", "m1")]
    calc.define(Database("power"), kit.METERS, *own, kit.output_of(spec), StreamEntry(spec, "Running", 0, 0))
    calc.write(kit.METERS, kit.data(own, MINUTES))
    calc.start()
    (jvm,) = [one for one in psutil.Process(calc.process.pid).children() if one.name() == "java"]
    for minute in range(MINUTES):
        fired = [kit.closes(spec, kit.own(child), [minute * MINUTE]) for child in own]
        calc.fire(spec, [event for events in fired for event in events])
        if minute == MINUTES // 4:
            jvm.kill()
    assert calc.process.wait(90) != 0
    said = (tmp_path / "calc.log").read_text()
    assert "Spark's process has ended" in said
    assert "given up" not in said
    calc.start()
    count = f"SELECT count(*) FROM out{spec.uid}"
    kit.eventually(lambda: calc.rows(count) == [(len(own) * MINUTES,)])
    assert calc.stop() == 0
    calc.log.close()
