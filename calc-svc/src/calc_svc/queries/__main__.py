"""``python -m calc_svc.queries AGAIN CONTROL LANE…``: the process that runs users' queries, one on each lane.

``AGAIN`` is 1 where it follows one that has ended; each other argument is the number of a pipe. Where
calc-svc goes, its ends of the pipes go, and so does this one.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection

from calc_svc.queries.messages import OUT_OF_MEMORY, Answered, Asked, Cancel, Ready, ipc_stream, relations_of
from calc_svc.settings import CalcSettings
from calc_svc.spark.session import Engine, Lane
from millrace_core.errors import ErrorCode, MillraceError
from millrace_service import configure_logs, load_settings

NICE = 5
"""What is calculated for streams goes first where both want the same core."""
SOON = 0.1
"""Seconds between two looks at tasks that are to end; whoever waits for them loses patience by himself."""
POOL = "queries"
_JVM_OUT_OF_MEMORY = 3
"""Java's own, with -XX:+ExitOnOutOfMemoryError."""


def main(again: bool, pipes: list[int]) -> None:
    if again:  # whoever can end the process must not slow streams by its starts
        os.nice(NICE)
    settings = load_settings(CalcSettings)
    configure_logs("calc-svc-queries", settings.log_level)
    control, lanes = Connection(pipes[0]), [Connection(pipe) for pipe in pipes[1:]]
    engine = Engine(
        {POOL: len(lanes)}, settings.calc_spark_cores, settings.calc_query_memory, settings=settings,
        keeps_planned=False, conf={"spark.driver.maxResultSize": str(settings.calc_result_bytes)},
    )  # fmt: skip
    threading.Thread(target=_end_with, args=(engine,), daemon=True).start()
    for number, pipe in enumerate(lanes):
        threading.Thread(target=_serve, args=(engine, number, pipe), daemon=True).start()
    os.setpriority(os.PRIO_PGRP, 0, NICE)  # all threads of its JVM, too
    control.send(Ready())
    try:
        while True:
            told: Cancel = control.recv()
            # a JVM that hangs must not keep the end from being noticed
            name = _name(told.lane, told.number)
            threading.Thread(target=engine.cancel, args=(name,), daemon=True).start()
    except (EOFError, OSError):
        os._exit(0)  # its JVM ends with it


def _end_with(engine: Engine) -> None:
    """Without a JVM there is nothing to be done."""
    os._exit(OUT_OF_MEMORY if engine.wait() == _JVM_OUT_OF_MEMORY else 1)


def _serve(engine: Engine, number: int, pipe: Connection) -> None:
    with engine.lane(POOL, 1) as lane:
        while True:
            try:
                asked: Asked = pipe.recv()
                engine.name_jobs(_name(number, asked.number))
                answered = _answer(lane, asked)
                if answered.code == ErrorCode.UNAVAILABLE.name:
                    return  # what the JVM has ended with is told by the end of this process
                while answered.code and engine.tasks(_name(number, asked.number)):
                    # a task that does not end would keep its core: the lane is not free before
                    time.sleep(SOON)
                pipe.send(answered)
            except (EOFError, OSError):
                return
            except BaseException:
                # nobody would answer on this lane any more
                traceback.print_exc()
                os._exit(1)


def _answer(lane: Lane, asked: Asked) -> Answered:
    try:
        found = lane.run(asked.sql, relations_of(asked), asked.timezone, asked.limit)
        return Answered(asked.number, ipc_stream(found))
    except MillraceError as error:
        return Answered(asked.number, b"", error.code.name, error.message)
    # an answer is waited for, whatever happens here
    except Exception as error:
        return Answered(asked.number, b"", ErrorCode.INTERNAL.name, f"{type(error).__name__}: {error}")


def _name(lane: int, number: int) -> str:
    return f"query-{lane}-{number}"


if __name__ == "__main__":
    main(sys.argv[1] == "1", [int(argument) for argument in sys.argv[2:]])
