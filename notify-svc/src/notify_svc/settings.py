"""Settings of notify-svc."""

from __future__ import annotations

import socket

from pydantic import Field

from millrace_core.notice.delivery import Policy
from millrace_service import ServiceSettings


class NotifySettings(ServiceSettings):
    """The shared settings, and how addresses and subscribers are treated."""

    notify_group: str = Field(default="notify-svc", description="Consumer group of the notify-svc instances.")
    notify_retries: int = Field(
        default=5,
        ge=0,
        le=1000,
        description="How many attempts after the first may fail before an address's events are dropped.",
    )
    notify_first_pause: float = Field(
        default=0.1,
        gt=0,
        le=60,
        description="Pause before the first new attempt, in seconds; it doubles each time.",
    )
    notify_longest_pause: float = Field(
        default=5.0, gt=0, le=3600, description="Longest pause between attempts, in seconds."
    )
    notify_connect_seconds: float = Field(
        default=5.0, gt=0, le=300, description="How long connecting to an address may take, in seconds."
    )
    notify_answer_seconds: float = Field(
        default=10.0,
        gt=0,
        le=300,
        description="How long an address may take to confirm a message, in seconds.",
    )
    notify_idle_seconds: float = Field(
        default=600.0, gt=0, description="After how many seconds without events a connection is closed."
    )
    notify_message_bytes: int = Field(
        default=1_000_000,
        ge=1024,
        description="The longest message to an address, in bytes; a longer event is sent alone.",
    )
    notify_waiting: int = Field(
        default=100_000,
        ge=1,
        description="How many undelivered events are held; while there are more, no new ones are read.",
    )
    notify_stuck_after: int = Field(
        default=2,
        ge=1,
        le=1000,
        description="After how many failed attempts streams with ON_FAILURE_PAUSE wait for an address.",
    )
    notify_stuck_events: int = Field(
        default=50_000,
        ge=1,
        description="How many events may wait for an address that is stuck; further ones are dropped (but "
        "never those of streams with ON_FAILURE_PAUSE).",
    )
    notify_patience: float = Field(
        default=5.0,
        gt=0,
        le=3600,
        description="How long a slow address may keep others' events from being read, in seconds.",
    )
    notify_ca_file: str = Field(
        default="", description="PEM file of additional authorities whose wss certificates are trusted."
    )
    notify_catch_ups: int = Field(
        default=4,
        ge=1,
        le=100,
        description="For how many subscribers old events may be read at the same time.",
    )
    notify_subscriber_events: int = Field(
        default=1000,
        ge=1,
        description="How many events may wait for a slow subscriber before it misses some.",
    )

    notify_access_seconds: float = Field(
        default=5.0,
        gt=0,
        le=3600,
        description="How often the service checks whether a subscriber may still listen, in seconds.",
    )

    @property
    def instance(self) -> str:
        """The name of this instance, whichever process it is."""
        return f"{socket.gethostname()}-{self.notify_port}"

    @property
    def policy(self) -> Policy:
        return Policy(
            retries=self.notify_retries,
            first_pause=self.notify_first_pause,
            longest_pause=self.notify_longest_pause,
            stuck_after=self.notify_stuck_after,
            stuck_events=self.notify_stuck_events,
            message_bytes=self.notify_message_bytes,
        )
