"""A gateway that answers from a script, over real HTTP, and pushes notifications over a real WebSocket."""

from __future__ import annotations

import asyncio
import json
import re
import selectors
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from millrace_conformance import load
from millrace_conformance.case import Case
from millrace_conformance.load import Dispute
from millrace_conformance.producer import ToProduce
from millrace_conformance.report import Outcome
from millrace_conformance.run import play_cases

NAME = r"\bc[0-9a-f]{10}"
LOGINS = {"root": "taosdata", "DB_r": "Secret_123"}
HEAD = """\
id: {id}
title: a case of the runner's own tests
covers: [ddl.create]
dialect: {dialect}
precision: ms
timezone: {timezone}
oracle: by hand
steps:
"""


@dataclass(frozen=True)
class Rows:
    """An answer. ``types``: one name a column, guessed from the first row when empty."""

    rows: Sequence[Sequence[Any]]
    types: Sequence[str] = ()
    columns: Sequence[str] = ()

    def json(self) -> dict[str, Any]:
        width = len(self.rows[0]) if self.rows else len(self.columns) or 1
        types = self.types or ["TIMESTAMP" if _is_time(v) else "INT" for v in (self.rows or [[0]])[0]]
        names = self.columns or [f"c{number}" for number in range(width)]
        meta = [[name, type_, 8] for name, type_ in zip(names, types, strict=False)]
        return {
            "code": 0,
            "column_meta": meta,
            "data": [list(row) for row in self.rows],
            "rows": len(self.rows),
        }


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and "T" in value and value.endswith("Z")


@dataclass(frozen=True)
class Error:
    """A refusal."""

    desc: str
    code: int = 0x2600


@dataclass(frozen=True)
class Push:
    """An answer after which messages go to the address that CREATE STREAM named. An event is an object
    with its streamName; a text goes as it is."""

    events: Sequence[Mapping[str, Any] | str]
    delay: float = 0.0


Script = Mapping[str, Rows | Error | Push | Sequence[Rows | Error | Push]]
DONE = Rows([[0]], ["INT"], ["affected_rows"])


@dataclass
class FakeGateway:
    """``script``: the start of a statement -> its answers, the last of which repeats; any other statement
    succeeds. Statements, answers and users write DB for the name of the case's database. ``heard``: all
    statements so far; ``users``: who sent each."""

    script: Script
    heard: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    parameters: list[dict[str, str]] = field(default_factory=list)
    busy: int = 0
    most_busy: int = 0
    restarted: list[str] = field(default_factory=list)
    produced: list[ToProduce] = field(default_factory=list)
    _asked: dict[str, int] = field(default_factory=dict)
    _notify: str = ""
    _db: str = "?"
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def restart(self, service: str) -> None:
        self.restarted.append(service)

    async def produce(self, what: ToProduce) -> None:
        self.produced.append(what)

    async def handle(self, request: web.Request) -> web.Response:
        login = aiohttp.BasicAuth.decode(request.headers["Authorization"])
        user = re.sub(NAME, "DB", login.login)
        if LOGINS.get(user) != login.password:
            return web.json_response({"code": 0x0357, "desc": "Authentication failure"}, status=401)
        text = await request.text()
        self.users.append(user)
        self._db = (re.findall(NAME, text) or [self._db])[0]
        sql = re.sub(NAME, "DB", text)
        self.heard.append(sql)
        self.parameters.append(dict(request.query))
        self._notify = (re.findall(r"ws://[^'\"]+", text) or [self._notify])[0]
        self.busy += 1
        self.most_busy = max(self.busy, self.most_busy)
        await asyncio.sleep(0.005)
        self.busy -= 1
        answer = self._answer(sql)
        if isinstance(answer, Error):
            return web.json_response({"code": answer.code, "desc": answer.desc})
        if isinstance(answer, Push):
            task = asyncio.create_task(self._push(self._notify, answer))
            self._tasks.add(task)
            answer = DONE
        return web.Response(
            text=json.dumps(answer.json()).replace("DB", self._db), content_type="application/json"
        )

    def _answer(self, sql: str) -> Rows | Error | Push:
        for start, answers in self.script.items():
            if sql.startswith(start):
                given = answers if isinstance(answers, Sequence) else [answers]
                number = self._asked.get(start, 0)
                self._asked[start] = number + 1
                return given[min(number, len(given) - 1)]
        return DONE

    async def _push(self, url: str, push: Push) -> None:
        await asyncio.sleep(push.delay)
        name = url.rpartition("/")[2]
        async with aiohttp.ClientSession() as http, http.ws_connect(url) as socket:
            for number, event in enumerate(push.events):
                if isinstance(event, str):
                    await socket.send_str(event)
                    continue
                one = {key: value for key, value in event.items() if key != "streamName"}
                stream = {"streamName": event["streamName"].replace("DB", name), "events": [one]}
                await socket.send_json({"messageId": str(number), "timestamp": 1, "streams": [stream]})


class Ahead(selectors.DefaultSelector):
    """Where no socket has anything to say, the time of the next timer has come: nobody waits for it."""

    ahead = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        # what was sent over loopback is there at once, save on a machine that is very busy
        found = super().select(min(timeout, 0.002 if timeout <= 1 else 0.1))
        if not found:
            self.ahead += timeout
        return found


class NobodyWaits(asyncio.SelectorEventLoop):
    """A loop whose clock jumps over what is waited for."""

    def __init__(self) -> None:
        self._sockets = Ahead()
        super().__init__(self._sockets)

    def time(self) -> float:
        return super().time() + self._sockets.ahead


@dataclass
class Stage:
    """Plays cases against a fake gateway, which stays to be looked at."""

    rows = Rows
    refusal = Error
    push = Push

    folder: Path
    gateway: FakeGateway = field(default_factory=lambda: FakeGateway({}))

    def case(self, steps: str, id_: str = "one", dialect: str = "tdengine", timezone: str = "UTC") -> Case:
        path = self.folder / f"{id_}.yaml"
        body = textwrap.indent(textwrap.dedent(steps).strip(), "  ")
        return load.read_case(path, HEAD.format(id=id_, dialect=dialect, timezone=timezone) + body)

    def play(self, steps: str, script: Script, **head: str) -> Outcome:
        (outcome,) = self.play_all([self.case(steps, **head)], script)
        return outcome

    def play_all(
        self,
        cases: Sequence[Case],
        script: Script,
        jobs: int = 8,
        disputes: Mapping[str, Dispute] | None = None,
    ) -> list[Outcome]:
        self.gateway = FakeGateway(script)
        with asyncio.Runner(loop_factory=NobodyWaits) as runner:
            return runner.run(self._play(cases, jobs, disputes or {}))

    async def _play(self, cases: Sequence[Case], jobs: int, disputes: Mapping[str, Dispute]) -> list[Outcome]:
        app = web.Application()
        app.router.add_post("/rest/sql", self.gateway.handle)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            return await play_cases(cases, url, self.gateway, jobs, disputes, lambda outcome: None)
        finally:
            await runner.cleanup()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)
