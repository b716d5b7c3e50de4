"""``python -m calc_svc.queries AS CONTROL LANE…``: the process that runs users' queries, one on each
lane.

``AS`` says how it starts (``control.As``); each other argument is the number of a pipe. When calc-svc ends,
its ends of the pipes are closed, and this process ends, too.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from multiprocessing.connection import Connection

import structlog

from calc_svc.queries.control import As, Ready
from calc_svc.settings import CalcSettings
from calc_svc.spark.start import for_queries
from millrace_service import Life, Work, configure_logs, give_way, load_settings

NICE = 5
"""The priority of users' queries: calculations for streams go first if both want one core."""


def main(as_: As, pipes: list[int]) -> None:
    if as_ is not As.FIRST:  # restarts, which a query can cause, must not slow streams down
        give_way(NICE)
    settings = load_settings(CalcSettings)
    configure_logs("calc-svc-queries", settings.log_level)
    spark = for_queries(settings)
    spark.begin()
    # loading the rest takes about as long as the JVM
    from calc_svc.queries.answering import Answering, heed
    from calc_svc.queries.serving import POOL, Cancelling, Serving, Warming, Watching
    from calc_svc.spark.heap import Exhaustion
    from calc_svc.spark.session import Engine

    control, lanes = Connection(pipes[0]), [Connection(pipe) for pipe in pipes[1:]]
    waits = as_ is As.SPARE
    engine = Engine({POOL: len(lanes) + waits}, spark, keeps_planned=False)
    cancelling = Cancelling(engine)
    exhaustion = Exhaustion()
    serving = [
        Answering(number, pipe, Serving(engine, number, exhaustion)) for number, pipe in enumerate(lanes)
    ]
    logger, end = structlog.get_logger("calc-svc-queries"), partial(os._exit, 1)
    works: list[Work] = [Watching(engine, exhaustion), cancelling, *serving]
    for work in works:
        Life(work, logger, end).start()
    if as_ is As.FIRST:
        give_way(NICE)
    control.send(Ready())
    if waits:
        Life(Warming(engine, control), logger, end).start()
    heed(control, cancelling.tell)


if __name__ == "__main__":
    main(As(sys.argv[1]), [int(argument) for argument in sys.argv[2:]])
