"""What an event of SLIDING gives to the query."""

from __future__ import annotations

from millrace_core.model.types import TIMESTAMP
from millrace_core.trigger.types.moment import Moment, Placeholder

INSTANT = Moment(
    (
        Placeholder("_tprev_ts", TIMESTAMP, lambda event: event.start),
        Placeholder("_tcurrent_ts", TIMESTAMP, lambda event: event.end),
        Placeholder("_tnext_ts", TIMESTAMP, lambda event: event.next),
    ),
    (">", "_tprev_ts"),
    ("<=", "_tcurrent_ts"),
)
