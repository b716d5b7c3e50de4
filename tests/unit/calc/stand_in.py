"""Stands in for ``python -m calc_svc.queries``, without Spark: a program that does what the text of a query
says. ``READY_AFTER``, ``WARM_AFTER`` (files): it is ready, or warm, once that is there."""

from __future__ import annotations

import os
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa

from calc_svc.queries.control import OUT_OF_MEMORY, As, Ready, Said, Warm
from calc_svc.queries.messages import Answered, Asked, ipc_stream

ENDS = {"memory": OUT_OF_MEMORY, "crash": 1}


def serve(pipe: Connection) -> None:
    while True:
        try:
            said: Said = pipe.recv()
        except EOFError:
            return
        asked: Asked = said.message
        if asked.sql in ENDS:
            os._exit(ENDS[asked.sql])
        if asked.sql != "hang":
            answer = Answered(ipc_stream(pa.table({"pid": [os.getpid()]})))
            pipe.send(Said(said.number, answer, last=True))


def warm(control: Connection) -> None:
    wait_for("WARM_AFTER")
    control.send(Warm())


def wait_for(name: str) -> None:
    """Until the file is there that the variable names, if it names one."""
    wanted = os.environ.get(name)
    while wanted and not Path(wanted).exists():
        time.sleep(0.01)


def main() -> None:
    control, *pipes = (Connection(int(number)) for number in sys.argv[2:])
    for pipe in pipes:
        threading.Thread(target=serve, args=(pipe,), daemon=True).start()
    if sys.argv[1] != As.FIRST:
        wait_for("READY_AFTER")
    control.send(Ready())
    if sys.argv[1] == As.SPARE:
        threading.Thread(target=warm, args=(control,), daemon=True).start()
    try:
        while True:
            control.recv()
    except EOFError:
        os._exit(0)


if __name__ == "__main__":
    main()
