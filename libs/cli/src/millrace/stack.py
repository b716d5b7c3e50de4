"""The whole of Millrace on one machine: the broker and the four services, each a process of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Event

import httpx
import psutil

from millrace import broker, certificates, jars, processes
from millrace.broker import Broker
from millrace.jars import Report
from millrace.java import Java, find_java
from millrace.processes import Program, RunFolder
from millrace.settings import (
    HOST,
    ON,
    SERVICES,
    SPOKEN,
    Service,
    StackSettings,
    project_root,
    service,
)
from millrace.supervision import standby, supervisor
from millrace_core.errors import ErrorCode, MillraceError
from millrace_service import KafkaAccess, ServiceToken

PORT_SECONDS = 3.0
"""How long the port of a process that has just ended may stay taken."""
STANDBY_AFTER = 20.0
"""Seconds that a service must have run before its next process is started."""
NAMES = (broker.NAME, *(one.name for one in SERVICES))


@dataclass(frozen=True)
class Status:
    """One row of ``millrace status``. ``memory``: the resident set of the part with all child processes, in
    bytes; ``restarts`` and ``last_exit``: how often the supervisor started it again, and why the last time;
    ``problem``: why it is not ready, in its own words; ``followed``: whether its next process stands by,
    whose memory is not in ``memory``."""

    name: str
    port: int
    pid: int | None
    ready: bool
    seconds: float
    memory: int
    restarts: int = 0
    last_exit: str = ""
    problem: str = ""
    followed: bool = False


def _silent(_: str) -> None:
    """For callers that want no progress."""


class Stack:
    """One stack. Every method may be called from any process: pid files tell what runs."""

    def __init__(self, settings: StackSettings, report: Report = _silent) -> None:
        self.settings = settings
        self.place = RunFolder(settings.data_dir)
        self._report = report

    @cached_property
    def _java(self) -> Java:
        return find_java()

    @cached_property
    def _http(self) -> httpx.Client:
        # One client for all questions: each new client reads all certificates. Asking whether four services
        # are ready took half a core while they started. Loopback needs no proxy.
        return httpx.Client(
            verify=self.settings.trust, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        )

    @cached_property
    def _token(self) -> ServiceToken:
        return self.settings.token

    @cached_property
    def _broker(self) -> Broker:
        one = self.settings
        pair = (one.tls_certificate, one.tls_key) if one.tls_certificate else None
        return Broker(self._java, one.jars_dir, one.data_dir, one.broker_port, self._kafka, pair)

    @cached_property
    def _kafka(self) -> KafkaAccess:
        return self.settings.kafka

    # -- the whole ---------------------------------------------------------------------------------------

    def up(self) -> bool:
        """Starts the parts that do not run and returns once all are ready; False if all ran already.

        ``MillraceError`` says in one sentence what is missing, which port is taken, or which service ended
        or was not ready in time (with the end of its log).
        """
        if self.is_up():
            self._supervise()
            return False
        began = time.monotonic()
        java = self._java
        jars.resolve(java, project_root() / "ivy.xml", self.settings.jars_dir, self._report)
        self._refuse_taken_ports()
        self._ensure_certificate()
        self._note_protocol()
        self.start(broker.NAME)
        self._start_services()
        self._supervise()
        self._report(
            f"all ready after {time.monotonic() - began:.1f} s; SQL at {self.settings.url('api-gateway')}"
        )
        return True

    def down(self) -> bool:
        """Stops everything: the supervisor, the services side by side, then the broker. False if none ran."""
        processes.stop(self.place, supervisor.NAME, patience=15, alone=True)
        with ThreadPoolExecutor(len(SERVICES)) as side_by_side:
            stopped = list(side_by_side.map(self.stop, [one.name for one in SERVICES]))
        for one in SERVICES:
            standby.end(self.place, one.name)
        found = self.stop(broker.NAME) or any(stopped)
        for file in (self.settings.tls_folder / ON, self.settings.data_dir / SPOKEN):
            file.unlink(missing_ok=True)
        return found

    def status(self) -> list[Status]:
        """One row for the broker and each service."""
        restarts = supervisor.restarts(self.place)
        never = supervisor.Restarts(0, "")
        found = [(self._status(name), restarts.get(name, never)) for name in NAMES]
        return [
            replace(
                one, restarts=again.count, last_exit=again.cause, followed=self.has_next(one.name)
            )
            for one, again in found
        ]  # fmt: skip

    def is_supervised(self) -> bool:
        """Whether a supervisor restarts parts that crash."""
        return processes.running(self.place, supervisor.NAME) is not None

    def is_up(self) -> bool:
        """Whether every part runs and is ready."""
        return all(one.ready for one in self.status())

    def is_running(self) -> bool:
        """Whether any part runs, ready or not."""
        return any(processes.running(self.place, name) for name in NAMES)

    # -- one part ----------------------------------------------------------------------------------------

    def start(self, name: str, gave_up: Event | None = None) -> None:
        """Starts the broker or one service unless it runs, and returns once it is ready. Another thread can
        end the wait by setting ``gave_up``."""
        began = time.monotonic()
        if name == broker.NAME:
            self._broker.start()
        else:
            self._start_service(service(name), gave_up or Event())
        self._report(f"{name} ready after {time.monotonic() - began:.1f} s")

    def stop(self, name: str) -> bool:
        """SIGTERM and wait; False if it did not run."""
        began = time.monotonic()
        stopped = processes.stop(self.place, _known(name))
        if stopped:
            self._report(f"{name} stopped after {time.monotonic() - began:.1f} s")
        return stopped

    def restart(self, name: str) -> None:
        """A clean stop and a start."""
        self.stop(name)
        self.start(name)

    def kill(self, name: str) -> bool:
        """kill -9 of one part with all its child processes: a crash, as tests need it."""
        return processes.kill(self.place, _known(name))

    def keep_next(self, name: str) -> None:
        """Starts the next process of a service, to stand by, if settings want that. It is started only some
        time after the running one has begun, so that it does not slow down that one's start."""
        if not self.settings.standby or name == broker.NAME or not service(name).stands_by:
            return
        if self.has_next(name):
            return
        began = self._began(name)
        if began is None or time.time() - began < STANDBY_AFTER or not self._healthy(name):
            return
        if standby.keep(self.place, self._program(service(name))):
            self._report(f"a standby {name} was started")

    def has_next(self, name: str) -> bool:
        """Whether its next process stands by."""
        return standby.waits(self.place, name)

    def _began(self, name: str) -> float | None:
        """When the running process was noted as the service's, in seconds since the epoch."""
        with suppress(FileNotFoundError):
            return self.place.pid_file(name).stat().st_mtime
        return None

    def ask(self, name: str, path: str, timeout: float = 30) -> httpx.Response:
        """What a service answers to another service, which shows the service token."""
        url, shown = self.settings.url(name), dict(self._token.header)
        return self._http.get(f"{url}{path}", headers=shown, timeout=timeout)

    # -- inside ------------------------------------------------------------------------------------------

    def _ensure_certificate(self) -> None:
        """Makes the certificate of a stack that has its own, and leaves a file that tells later
        commands of it."""
        folder = self.settings.tls_folder
        if self.settings.tls:
            certificates.ensure(folder)
            (folder / ON).touch()
        else:
            (folder / ON).unlink(missing_ok=True)

    def _note_protocol(self) -> None:
        """Writes down the broker's protocol, for later commands."""
        file, protocol = self.settings.data_dir / SPOKEN, self.settings.kafka_protocol
        file.parent.mkdir(parents=True, exist_ok=True)
        if protocol == "PLAINTEXT":
            file.unlink(missing_ok=True)
        else:
            file.write_text(protocol)

    def _supervise(self) -> None:
        if self.settings.supervise:
            command = (sys.executable, "-m", "millrace.supervise")
            processes.start(self.place, Program(supervisor.NAME, command, self.settings.variables()))

    def _start_services(self) -> None:
        """Starts all four at once. The error of the first one that fails is raised as soon as it does."""
        gave_up = Event()
        with ThreadPoolExecutor(len(SERVICES)) as side_by_side:
            starts = [side_by_side.submit(self.start, one.name, gave_up) for one in SERVICES]
            try:
                for start in as_completed(starts):
                    start.result()
            finally:
                gave_up.set()

    def _start_service(self, one: Service, gave_up: Event) -> None:
        if processes.running(self.place, one.name) is None:
            self._refuse_taken(one.name, self.settings.ports[one.name], one.variable)
        program = self._program(one)
        if not standby.take_over(self.place, program):
            processes.start(self.place, program)

        def ready() -> bool:
            if gave_up.is_set():
                raise MillraceError(
                    ErrorCode.UNAVAILABLE, f"another service failed while {one.name} was starting"
                )
            return self._healthy(one.name)

        processes.wait_ready(self.place, one.name, ready, one.ready_seconds)

    def _program(self, one: Service) -> Program:
        command = (sys.executable, "-m", one.module)
        return Program(one.name, command, self.settings.environment(self._java.home))

    def _healthy(self, name: str) -> bool:
        return self._health(name)[0]

    def _health(self, name: str) -> tuple[bool, str]:
        """Whether a service is ready, and if not, the reason that its ``/healthz`` gives."""
        try:
            answer = self.ask(name, "/healthz", timeout=2)
        except httpx.TransportError as error:
            return False, f"/healthz cannot be reached: {error}"
        return (True, "") if answer.status_code == 200 else (False, _problem(answer))

    def _refuse_taken_ports(self) -> None:
        """Before anything starts: checks that the port of every part that does not run is free."""
        places = [(broker.NAME, self.settings.broker_port, "MILLRACE_BROKER")]
        places += [(one.name, self.settings.ports[one.name], one.variable) for one in SERVICES]
        for name, port, variable in places:
            if processes.running(self.place, name) is None:
                self._refuse_taken(name, port, variable)

    def _refuse_taken(self, name: str, port: int, variable: str) -> None:
        # the threads of a killed process may hold its port for a moment longer than the process lives
        deadline = time.monotonic() + PORT_SECONDS
        while processes.port_taken(HOST, port):
            if time.monotonic() > deadline:
                raise MillraceError(
                    ErrorCode.UNAVAILABLE, f"port {port} of {name} is in use: free it or set {variable}"
                )
            time.sleep(0.1)

    def _status(self, name: str) -> Status:
        port = self.settings.broker_port if name == broker.NAME else self.settings.ports[name]
        process = processes.running(self.place, name)
        if process is None:
            return Status(name, port, None, False, 0.0, 0)
        if name == broker.NAME:
            ready, problem = broker.answers(port, self._kafka), ""
        else:
            ready, problem = self._health(name)
        up = time.time() - process.create_time()
        return Status(name, port, process.pid, ready, up, _memory(process), problem=problem)


def _problem(answer: httpx.Response) -> str:
    """The reason in the answer of a service that is not ready: what has stalled, or its only problem."""
    try:
        detail = answer.json()["detail"]
        stalled = [
            f"{one['part']} has been stalled since {one['since']}: {one['waits_for']}"
            for one in detail.get("stalled", ())
        ]
        return "; ".join(stalled) or str(detail.get("problem", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"/healthz answered with status {answer.status_code}"


def _known(name: str) -> str:
    return name if name == broker.NAME else service(name).name


def _memory(process: psutil.Process) -> int:
    """Resident bytes of the process and all its descendants."""
    family: Sequence[psutil.Process] = ()
    total = 0
    try:
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for one in family:
        try:
            total += one.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total
