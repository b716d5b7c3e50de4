"""Stands in for ``python -m calc_svc.queries``, without Spark: a program that does what the text of a query
says. ``READY_AFTER`` (a file): it is ready once that is there."""

from __future__ import annotations

import os
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa

from calc_svc.queries.control import OUT_OF_MEMORY, As, Ready
from calc_svc.queries.messages import Answered, Asked, ipc_stream

ENDS = {"memory": OUT_OF_MEMORY, "crash": 1}


def serve(pipe: Connection) -> None:
    while True:
        try:
            asked: Asked = pipe.recv()
        except EOFError:
            return
        if asked.sql in ENDS:
            os._exit(ENDS[asked.sql])
        if asked.sql != "hang":
            pipe.send(Answered(asked.number, ipc_stream(pa.table({"pid": [os.getpid()]}))))


def main() -> None:
    control, *pipes = (Connection(int(number)) for number in sys.argv[2:])
    for pipe in pipes:
        threading.Thread(target=serve, args=(pipe,), daemon=True).start()
    wanted = None if sys.argv[1] == As.FIRST else os.environ.get("READY_AFTER")
    while wanted and not Path(wanted).exists():
        time.sleep(0.01)
    control.send(Ready())
    try:
        while True:
            control.recv()
    except EOFError:
        os._exit(0)


if __name__ == "__main__":
    main()
