"""All of IoTDB's triggers: made, dropped and shown here; whoever writes rows asks here."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec
from structlog.typing import FilteringBoundLogger

from api_gateway.context import Context, fresh_uid
from api_gateway.firing import Firing, Spot
from api_gateway.insert_triggers import files, progress
from api_gateway.insert_triggers.before import fire_before
from api_gateway.insert_triggers.depths import Depths
from api_gateway.insert_triggers.follower import Follower
from api_gateway.insert_triggers.instance import Instance, Limits
from api_gateway.insert_triggers.live import Live
from api_gateway.session import Session
from millrace_core.catalog import key_of
from millrace_core.dialect.iotdb import statements as s
from millrace_core.dialect.iotdb.codes import IotdbError, Status
from millrace_core.dialect.iotdb.schema import TABLE, Schema
from millrace_core.dialect.iotdb.triggers.life import Failure, TriggerState, shown, stored_but
from millrace_core.dialect.iotdb.triggers.progress import TriggerProgress
from millrace_core.errors import MillraceError
from millrace_core.model.insert_trigger import DoneUpTo, InsertTrigger
from millrace_core.model.schema import Table
from millrace_core.timeline.precision import milliseconds
from millrace_core.wire.topics import table_of, wal_topic
from millrace_service import Life, passed_over
from millrace_wal import DeadLetters, Message

STOP_SECONDS = 10.0


class InsertTriggers:
    """The :class:`api_gateway.firing.Listener` of the gateway; may be called by many threads."""

    def __init__(self, context: Context) -> None:
        self._context = context
        settings = context.settings
        folder = settings.trigger_dir or settings.data_dir / "triggers"
        self._limits = Limits(
            Path(folder).resolve(), settings.trigger_call_seconds, settings.trigger_memory_mb * 1024 * 1024,
            settings.trigger_tries,
        )  # fmt: skip
        self._lock = threading.Lock()
        self._lives: dict[str, Live] = {}
        self._making: dict[str, InsertTrigger] = {}
        self._followers: dict[str, tuple[Follower, Life]] = {}
        self._depths = Depths()
        self._numbers: dict[str, int] = {}

    @property
    def _logger(self) -> FilteringBoundLogger:
        return self._context.logger

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take up the triggers of the catalog. :raises MillraceError: if the log cannot be read."""
        dead = DeadLetters(self._context.log, "api-gateway", passed_over(self._logger))
        kept = progress.load(self._context.log, dead)
        for told in kept.values():
            for deep in told.deep:
                self._depths.note([Spot(deep.topic, deep.partition, deep.offset, "")], deep.depth)
        for record in list(self._context.catalog.insert_triggers.values()):
            known = kept.get(record.uid)
            instance = Instance(record, self._limits, None if known is None else known.state)
            live = Live(self._context, record, instance)
            if record.dropping:
                self._forget(live)
            else:
                self._activate(live, known)

    def stop(self) -> None:
        followers = list(self._followers.values())
        for follower, _ in followers:
            follower.stopping.set()
        for follower, life in followers:
            life.stop(STOP_SECONDS)
            try:
                follower.last()
            except MillraceError as error:
                self._logger.warning(
                    "a trigger's position could not be saved", trigger=follower.name, reason=str(error)
                )
        for live in self._lives.values():
            live.instance.close()

    def _activate(self, live: Live, kept: TriggerProgress | None) -> None:
        name = live.record.name
        self._numbers[name] = 0 if kept is None else kept.number
        if not live.record.before:
            follower = Follower(self._context.log, self._context, live, self._depths, kept, self._lowest)
            life = Life(follower, self._logger)
            self._followers[name] = follower, life
            life.start()
        with self._lock:
            self._lives[name] = live

    # -- statements ------------------------------------------------------------------------------------------

    def create(self, session: Session, statement: s.CreateTrigger) -> None:
        name = statement.name
        file = files.place_of(self._limits.folder, statement)
        record = InsertTrigger(
            name, fresh_uid(name), statement.stateful, statement.before, str(statement.pattern),
            statement.class_name, dict(statement.attributes), "OPTIMISTIC", session.user, statement.uri, file,
            statement.sha256, created=milliseconds(session.now),
        )  # fmt: skip
        with self._lock:
            if name in self._lives or name in self._making:
                raise IotdbError(
                    Status.CREATE_TRIGGER_ERROR, f"the trigger {name} already exists", statement.position
                )
            self._making[name] = record
        try:
            self._make(record)
        finally:
            with self._lock:
                self._making.pop(name, None)

    def _make(self, record: InsertTrigger) -> None:
        instance = Instance(record, self._limits)
        strategy = instance.create()
        try:
            with self._context.writer.ddl:
                begins = () if record.before else self._ends()
                record = msgspec.structs.replace(record, strategy=strategy, begins=begins)
                self._context.writer.write([record])
        except BaseException:
            instance.close()
            raise
        instance.record = record
        self._activate(Live(self._context, record, instance), None)

    def _ends(self) -> tuple[DoneUpTo, ...]:
        """Where the log ends now: a new trigger never sees earlier rows."""
        schema = Schema(self._context.catalog)
        tables = {wal_topic(db, TABLE): table for db in schema.databases() if (table := schema.table(db))}
        ends = self._context.log.ends_of(list(tables))
        return tuple(DoneUpTo(topic, tables[topic].uid, dict(ends[topic])) for topic in sorted(ends))

    def drop(self, session: Session, statement: s.DropTrigger) -> None:
        with self._lock:
            live = self._lives.get(statement.name)
            if live is None or live.state is TriggerState.DROPPING:
                raise IotdbError(
                    Status.DROP_TRIGGER_ERROR, f"there is no trigger {statement.name}", statement.position
                )
            live.move(TriggerState.DROPPING)
        try:
            # if anything ends the gateway from here on, on_drop is called at the next start
            self._context.writer.write([msgspec.structs.replace(live.record, dropping=True)])
        except MillraceError:
            live.state = TriggerState.ACTIVE  # it may be dropped again
            raise
        self._forget(live)

    def _forget(self, live: Live) -> None:
        name = live.record.name
        followed = self._followers.pop(name, None)
        if followed is not None:
            followed[1].stop()
        why = live.instance.drop()
        if why:
            self._logger.warning("on_drop of a trigger failed", trigger=name, reason=why)
        try:
            self._context.writer.write(remove=[key_of(live.record)])
            self._context.log.append([progress.gone(live.record)])
        except MillraceError as error:
            # the next start drops it again, and calls on_drop again
            self._logger.warning("a dropped trigger could not be deleted", trigger=name, reason=str(error))
        with self._lock:
            self._lives.pop(name, None)

    def shown(self) -> list[tuple[object, ...]]:
        with self._lock:
            rows = [shown(live.record, live.state) for live in self._lives.values()]
            rows += [
                shown(one, TriggerState.INACTIVE)
                for name, one in self._making.items()
                if name not in self._lives
            ]
        return sorted(rows, key=str)

    # -- whoever writes --------------------------------------------------------------------------------------

    def _active(self, *, before: bool) -> list[Live]:
        with self._lock:
            return [
                live for live in self._lives.values()
                if live.record.before is before and live.state is not TriggerState.DROPPING
            ]  # fmt: skip

    def hears(self, messages: Sequence[Message]) -> bool:
        with self._lock:
            lives = list(self._lives.values())
        return any(live.hears(one.topic, (one.key or b"").decode()) for live in lives for one in messages)

    def before(self, written: Sequence[tuple[Table, Message]], firing: Firing) -> list[Message]:
        lives = self._active(before=True)
        return fire_before(self._context, lives, written, firing, self._kept) if lives else []

    def _kept(self, live: Live) -> Message:
        record = live.record
        with self._lock:
            self._numbers[record.name] += 1
            number = self._numbers[record.name]
        return progress.message(TriggerProgress(record.name, record.uid, number, (), live.instance.state))

    def appending(self, firing: Firing) -> AbstractContextManager[object]:
        return self._depths.appending() if firing.depth else nullcontext()

    def lie(self, spots: Sequence[Spot], firing: Firing) -> None:
        if firing.depth:
            lives = self._active(before=False)
            heard = [spot for spot in spots if any(live.hears(spot.topic, spot.device) for live in lives)]
            self._depths.note(heard, firing.depth)
            spots = heard
        if not firing.waits:
            firing.spots += spots

    def after(self, spots: Sequence[Spot], firing: Firing) -> None:
        if not firing.waits:
            return
        until = time.monotonic() + self._context.settings.trigger_wait_seconds
        waiting, own = list(spots), True
        while waiting:
            failures, waiting = self._wait(waiting, until)
            firing.notes += map(str, failures)
            pessimistic = next((one for one in failures if one.pessimistic), None)
            if own and pessimistic is not None:
                raise stored_but(pessimistic)
            own = False

    def _wait(self, spots: Sequence[Spot], until: float) -> tuple[list[Failure], list[Spot]]:
        """The failures of triggers for these spots, which include not having fired by ``until``; and where
        the triggers have written."""
        failures: list[Failure] = []
        further: list[Spot] = []
        for live in self._active(before=False):
            followed = self._followers.get(live.record.name)
            meant = [spot for spot in spots if live.hears(spot.topic, spot.device)]
            if followed is None or not meant:
                continue
            fired = followed[0].wait(meant, until)
            if fired is None:
                seconds = self._context.settings.trigger_wait_seconds
                why = f"it has not fired for the rows within {seconds:g} s; it will keep trying"
                failures.append(Failure(live.record.name, live.record.strategy, why))
                continue
            failures += [one.failure for one in fired if one.failure is not None]
            further += [spot for one in fired for spot in one.spots]
        return failures, list(dict.fromkeys(further))

    def _lowest(self, topic: str, partition: int) -> int:
        """The offset up to which every AFTER trigger that reads the topic has durably passed it."""
        db, _ = table_of(topic)
        found = [
            followed[0].durable.get(topic, (0, {}))[1].get(partition, 0)
            for live in self._active(before=False)
            if live.may_watch(db) and (followed := self._followers.get(live.record.name)) is not None
        ]
        return min(found, default=0)

    def behind(self, topic: str, ends: Mapping[int, int]) -> int:
        """How many messages of a topic the slowest AFTER trigger has not fired for yet."""
        followers = [follower for follower, _ in self._followers.values()]
        return max((one.behind(topic, ends) for one in followers), default=0)

    def bounds(self, topic: str, table: Table) -> list[Mapping[int, int]]:
        found: list[Mapping[int, int]] = []
        if table.name != TABLE:
            return found
        for live in self._active(before=False):
            followed = self._followers.get(live.record.name)
            if followed is not None and live.may_watch(table.db):
                uid, offsets = followed[0].durable.get(topic, (table.uid, {}))
                found.append(offsets if uid == table.uid else {})
        return found
