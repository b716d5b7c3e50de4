"""A stream of windows in a slot: live rows, changes of closed windows, history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from millrace_core.trigger.groups.columns import Ints
from millrace_core.trigger.groups.family import Family
from millrace_core.trigger.groups.groups import Groups
from millrace_core.trigger.rows.intake import Messages, TableRows, arrivals
from millrace_core.trigger.stream.changes import Changes
from millrace_core.trigger.stream.history import History
from millrace_core.trigger.stream.in_slot import StreamInSlot
from millrace_core.trigger.stream.judging import Judging
from millrace_core.trigger.stream.partial import Partial
from millrace_core.trigger.stream.routes import Received
from millrace_core.trigger.stream.state import Life
from millrace_core.trigger.stream.telling import Output
from millrace_core.trigger.stream.versions import Passed, Versions, in_turns
from millrace_core.wire.control import Offsets, Tick
from millrace_core.wire.recalc import Handover, Taken


class Stream(StreamInSlot):
    """``history`` holds live rows until the past has been told; ``judging`` evaluates them; ``changes``
    requests that closed windows be cut again; ``partial`` requests rows of which only a part came."""

    def __init__(self, life: Life, slot: int) -> None:
        super().__init__(life, slot)
        self.judging = Judging(self.state, self.telling)
        self.changes = Changes(self.state, self.telling, self.judging, self.routes)
        self.history = History(self.state, self.telling, self.judging, self.changes)
        self.partial = Partial(self.state, self.telling, self.history, self.changes, self.routes)

    # ------------------------------------------------------------------ what it is

    @property
    def lets_go(self) -> bool:
        """Whether it holds live rows that it lets go of when it is started again, because they are then
        requested."""
        return self.history.waits_for_untreated

    # ------------------------------------------------------------------ life

    def begin(self, slots: int, at: int) -> None:
        """It was defined at processing time ``at`` (ns), in a deployment of that many slots."""
        self.history.begin(slots, at)

    def stop(self, seen: Offsets, origins: Mapping[str, Offsets], taken: Taken) -> None:
        """It no longer evaluates. ``seen``: what its slot has seen of the trigger table; ``origins``: about
        where the sources of a virtual table are; ``taken``: what this slot has taken from them."""
        self.history.stop(seen, origins, taken)

    def resume(self, live_from: Offsets, epoch: int, at: int) -> None:
        """It runs (again), for rows behind ``live_from``, since processing time ``at`` (ns)."""
        self.state.resume(live_from, epoch)
        if self.definition.fills_history:
            self.life.newest = {}  # what was written meanwhile may be newer

    def catch_up(
        self, untreated: bool, origins: Mapping[str, Offsets], at: int, family: Family
    ) -> Iterator[Output]:
        """As :meth:`History.catch_up`."""
        yield from self.history.catch_up(untreated, origins, at, family)
        yield from self.partial.ask_again(self.life.live_from, at)

    def recalculate(self, first: int, last: int | None, seen: Offsets, at: int) -> Iterator[Output]:
        """As :meth:`History.recalculate`."""
        return self.history.recalculate(first, last, seen, at)

    def take_outgoing(self) -> list[Output]:
        """What it has to send, other than the results of rows and ticks."""
        return self.history.take_outgoing()

    # ------------------------------------------------------------------ tables

    def meet(self, name: bytes, family: Family) -> None:
        """A child table of this name is there."""

    def part(self, name: bytes) -> None:
        """The child table of this name no longer exists."""
        self.state.end(name)

    # ------------------------------------------------------------------ rows

    def wants(self, messages: Messages) -> Any:
        """bool[messages]: those that trigger this stream."""
        return self.routes.wants(messages)

    def judge_table(
        self, rows: TableRows, group: Ints, messages: Messages, seen: Offsets
    ) -> Iterator[Output]:
        """Evaluate rows of the stream's tables here, or send them on to their groups' slots."""
        arrived, place = arrivals(rows, group, self.definition.windower.signals)
        message = rows.message[place]
        written = messages.timestamp[message]
        if self.life.holding and rows.absent and not self.definition.drops_disorder:
            arrived.partial = rows.partial(self.definition.signals)[place]
        if self.definition.drops_late:
            arrived.log = messages.partition[message], messages.offset[message]
        if self.definition.home:
            yield from self.history.take(arrived, written, seen)
        else:
            yield from self.routes.send_on(
                arrived, written, seen, lambda row: messages.key_of(int(message[row])) or b""
            )

    def judge_regrouped(self, received: Received) -> Iterator[Output]:
        """Evaluate what other slots sent; deletes take effect at their place among the rows."""
        begin = 0
        for end, (_, message) in enumerate(received):
            if message.deleted is None:
                continue
            yield from self._take_regrouped(received[begin:end])
            begin = end + 1
            for mine in self.routes.unseen([received[end]]):
                if mine.epoch == self.life.epoch:
                    yield from self.changes.delete_regrouped(mine)
        yield from self._take_regrouped(received[begin:])

    def _take_regrouped(self, received: Received) -> Iterator[Output]:
        rows = self.routes.rows_of(received)
        if rows is not None:
            yield from self.history.take(*rows, self.life.seen)

    def missed(self, messages: Messages) -> Any:
        """As :meth:`Routes.missed`."""
        return self.routes.missed(messages)

    def delete(
        self, name: bytes, span: tuple[int, int], written: int, seen: Offsets, family: Family,
        *, missed: bool = False,
    ) -> Iterator[Output]:  # fmt: skip
        """As :meth:`Changes.delete`."""
        return self.changes.delete(name, span, written, seen, family, missed=missed)

    def judge_versions(self, passed: Passed, messages: Messages, seen: Offsets) -> Iterator[Output]:
        """Evaluate rows, and take out what other versions of theirs have taken out, each at its place in the
        log. ``messages``: those that came."""
        for rows, versions in in_turns(passed, shared=self.definition.clock.shared):
            yield from self.judge_table(rows, passed.group, passed.messages, seen)
            yield from self.changes.lose_versions(versions, messages, seen)
        self.state.passing = Groups()
        yield from self.partial.ask(passed.unnamed, passed.whole, seen)

    def miss_versions(self, versions: Versions, messages: Messages, seen: Offsets) -> Iterator[Output]:
        """As :meth:`Changes.miss_versions`."""
        return self.changes.miss_versions(versions, messages, seen)

    def take_past(self, message: Handover, at: int, seen: Offsets) -> Iterator[Output]:
        """As :meth:`History.take_past`, or :meth:`Partial.take`."""
        return (
            self.partial.take(message, at, seen)
            if message.asked
            else self.history.take_past(message, at, seen)
        )

    # ------------------------------------------------------------------ processing time

    @property
    def due(self) -> int:
        """The first processing time (ns) such that a tick that reaches it may mean something to it."""
        return self.judging.due

    def on_tick(self, tick: Tick, seen: Offsets) -> Iterator[Output]:
        """Processing time moved on; ``seen``: offsets of the trigger table that this slot has seen."""
        return self.judging.on_tick(tick, seen)

    # ------------------------------------------------------------------ the end of a batch, and state

    def sweep(self) -> None:
        """Forget the groups that ended."""
        self.state.held.grow(len(self.groups))
        super().sweep()

    def _dump_more(self) -> Any:
        more = [self.state.delays.dump() if self.definition.timer else None, self.state.held.dump()]
        if self.definition.showing is not None:
            more.append(self.state.shown.dump())
        return more

    def _load_more(self, data: Any) -> None:
        if isinstance(data, list) and len(data) in (2, 3):
            delays, held, *shown = data
            self.state.held.load(held)
            for one in shown:
                self.state.shown.load(one)
        else:  # a state from before history existed
            delays = data
        if delays is not None:
            self.state.delays.load(delays)
