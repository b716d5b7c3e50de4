"""``python -m calc_svc.planning AS CONTROL LANE…``: the process that plans users' statements, one on each
lane. Its arguments are those of ``python -m calc_svc.queries``; it is never one that stands by.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from multiprocessing.connection import Connection

import structlog

from calc_svc.planning.serving import Planning
from calc_svc.queries.answering import Answering, heed
from calc_svc.queries.control import Ready
from millrace_service import Life, ServiceSettings, configure_logs, give_way, load_settings

NICE = 2
"""Streams go first where both want the same core, and planning goes before the queries that run. Otherwise a
long statement would take longer than its query may while a process for queries starts."""


def main(pipes: list[int]) -> None:
    give_way(NICE)
    configure_logs("calc-svc-planning", load_settings(ServiceSettings).log_level)
    control, lanes = Connection(pipes[0]), [Connection(pipe) for pipe in pipes[1:]]
    logger, end = structlog.get_logger("calc-svc-planning"), partial(os._exit, 1)
    planning = [Planning() for _ in lanes]
    for number, (pipe, desk) in enumerate(zip(lanes, planning, strict=True)):
        Life(Answering(number, pipe, desk), logger, end).start()
    control.send(Ready())
    heed(control, lambda told: planning[told.lane].cancel(told))


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[2:]])
