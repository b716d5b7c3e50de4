"""``python -m millrace_triggers FD``: one trigger, in a process of its own, asked through that socket."""

from __future__ import annotations

import socket
import sys

from millrace_triggers.frames import Channel, Request
from millrace_triggers.runner import Runner


def main() -> None:
    channel = Channel(socket.socket(fileno=int(sys.argv[1])), Request)
    runner = Runner()
    while True:
        try:
            channel.send(runner.answer(channel.receive()))
        except (EOFError, OSError):
            return  # whoever started this process is gone


if __name__ == "__main__":
    main()
