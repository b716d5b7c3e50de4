"""What an event of PERIOD gives to the query."""

from __future__ import annotations

from millrace_core.model.types import TIMESTAMP
from millrace_core.trigger.types.moment import Moment, Placeholder

INSTANT = Moment(
    (
        Placeholder("_tprev_localtime", TIMESTAMP, lambda event: event.start, in_ns=True),
        Placeholder("_tnext_localtime", TIMESTAMP, lambda event: event.next, in_ns=True),
    ),
    None,
    None,
    localtime=lambda event: event.end,
)
