"""The settings of trigger-svc: those of every service, and a few of its own."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from millrace_service import Heap
from millrace_spark import SparkSettings


class TriggerSettings(SparkSettings):
    """Environment variables ``MILLRACE_…``; see docs/decisions/0008 for how the defaults were chosen."""

    trigger_threads: int = Field(
        default=4,
        ge=1,
        description="Threads of the trigger query if Spark is local; two per core, since reading is mostly "
        "waiting.",
    )
    trigger_workers: int = Field(
        default=2, ge=1, description="Workers that evaluate a large micro-batch in parallel."
    )
    trigger_heap: Heap = Field(default="1g", description="Java heap of the trigger query's driver.")
    judge_ahead: bool = Field(
        default=True,
        description="Whether messages are evaluated as they arrive, ahead of the micro-batches of the "
        "trigger query; 0 leaves everything to the micro-batches.",
    )
    trigger_commit_ms: int = Field(
        default=2000,
        ge=10,
        description="How often the trigger query commits what was evaluated ahead of it, in milliseconds. "
        "After a crash, what was not committed is evaluated again.",
    )
    trigger_poll_ms: int = Field(
        default=60,
        ge=1,
        description="How often the trigger query checks for new messages if nothing is evaluated ahead of "
        "it, in milliseconds.",
    )
    trigger_small_batch: int = Field(
        default=30_000,
        ge=0,
        description="If nothing is evaluated ahead of the trigger query: a micro-batch of up to this many "
        "messages is evaluated in the driver, not by Spark's workers.",
    )
    trigger_backlog: int = Field(
        default=4_000_000,
        ge=0,
        description="With a lag of more messages than this, rows are evaluated by Spark's workers, not as "
        "they arrive. A smaller number pays off if Spark has more than two cores.",
    )
    trigger_needless_topics: int = Field(
        default=64,
        ge=0,
        description="How many topics of output tables that no stream triggers on may be read before the "
        "trigger query restarts without them, which takes about a second.",
    )
    trigger_restarts: int = Field(
        default=3,
        ge=0,
        description="How often the trigger query may fail within ten minutes before the service stops.",
    )

    trigger_most_held: int = Field(
        default=2_000_000,
        ge=1,
        description="How many groups, open windows, and rows that wait for the watermark one stream may have "
        "in one slot, of each: a stream with more fails, and SHOW STREAMS says so.",
    )

    @property
    def checkpoint(self) -> Path:
        """Where Spark keeps the query's offsets; begun anew at each start."""
        return self.files_dir / "trigger" / "query"

    @property
    def slot_states(self) -> Path:
        """Where the slots' states are kept; workers on other machines must see the same folder."""
        return self.files_dir / "trigger" / "slots"
