"""The process of one trigger: started, asked, and ended if it does not answer in time."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from millrace_triggers.frames import OUT_OF_MEMORY, Begin, Begun, Channel, Reply, Request

STARTUP = 60.0
"""Seconds that Python itself may take to answer, in addition to the time for its trigger."""
MARGIN = 5.0
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Which of our environment variables the process gets; secrets are not among them."""
_ALONE = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
"""One thread is enough, and each one takes address space."""


class Gone(Exception):
    """The process has ended, by itself or by us; ``str()`` says why. ``slow``: because it took too long."""

    def __init__(self, why: str, *, slow: bool = False) -> None:
        super().__init__(why)
        self.slow = slow


class TriggerProcess:
    """Used by one thread at a time. ``begin``: the first message that the process gets."""

    def __init__(self, begin: Begin) -> None:
        self._seconds = begin.seconds
        ours, theirs = socket.socketpair()
        with theirs:
            environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "millrace_triggers", str(theirs.fileno())],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=2, start_new_session=True,
                env=environment | _ALONE, cwd=begin.folder if Path(begin.folder).is_dir() else None,
            )  # fmt: skip
        self._channel = Channel(ours, Reply)
        try:
            # load, validate, on_create, restore and failure_strategy each have their own time
            told = self._ask(begin, STARTUP + 5 * begin.seconds)
        except Gone as gone:
            told = Begun("", "begin", str(gone))
        self.begun: Begun = told

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, call: Request) -> Any:
        """Ask and return the reply. :raises Gone: if there is none; then the process has ended."""
        return self._ask(call, 2 * self._seconds + MARGIN)

    def _ask(self, call: Request, seconds: float) -> Any:
        try:
            self._channel.send(call, seconds)
            return self._channel.receive(seconds)
        except TimeoutError:
            gone = Gone(f"it did not answer for {seconds:g} s, and its process was terminated", slow=True)
        except (EOFError, OSError):
            gone = self._ended()
        except (ValueError, msgspec.DecodeError) as error:
            gone = Gone(f"its process sent an invalid answer: {error}")
        self.close()
        raise gone

    def _ended(self) -> Gone:
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(1)
            if code == -signal.SIGALRM:
                return Gone(
                    f"it took longer than {self._seconds:g} s, and its process was terminated", slow=True
                )
            if code == OUT_OF_MEMORY:
                return Gone(
                    "MemoryError: it used more memory than MILLRACE_TRIGGER_MEMORY_MB allows, and its "
                    "process was terminated"
                )
            if code < 0:
                return Gone(f"its process was terminated by {signal.Signals(-code).name}")
            return Gone(f"its process exited with code {code}")
        return Gone("its process closed its connection")

    def close(self) -> None:
        """End the process, and whatever it has started."""
        self._channel.close()
        # it has a process group of its own, whose number is not reused before the process was waited for
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
