"""Plays many cases on one running stack: side by side where possible, alone where they must be."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence

from millrace_conformance.case import Case, split, substitute
from millrace_conformance.cleanup import clean_up
from millrace_conformance.gateway import Gateway
from millrace_conformance.inbox import Inboxes
from millrace_conformance.load import Dispute
from millrace_conformance.report import Failure, Outcome
from millrace_conformance.steps import Failed, Outside, Play, play_step

Report = Callable[[Outcome], None]


def fresh_name() -> str:
    """A database name that no other run uses, and that no other name begins with."""
    return f"c{uuid.uuid4().hex[:10]}"


async def play_case(case: Case, gateway: Gateway, inboxes: Inboxes, outside: Outside) -> Outcome:
    """Plays one case in a fresh database and cleans up, failed or not."""
    clock = asyncio.get_running_loop().time
    began = clock()
    db = fresh_name()
    address, inbox = inboxes.open(db)
    play = Play(case, db, gateway, inbox, outside)
    try:
        failure = await _play_steps(play, address)
    finally:
        left = await clean_up(play)
    return Outcome(case, db, clock() - began, failure, tuple(left))


async def _play_steps(play: Play, address: str) -> Failure | None:
    for number, raw in enumerate(play.case.steps, 1):
        step = substitute(raw, {"db": play.db, "notify": address})
        try:
            await play_step(play, step)
        except Failed as failed:
            return Failure(number, step, failed.expected, failed.came)
        except Exception as error:  # the runner's own fault must not end the other cases
            return Failure(number, step, "the runner to work", f"{type(error).__name__}: {error}")
    return None


async def play_cases(
    cases: Sequence[Case],
    url: str,
    outside: Outside,
    jobs: int,
    disputes: Mapping[str, Dispute],
    report: Report,
) -> list[Outcome]:
    """Plays all cases, ``jobs`` of them side by side, and reports each as it ends."""
    outcomes: list[Outcome] = []
    together, alone = split(list(cases))
    free = asyncio.Semaphore(jobs)
    async with Gateway(url) as gateway, Inboxes() as inboxes:

        async def one(case: Case) -> None:
            async with free:
                outcome = await play_case(case, gateway, inboxes, outside)
            if case.id in disputes:
                dispute = disputes[case.id]
                outcome = _disputed(outcome, dispute)
            outcomes.append(outcome)
            report(outcome)

        async with asyncio.TaskGroup() as group:
            for case in together:
                group.create_task(one(case))
        for case in alone:
            await one(case)
    return outcomes


def _disputed(outcome: Outcome, dispute: Dispute) -> Outcome:
    reason = f"{dispute.reason} Seed: {dispute.seed}"
    return Outcome(outcome.case, outcome.db, outcome.seconds, outcome.failure, outcome.left, reason)
