"""Whether a service can do its work, and which process it is."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Health:
    """``ready``: the service can do its work now. ``detail``: what that depends on, for people."""

    ready: bool
    detail: dict[str, object] = field(default_factory=dict)


def instance() -> str:
    """This process as ``host:pid``, for people who have to find it."""
    return f"{socket.gethostname()}:{os.getpid()}"
