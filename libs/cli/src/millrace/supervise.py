"""``python -m millrace.supervise``: the supervisor's process, which ``millrace up`` starts."""

from __future__ import annotations

import datetime
import signal
import threading

from millrace.settings import StackSettings
from millrace.stack import NAMES, Stack
from millrace.supervision.supervisor import Supervisor


def _report(line: str) -> None:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    print(f"{now} {line}", flush=True)


def main() -> None:
    """Watch until SIGTERM or SIGINT; the parts go on running then."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    stack = Stack(StackSettings.from_environment(), _report)
    watch = Supervisor(stack.place, NAMES, lambda name: stack.start(name, ended), _report, following=stack)
    watch.start()
    _report("watching " + ", ".join(NAMES))
    ended.wait()
    watch.stop()
    _report("no longer watching")


if __name__ == "__main__":
    main()
