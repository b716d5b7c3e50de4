"""What is done with a micro-batch. It is the ledger: once it is done, all that it names is evaluated and
sealed.

Mostly the reader (``ahead``) has evaluated all of it before, and the batch only seals. If the reader is off
(``MILLRACE_JUDGE_AHEAD=0``), a small batch is evaluated here, in the driver. A large one, as an outage or a
flood leaves it, goes to Spark's workers. All ways lead to the same states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from millrace_core.errors import MillraceError
from trigger_svc.evaluator import Evaluator
from trigger_svc.ledger.states import Generation, Positions
from trigger_svc.messages import INNER, apart, is_rows
from trigger_svc.positions import Ends, behind, between
from trigger_svc.settings import TriggerSettings
from trigger_svc.spark.checkpoint import ends_behind
from trigger_svc.spark.query import SINK, connection, in_slots, messages_between
from trigger_svc.spark.session import compiled
from trigger_svc.spark.workers import OUTPUT_SCHEMA, Arrived, judge_slots

SMALL_BYTES = 16 * 1024 * 1024
"""The driver does not evaluate a larger batch: its messages would pass through the driver's Java heap."""
FIRST_GUESS = 1000.0
"""How many bytes a message is taken to have before any was seen."""
LARGE = 4_000_000
"""How many messages workers get at once; more are split into several large batches, one after the other."""
LOOK = 0.5
"""Seconds after which a batch that waits for the reader looks at how much the reader has still to do."""


class BeginAgain(Exception):
    """The query is to begin again, without doing the batch that was to be evaluated. Not a failure."""


@dataclass(slots=True)
class Lengths:
    """What is known about the length of messages: the offsets of a batch only say how many there are.

    ``each``: the guessed bytes of a message.
    """

    each: float = FIRST_GUESS

    def small(self, messages: int) -> bool:
        """Whether that many messages may be collected in the driver."""
        return messages * self.each <= SMALL_BYTES

    def learn(self, size: int, messages: int) -> None:
        """A batch of this many messages had ``size`` bytes."""
        found = size / messages
        # a guess that is too low fills the heap; one that is too high only costs some time
        self.each = max(found, self.each + (found - self.each) / 8)

    def learn_too_long(self) -> None:
        """A batch was too large to be collected: messages are far longer than before."""
        self.each = SMALL_BYTES


