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
        128_000_000, ge=100_000, description="The most bytes that a query may return, as Arrow holds them."
    )
    calc_stream_seconds: float = Field(
        300,
        gt=0,
        description="Seconds that a stream's query may take for the triggers that are calculated together; "
        "beyond it fewer are, and one that takes longer alone is given up.",
    )
    calc_expire_seconds: float = Field(
        3600, gt=0, description="Seconds between two looks, at each table, for rows older than KEEP."
    )
    calc_keep_files_seconds: float = Field(
        600,
        gt=0,
        description="Seconds that files stay which a table has no more, since a query that has begun may "
        "still read them: more than any query may take.",
    )
    calc_spark_memory: Heap = Field("1g", description="Heap of the Spark that calculates streams.")
    calc_query_memory: Heap = Field(
        "1g",
        description="Heap of the Spark that answers users' queries, in a process of its own: a query that "
        "needs more ends that process, which is started again.",
    )
    calc_spark_cores: int = Field(2, ge=1, description="Threads that each Spark of calc-svc computes with.")
    calc_query_lanes: int = Field(3, ge=1, description="Queries of users that run at the same time.")
    calc_query_spare: bool = Field(
        True,
        description="Have another process wait that takes the place of the one for users' queries at once "
        "when that ends; without it, they wait for a start of Spark. It takes 700 to 900 MB.",
    )
    calc_query_ends: int = Field(
        3, ge=1, description="Ends of the process for queries after which the user at fault must pause."
    )
    calc_query_penalty_seconds: float = Field(
        600,
        ge=0,
        description="Seconds within which such ends count, and for which that user's queries are refused "
        "then. 0: they are not.",
    )
    calc_one_by_one: bool = Field(
        False, description="One job per trigger, never one for many: slow, to compare with."
    )

    @property
    def tables(self) -> Path:
        """Where the tables' files are."""
        return self.files_dir / "tables"
