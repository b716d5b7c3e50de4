"""The settings of calc-svc."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from millrace_service import Heap
from millrace_spark import SparkSettings


class CalcSettings(SparkSettings):
    """The settings of calc-svc."""

    calc_memory_rows: int = Field(
        8_000_000, ge=1000, description="Rows that the table store keeps in memory; older ones are in Delta."
    )
    calc_result_rows: int = Field(1_000_000, ge=1, description="The most rows that a query may return.")
    calc_result_bytes: int = Field(
        128_000_000,
        ge=100_000,
        description="The most bytes that a query may return, measured in Arrow's format.",
    )
    calc_stream_seconds: float = Field(
        300,
        gt=0,
        description="How long a stream's query may take for triggers that are calculated together, in "
        "seconds; after that, fewer are calculated together, and a trigger that takes longer alone is given "
        "up.",
    )
    calc_expire_seconds: float = Field(
        3600, gt=0, description="Seconds between two checks of each table for rows older than KEEP."
    )
    calc_keep_files_seconds: float = Field(
        600,
        gt=0,
        description="How long files are kept that a table no longer uses but a running query may still read, "
        "in seconds: longer than any query may take.",
    )
    calc_spark_memory: Heap = Field("1g", description="Java heap of the Spark that calculates streams.")
    calc_query_memory: Heap = Field(
        "1g",
        description="Java heap of the Spark that answers users' queries, in a process of its own: a query "
        "that needs more ends that process, which is then started again.",
    )
    calc_spark_cores: int = Field(2, ge=1, description="Threads that each Spark of calc-svc uses.")
    calc_query_lanes: int = Field(3, ge=1, description="Users' queries that may run at the same time.")
    calc_query_spare: bool = Field(
        True,
        description="Keep a second process ready, from the first query on, that takes over at once when the "
        "one for users' queries ends; without it, queries wait until Spark has started again. It takes "
        "700 to 900 MB.",
    )
    calc_query_ends: int = Field(
        3,
        ge=1,
        description="How often a user's queries may end the process for queries before that user must pause.",
    )
    calc_query_penalty_seconds: float = Field(
        600,
        ge=0,
        description="Within how many seconds such ends count, and for how many seconds that user's queries "
        "are then refused. 0: they are never refused.",
    )
    calc_one_by_one: bool = Field(
        False,
        description="Calculate each trigger in a job of its own, never several in one: slow, for comparison.",
    )

    @property
    def tables(self) -> Path:
        """Where the tables' files are."""
        return self.files_dir / "tables"
