"""What the loops count of each stream, for the ``status`` topic. See ``wire.counters``."""

from __future__ import annotations

from calc_svc.store.catalog import CatalogView
from millrace_core.wire.counters import Tally
from millrace_core.wire.topics import STATUS
from millrace_service import instance
from millrace_wal import Message


def tally_of(catalog: CatalogView, service: str) -> Tally:
    """The counters of this process, on top of what the ``status`` topic says."""
    return Tally(service, instance(), lambda stream, slot: catalog.counters_of(service, stream, slot))


def messages(tally: Tally) -> list[Message]:
    """The counters that have changed."""
    return [Message(STATUS.name, key, value) for key, value in tally.take()]
