"""The states of a trigger, and what its failures mean for a request."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from millrace_core.dialect.iotdb.codes import IotdbError, Status
from millrace_core.model.insert_trigger import InsertTrigger, Strategy

MOST_DEPTH = 8
"""The longest chain of triggers in which the writes of one fire the next; one more is a failure."""
ANY_NODE, THIS_NODE = "ALL", "1"
"""NodeId: a stateless trigger is on all nodes, a stateful one on the only gateway."""
SHOWN = ("TriggerName", "Event", "Type", "State", "PathPattern", "ClassName", "NodeId")


class TriggerState(StrEnum):
    """INACTIVE until CREATE TRIGGER answers, DROPPING until DROP TRIGGER does. IoTDB's TRANSFERRING does not
    exist here: there is only one gateway, so nothing moves."""

    INACTIVE = "INACTIVE"
    ACTIVE = "ACTIVE"
    DROPPING = "DROPPING"


_NEXT: dict[TriggerState, frozenset[TriggerState]] = {
    TriggerState.INACTIVE: frozenset({TriggerState.ACTIVE}),
    TriggerState.ACTIVE: frozenset({TriggerState.DROPPING}),
    TriggerState.DROPPING: frozenset(),
}


def moved(state: TriggerState, to: TriggerState) -> TriggerState:
    """The next state. A state that cannot follow changes nothing: a dropped trigger stays dropped."""
    return to if to in _NEXT[state] else state


def shown(trigger: InsertTrigger, state: TriggerState) -> tuple[object, ...]:
    """The row of SHOW TRIGGERS."""
    return (
        trigger.name, "BEFORE_INSERT" if trigger.before else "AFTER_INSERT",
        "STATEFUL" if trigger.stateful else "STATELESS", state.value, trigger.pattern, trigger.class_name,
        THIS_NODE if trigger.stateful else ANY_NODE,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Failure:
    """A firing that failed; ``why``: in the words of the class, or of whatever ended it."""

    trigger: str
    strategy: Strategy
    why: str

    @property
    def pessimistic(self) -> bool:
        return self.strategy == "PESSIMISTIC"

    def __str__(self) -> str:
        return f"the trigger {self.trigger} failed: {self.why}"


def refused(failure: Failure) -> IotdbError:
    """The answer to a request that a BEFORE trigger has failed: its rows are not stored."""
    return IotdbError(Status.TRIGGER_FIRE_ERROR, f"nothing is stored: {failure}")


def stored_but(failure: Failure) -> IotdbError:
    """The answer to a request whose rows are stored, but fired a trigger that failed."""
    return IotdbError(Status.TRIGGER_FIRE_ERROR, f"the rows are stored, but {failure}")


def too_deep(name: str) -> str:
    return (
        f"its rows come from a chain of {MOST_DEPTH} triggers, which is the maximum: does {name} fire itself?"
    )
