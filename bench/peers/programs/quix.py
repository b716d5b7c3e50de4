"""The jobs by Quix Streams. Runs in an environment of its own, with one JSON argument."""

from __future__ import annotations

import json
import sys
from typing import Any

from quixstreams import Application, State
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.dataframe.windows import Count, Max, Mean, Min
from quixstreams.models import TopicConfig


def time_of(value: Any, headers: Any, timestamp: float, kind: Any) -> int:
    """The event time of a message: that of its first row."""
    return int(value["ts"] if isinstance(value, dict) else value[0]["ts"])


def tumbling(rows: StreamingDataFrame, job: dict[str, Any], name: str) -> StreamingDataFrame:
    """Average, least and greatest value of each window."""
    window = rows.tumbling_window(duration_ms=job["width_ms"], name=name)
    results = window.agg(a=Mean("v"), lo=Min("v"), hi=Max("v")).final()
    return results.apply(lambda found: {one: found[one] for one in ("start", "a", "lo", "hi")})


def session(rows: StreamingDataFrame, job: dict[str, Any], name: str) -> StreamingDataFrame:
    """Rows of each session; its end is a millisecond behind its last row."""
    results = rows.session_window(inactivity_gap_ms=job["gap_ms"], name=name).agg(n=Count()).final()
    return results.apply(lambda found: {"start": found["start"], "last": found["end"] - 1, "n": found["n"]})


def event(rows: StreamingDataFrame, job: dict[str, Any], name: str) -> StreamingDataFrame:
    """Rows and greatest value of each event. Quix Streams has no such window: state of its own."""
    high, low = job["high"], job["low"]

    def cut(row: dict[str, Any], state: State) -> dict[str, Any] | None:
        v, held = row["v"], state.get(name)
        if held is None:
            if v < high:
                return None
            held = [row["ts"], 0, v]
        start, count, highest = held[0], held[1] + 1, max(held[2], v)
        if v < low:
            state.delete(name)
            return {"start": start, "last": row["ts"], "n": count, "hi": highest}
        state.set(name, [start, count, highest])
        return None

    return rows.apply(cut, stateful=True).filter(lambda found: found is not None)


JOBS = {"tumbling": tumbling, "session": session, "event": event}


def main(told: dict[str, Any]) -> None:
    """Runs until the process is ended."""
    app = Application(
        broker_address=told["broker"],
        consumer_group="quix",
        auto_offset_reset="earliest",
        commit_interval=told["commit_seconds"],
        state_dir=f"{told['folder']}/state",
        loglevel="WARNING",
        consumer_extra_config={
            "session.timeout.ms": told["session_timeout_ms"],
            "fetch.wait.max.ms": 10,
            "max.poll.interval.ms": max(300_000, told["session_timeout_ms"]),
        },
        producer_extra_config={"linger.ms": 0, "compression.type": "lz4"},
    )
    config = TopicConfig(num_partitions=told["partitions"], replication_factor=1)
    sink = app.topic(told["sink"], value_serializer="json", config=config)
    tables = []
    for source in told["sources"]:
        topic = app.topic(source, value_deserializer="json", timestamp_extractor=time_of, config=config)
        rows = app.dataframe(topic)
        if told["per_message"] > 1:
            rows = rows.apply(lambda value: value, expand=True).set_timestamp(
                lambda row, key, timestamp, headers: row["ts"]
            )
        tables.append(rows)
    for stream in range(told["streams"]):
        results = JOBS[told["job"]["shape"]](tables[stream % len(tables)], told["job"], f"stream{stream}")
        results.apply(
            lambda found, key, timestamp, headers, stream=stream: {
                "stream": stream,
                "device": key if isinstance(key, str) else key.decode(),
                **found,
            },
            metadata=True,
        ).to_topic(sink)
    app.run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
