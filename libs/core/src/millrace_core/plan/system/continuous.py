"""IoTDB's continuous queries in information_schema: next to streams, and in a table of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from millrace_core.catalog import Catalog
from millrace_core.model.continuous import ContinuousQuery
from millrace_core.model.types import BIGINT, TIMESTAMP, DataType
from millrace_core.timeline.continuous import first
from millrace_core.timeline.precision import NS_PER_MS, milliseconds
from millrace_core.wire.counters import BY_NAME
from millrace_core.wire.status import QueryRuns

_NAME = DataType("VARCHAR", 192)
_TEXT = DataType("VARCHAR", 2048)

COLUMNS: dict[str, DataType] = {
    "cq_id": _NAME, "user_name": _NAME, "create_time": TIMESTAMP, "query": _TEXT, "state": _NAME,
    "message": _TEXT, "every_ms": BIGINT, "range_start_ms": BIGINT, "range_end_ms": BIGINT,
    "timeout_policy": _NAME, "runs_done": BIGINT, "runs_failed": BIGINT, "runs_skipped": BIGINT,
    "result_rows": BIGINT, "last_instant": TIMESTAMP, "next_instant": TIMESTAMP, "last_ended": TIMESTAMP,
    "last_took_ms": BIGINT,
}  # fmt: skip
"""``last_instant``: the last instant that is done; ``runs_skipped``: instants that DISCARD has skipped."""


def _told(catalog: Catalog, runs: Sequence[QueryRuns]) -> Iterator[tuple[ContinuousQuery, QueryRuns]]:
    known = {one.query: one for one in runs}
    for query in catalog.cqs.values():
        yield query, known.get(query.uid, QueryRuns(query.uid))


def state_of(told: QueryRuns) -> str:
    """Failed as long as its last run has failed."""
    return "Failed" if told.message else "Running"


def queries(catalog: Catalog, runs: Sequence[QueryRuns]) -> Iterator[dict[str, object]]:
    """The rows of ``ins_continuous_queries``."""
    for query, told in _told(catalog, runs):
        yield {
            "cq_id": query.name, "user_name": query.user, "create_time": query.created, "query": query.text,
            "state": state_of(told), "message": told.message, "every_ms": query.every,
            "range_start_ms": query.start, "range_end_ms": query.end,
            "timeout_policy": "DISCARD" if query.discard else "BLOCKED", "runs_done": told.succeeded,
            "runs_failed": told.failed, "runs_skipped": told.skipped, "result_rows": told.rows,
            "last_instant": told.done, "next_instant": _next(query, told),
            "last_ended": _ended(told), "last_took_ms": told.took if told.at else None,
        }  # fmt: skip


def as_streams(catalog: Catalog, runs: Sequence[QueryRuns]) -> Iterator[dict[str, object]]:
    """The rows of continuous queries in ``ins_streams``, with no database. A run counts as a calculation."""
    for query, told in _told(catalog, runs):
        yield {
            "stream_name": query.name, "create_time": query.created, "stream_id": f"{query.uid:x}",
            "sql": query.text, "status": state_of(told), "message": told.message,
            "calculations": told.succeeded + told.failed, "failures": told.failed, "result_rows": told.rows,
            "last_trigger": told.done, "last_calculated": _ended(told), "trigger": "period",
        }  # fmt: skip


def counters(catalog: Catalog, runs: Sequence[QueryRuns]) -> Iterator[dict[str, object]]:
    """Those counters of streams that a continuous query has, too; the gateway counts them."""
    for query, told in _told(catalog, runs):
        values = {
            "calculations": told.succeeded, "failures": told.failed, "result_rows": told.rows,
            "last_trigger": None if told.done is None else told.done * NS_PER_MS,
            "last_calculated": told.at or None,
        }  # fmt: skip
        for name, value in values.items():
            counter = BY_NAME[name]
            yield {
                "stream_name": query.name, "stream_id": f"{query.uid:x}", "counter": name, "value": value,
                "unit": counter.unit, "service": "api-gateway", "kind": counter.sort,
                "meaning": counter.meaning,
            }  # fmt: skip


def _next(query: ContinuousQuery, told: QueryRuns) -> int:
    if told.next is not None:
        return told.next
    return first(query) if told.done is None else told.done + query.every


def _ended(told: QueryRuns) -> int | None:
    return milliseconds(told.at) if told.at else None
