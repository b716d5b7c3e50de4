"""What is killed and paused when. Pure: a seed always gives the same schedule."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

Kind = Literal["kill", "pause"]

VICTIMS: dict[str, int] = {
    "broker": 3,
    "trigger-svc": 3,
    "trigger-svc/jvm": 2,
    "trigger-svc/workers": 1,
    "calc-svc": 3,
    "calc-svc/jvm": 2,
    "calc-svc/workers": 1,
    "notify-svc": 2,
    "api-gateway": 2,
}
"""Victim -> how often it is chosen beside the others. ``part/jvm`` and ``part/workers`` are processes below
the part: Spark's JVM, and the Python workers that it has started."""
CALM = 4.0
"""Seconds of load before the first disturbance."""
PAUSES: tuple[float, ...] = (2.0, 5.0, 12.0)
"""How long pauses are at most, each as likely: around the seconds at which clients lose patience."""
SIDE_BY_SIDE = 0.25
"""The share of disturbances that come less than a second behind the one before."""
FIRST_AGAIN = 12.0
"""Seconds before the same part is killed again: one that is still starting is not interesting to kill."""


class Disturbance(NamedTuple):
    """SIGKILL, or SIGSTOP with SIGCONT ``seconds`` later, ``at`` seconds after the load has begun."""

    at: float
    kind: Kind
    victim: str
    seconds: float = 0.0

    @property
    def part(self) -> str:
        """The part of the stack that the victim belongs to."""
        return self.victim.split("/")[0]

    @property
    def end(self) -> float:
        """When the disturbance itself is over; what it did may take longer to heal."""
        return self.at + self.seconds


def plan(seed: int, seconds: float, spare: Collection[str] = ()) -> list[Disturbance]:
    """Disturbances within ``seconds`` of load, in order; none of the victims or parts in ``spare``."""
    rng = random.Random(f"schedule {seed}")
    found: list[Disturbance] = []
    killed: dict[str, float] = {}
    at = CALM + rng.uniform(0, 4)
    while at < seconds:
        one = _disturbance(rng, at)
        if at - killed.get(one.part, -FIRST_AGAIN) >= FIRST_AGAIN:
            found.append(one)
            if one.kind == "kill":
                killed[one.part] = at
        at += rng.uniform(0.1, 0.9) if rng.random() < SIDE_BY_SIDE else rng.uniform(5, 12)
    return [one for one in found if not {one.victim, one.part} & set(spare)]


def _disturbance(rng: random.Random, at: float) -> Disturbance:
    (victim,) = rng.choices(list(VICTIMS), weights=list(VICTIMS.values()))
    if rng.random() < 0.65:
        return Disturbance(round(at, 2), "kill", victim)
    return Disturbance(round(at, 2), "pause", victim, round(rng.uniform(0.5, 1.0) * rng.choice(PAUSES), 2))


def lines(schedule: Sequence[Disturbance]) -> list[str]:
    """The schedule to be read."""
    return [
        f"{one.at:7.2f} s  {one.kind:<5}  {one.victim}" + (f" for {one.seconds:g} s" if one.seconds else "")
        for one in schedule
    ]
