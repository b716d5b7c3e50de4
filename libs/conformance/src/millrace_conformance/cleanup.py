"""Drops what a case leaves: streams, continuous queries and triggers, then databases, then users."""

from __future__ import annotations

import re
from collections.abc import Iterable

from millrace_conformance.gateway import Broken, Refused
from millrace_conformance.steps import Play, column

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*")


def quoted(name: str) -> str:
    """The name as SQL writes it."""
    return name if _PLAIN.fullmatch(name) else f"`{name}`"


async def clean_up(play: Play) -> list[str]:
    """Drops everything with the case's name; returns what could not be dropped, with the reason."""
    problems: list[str] = []
    clean = {"tdengine": _tdengine, "tdengine-legacy": _legacy, "iotdb": _iotdb}[play.case.dialect]
    try:
        await clean(play, problems)
    except (Refused, Broken) as error:
        problems.append(str(error))
    return problems


async def _tdengine(play: Play, problems: list[str]) -> None:
    databases = await _databases(play, play.db)
    for db in databases:
        streams = await _names(play, f"SHOW {quoted(db)}.STREAMS", "stream_name")
        await _drop(play, [f"DROP STREAM IF EXISTS {quoted(db)}.{quoted(one)}" for one in streams], problems)
    await _drop(play, [f"DROP DATABASE IF EXISTS {quoted(db)}" for db in databases], problems)
    await _users(play, problems)


async def _legacy(play: Play, problems: list[str]) -> None:
    streams = await _names(play, "SHOW STREAMS", "stream_name")
    ours = [one for one in streams if one.startswith(play.db)]
    await _drop(play, [f"DROP STREAM IF EXISTS {quoted(one)}" for one in ours], problems)
    databases = await _databases(play, play.db)
    await _drop(play, [f"DROP DATABASE IF EXISTS {quoted(db)}" for db in databases], problems)
    await _users(play, problems)


async def _iotdb(play: Play, problems: list[str]) -> None:
    for listing, drop in (("SHOW CQS", "DROP CQ"), ("SHOW TRIGGERS", "DROP TRIGGER")):
        ours = [name for name in await _names(play, listing) if play.db in name]
        await _drop(play, [f"{drop} {name}" for name in ours], problems)
    databases = await _databases(play, f"root.{play.db}")
    await _drop(play, [f"DELETE DATABASE {db}" for db in databases], problems)


async def _users(play: Play, problems: list[str]) -> None:
    users = await _names(play, "SELECT name FROM information_schema.ins_users", "name")
    await _drop(play, [f"DROP USER {quoted(one)}" for one in users if one.startswith(play.db)], problems)


async def _databases(play: Play, prefix: str) -> list[str]:
    return [name for name in await _names(play, "SHOW DATABASES", "name") if name.startswith(prefix)]


async def _names(play: Play, listing: str, name: str = "") -> list[str]:
    answer = await play.sql(listing)
    at = column(answer, name)
    return [str(row[at]) for row in answer.rows]


async def _drop(play: Play, statements: Iterable[str], problems: list[str]) -> None:
    for statement in statements:
        try:
            await play.sql(statement)
        except (Refused, Broken) as error:
            problems.append(f"{statement}: {error}")
