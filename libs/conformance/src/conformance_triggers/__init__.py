"""The trigger classes that cases name (FORMAT.md). The runner copies this package into the stack's trigger
folder, so it depends on ``millrace_triggers`` alone."""

from __future__ import annotations

from collections.abc import Mapping

from millrace_triggers import OPTIMISTIC, PESSIMISTIC, Tablet, Trigger

__all__ = ["Reject", "RunningCount", "ThresholdAlert"]
NUMBERS = ("INT32", "INT64", "FLOAT", "DOUBLE")


def _given(attributes: Mapping[str, str], name: str) -> str:
    if not attributes.get(name):
        raise ValueError(f'the attribute "{name}" is missing')
    return attributes[name]


class ThresholdAlert(Trigger):
    """Writes (time, value) to ``into`` for each value above ``limit``."""

    def validate(self, attributes: Mapping[str, str]) -> None:
        float(_given(attributes, "limit"))
        _given(attributes, "into")

    def on_create(self, attributes: Mapping[str, str]) -> None:
        self._limit, self._into = float(attributes["limit"]), attributes["into"]

    def fire(self, tablet: Tablet) -> bool:
        for name in tablet.measurements:
            if tablet.type(name) in NUMBERS:
                values = tablet.values(name)
                above = tablet.present(name) & (values > self._limit)
                if above.any():
                    tablet.write(self._into, tablet.times[above], values[above])
        return True


class RunningCount(Trigger):
    """Writes (time, rows seen so far) to ``into`` for each row."""

    def validate(self, attributes: Mapping[str, str]) -> None:
        _given(attributes, "into")

    def on_create(self, attributes: Mapping[str, str]) -> None:
        self._into, self._count = attributes["into"], 0

    def state(self) -> object:
        return self._count

    def restore(self, state: object) -> None:
        self._count = state if isinstance(state, int) else 0

    def fire(self, tablet: Tablet) -> bool:
        counts = list(range(self._count + 1, self._count + len(tablet) + 1))
        self._count += len(tablet)
        tablet.write(self._into, tablet.times, counts)
        return True


class Reject(Trigger):
    """Raises on a value below ``min``; ``strategy``: the failure strategy that the class answers."""

    def validate(self, attributes: Mapping[str, str]) -> None:
        float(_given(attributes, "min"))
        if _given(attributes, "strategy") not in (OPTIMISTIC, PESSIMISTIC):
            raise ValueError(f'"strategy" must be {OPTIMISTIC} or {PESSIMISTIC}')

    def on_create(self, attributes: Mapping[str, str]) -> None:
        self._min, self._strategy = float(attributes["min"]), attributes["strategy"]

    def failure_strategy(self) -> str:
        return self._strategy

    def fire(self, tablet: Tablet) -> bool:
        for name in tablet.measurements:
            if tablet.type(name) in NUMBERS:
                below = tablet.present(name) & (tablet.values(name) < self._min)
                if below.any():
                    raise ValueError(
                        f"{name} is {tablet.values(name)[below][0]}, but must be at least {self._min}"
                    )
        return True
