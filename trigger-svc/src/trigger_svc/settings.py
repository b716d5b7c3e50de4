"""The settings of trigger-svc: those of every service, and a few of its own."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from millrace_service import ServiceSettings


class TriggerSettings(ServiceSettings):
    """Environment variables ``MILLRACE_…``; see docs/decisions/0008 for how the defaults were chosen."""

    spark_master: str = Field(default="local[2]", description="Spark master of the trigger query.")
    trigger_heap: str = Field(default="1g", description="Java heap of the trigger query's driver.")
    trigger_poll_ms: int = Field(
        default=60, ge=1, description="How often an idle trigger query looks for new messages, ms."
    )
    trigger_restarts: int = Field(
        default=3,
        ge=0,
        description="Failures of the trigger query within ten minutes before the service ends.",
    )

    @property
    def checkpoint(self) -> Path:
        """Where the query keeps its offsets and the slots' states."""
        return self.data_dir.absolute() / "trigger"