class Batches:
    """Does the micro-batches of one run of the query; ``__call__`` is what ``start_query`` wants.

    ``needs_others``: says whether the query should read other topics than it does. ``done``: the last batch
    that was sealed; ``failure``: the log's last error, kept here because Spark only passes on its text.
    ``leaves``: from now on no batch is done; the next one ends the query with :class:`BeginAgain`.
    """

    def __init__(
        self,
        settings: TriggerSettings,
        evaluator: Evaluator,
        needs_others: Callable[[], bool] = lambda: False,
    ) -> None:
        self._settings, self._evaluator, self._needs_others = settings, evaluator, needs_others
        self._lengths = Lengths()
        self.leaves = False
        self.done = -1
        self.failure: MillraceError | None = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Evaluate those messages (columns of INPUT) of a batch that have not been evaluated, and seal what
        has been.

        :raises BeginAgain: if the query is to end; nothing was done.
        """
        self.leaves = self.leaves or self._needs_others()
        if self.leaves:
            raise BeginAgain("no failure: the query begins again, to read other topics")
        try:
            self._evaluator.ready()
            self._do(frame, batch)
        except MillraceError as error:
            self.failure = error
            raise

    def leave(self) -> None:
        """End the query at its next batch, and make one that waits end now."""
        self.leaves = True
        with self._evaluator.lock:
            self._evaluator.lock.notify_all()

    def _do(self, frame: DataFrame, batch: int) -> None:
        evaluator, ends = self._evaluator, ends_behind(self._settings.checkpoint, batch)
        if evaluator.pending() is not None:
            self._in_workers(frame.sparkSession, None, evaluator.pending() or {})
        while not self.leaves:
            with evaluator.lock:
                evaluator.ready()
                evaluator.follow_topics()
                rows = behind(evaluator.positions, ends, rows=True)
            if self._too_many(rows):
                self._large(frame, batch, ends)
            elif self._settings.judge_ahead:
                if evaluator.much_unsealed:
                    evaluator.seal()
                if self._reached(ends):
                    break
            elif not self._small(frame, batch, ends):
                break
        evaluator.seal()
        self.done = batch
        if self._settings.judge_ahead:
            self._rest()

    def _too_many(self, rows: int) -> bool:
        """Whether this many messages must go to Spark's workers."""
        if self._settings.judge_ahead:
            return rows > self._settings.trigger_backlog
        return rows > self._settings.trigger_small_batch or not self._lengths.small(rows)

    def _reached(self, ends: Ends) -> bool:
        """Wait for the reader, until there is much to seal, or for a while; returns whether it has got there,
        or this should stop waiting."""
        evaluator = self._evaluator
        with evaluator.lock:
            if evaluator.stands_back:
                evaluator.stands_back = False
                evaluator.lock.notify_all()

            def there() -> bool:
                return self.leaves or not behind(evaluator.positions, ends)

            evaluator.lock.wait_for(lambda: evaluator.much_unsealed or there(), LOOK)
            return there()

    def _rest(self) -> None:
        """Wait while everything evaluated is sealed, so that an idle query asks for no offsets."""
        evaluator = self._evaluator
        with evaluator.lock:
            evaluator.lock.wait_for(lambda: self.leaves or evaluator.positions != evaluator.sealed)

    # ------------------------------------------------------------------ in the driver

    def _small(self, frame: DataFrame, batch: int, ends: Ends) -> bool:
        """Evaluate a small batch; returns whether there was something to do. Then there may be more, for
        streams that begin in it."""
        evaluator = self._evaluator
        if not behind(evaluator.positions, ends):
            return False
        _, found = between(evaluator.positions, ends, list(evaluator.positions))
        unread = self._unread(frame, batch, ends)
        try:
            table = unread.toArrow()
        except PySparkException as error:
            if "maxResultSize" not in str(error):
                raise
            self._lengths.learn_too_long()
            return True
        if table.num_rows:
            self._lengths.learn(table.nbytes, table.num_rows)
        # rows are passed over before control records take effect: if one has a topic read from another place
        # than before, what is there must not be passed over
        for part, holds_rows in zip(apart(Arrived(table).take()), (True, False), strict=True):
            evaluator.evaluate(part)
            evaluator.pass_over({topic: end for topic, end in found.items() if is_rows(topic) is holds_rows})
        return True

    def _unread(self, frame: DataFrame, batch: int, ends: Ends) -> DataFrame:
        """The part of a batch that has not been evaluated; the batch itself, if that is all of it."""
        positions = self._evaluator.positions
        before = ends_behind(self._settings.checkpoint, batch - 1) if batch else None
        starts, found = between(positions, ends, list(positions))
        if before is not None and all(
            before.get(topic, {}).get(partition, 0) == start
            for topic, offsets in starts.items()
            for partition, start in offsets.items()
        ):
            return frame.filter(F.col("topic").isin(list(found)))
        return messages_between(frame.sparkSession, self._settings, starts, found)

    # ------------------------------------------------------------------ in workers

    def _large(self, frame: DataFrame, batch: int, ends: Ends) -> None:
        """Let workers evaluate the rows of a large batch. What goes to all slots is evaluated here, after the
        last of the rows."""
        evaluator = self._evaluator
        with evaluator.lock:
            evaluator.ready()
            rows = [topic for topic in evaluator.positions if is_rows(topic)]
            starts, found = between(evaluator.positions, ends, rows)
            count = behind(starts, found)
            whole = count <= LARGE
            if not whole:
                found = _part(starts, found, LARGE / count)
            unread = self._unread(frame, batch, ends) if whole else None
            self._in_workers(frame.sparkSession, unread, found)
            if whole:
                evaluator.catch_up(ends)

    def _in_workers(self, session: SparkSession, unread: DataFrame | None, ends: Positions) -> None:
        settings, evaluator = self._settings, self._evaluator
        slots = settings.slots

        def run(starts: Positions, before: Generation, number: int) -> None:
            found = messages_between(session, settings, starts, ends) if unread is None else unread
            with compiled(session):
                (
                    in_slots(found.filter(~F.col("topic").isin(list(INNER))), slots)
                    .repartitionById(settings.trigger_workers, F.col("slot"))
                    .mapInArrow(
                        judge_slots(slots, evaluator.states, before, number, settings.trigger_most_held),
                        OUTPUT_SCHEMA,
                    )
                    .write.format("kafka")
                    .options(**SINK, **connection(settings))
                    .save()
                )

        evaluator.evaluate_large(ends, run)


def _part(starts: Positions, ends: Positions, share: float) -> Positions:
    """For each partition, the end of about that share of what lies between start and end."""
    return {
        topic: {
            p: min(end, starts[topic][p] + ceil((end - starts[topic][p]) * share)) for p, end in e.items()
        }
        for topic, e in ends.items()
    }
