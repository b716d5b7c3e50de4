"""One Spark job for the queries of several streams that wait.

A small job costs Spark far more than the rows it computes: it is made, its task is started, its result is
fetched. So the RDDs of all queries that wait become one, and one task computes them one after the other. A
query that comes alone starts at once; those that come while a shared job runs wait for the next one.

What of that Spark promises to nobody is in ``jvm.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol

from calc_svc.spark.jvm import Jvm

TASKS = 1
"""Each task of a job reads the plans of all its queries, so that a second one doubles that."""


class Query(Protocol):
    """A query that is ready to be run."""

    @property
    def settings(self) -> Hashable:
        """What its tasks read of the session's settings: only queries with the same share a job."""

    @property
    def properties(self) -> Any:
        """The same for Spark: a job's local properties."""

    @property
    def shares(self) -> bool:
        """Whether it can share a job."""

    def batches(self) -> Any:
        """The RDD that gives its result, for a job of its own."""

    def parts(self) -> Any:
        """The same with one element, an array of all that it gives; only of a query that shares."""


@dataclass(slots=True, eq=False)
class _Waiting:
    query: Query
    shares: bool
    turn: threading.Event = field(default_factory=threading.Event)
    """It is done, failed, or its thread is to run the ``job``."""
    job: list[_Waiting] | None = None
    found: Any = None
    failed: bool = False


class SharedJobs:
    """The jobs of one pool. Thread-safe.

    Up to ``at_once`` run side by side, but none beside one that several queries share: two would be of fewer
    each, and take more time for the same.
    """

    def __init__(self, jvm: Jvm, at_once: int) -> None:
        self._jvm = jvm
        self._lock = threading.Lock()
        self._at_once = at_once
        self._running = 0
        self._shared = False
        self._waiting: list[_Waiting] = []

    def collect(self, query: Query, alone: bool = False) -> list[bytes]:
        """The batches of the query's result, from a job that it may share with others.

        A shared job that fails says nothing: each of its queries is run by itself then, as with ``alone``.

        :raises Py4JError: (also Spark's own errors) what its own job fails with.
        """
        mine = _Waiting(query, query.shares and not alone)
        with self._lock:
            self._waiting.append(mine)
            self._begin()
        mine.turn.wait()
        if mine.job is not None:
            try:
                self._run(mine.job)
            finally:
                with self._lock:
                    self._running -= 1
                    self._shared = self._shared and len(mine.job) == 1
                    self._begin()
        if mine.failed:
            return self.collect(query, alone=True)
        return [bytes(batch) for batch in mine.found]

    def _begin(self) -> None:
        """Where there is room, the first that waits runs all that may share its job."""
        while self._waiting and self._running < self._at_once and not self._shared:
            first = self._waiting[0]
            first.job = [one for one in self._waiting if one is first or _may_share(one, first)]
            self._waiting = [one for one in self._waiting if one not in first.job]
            self._running += 1
            self._shared = len(first.job) > 1
            first.turn.set()

    def _run(self, job: list[_Waiting]) -> None:
        """:raises Py4JError: (also Spark's own errors) where it is the job of one query."""
        first = job[0]
        if len(job) == 1:
            with self._jvm.job(first.query.properties):
                first.found = first.query.batches().collect()
            return
        for one in job:
            one.failed = True
        try:
            with self._jvm.job(first.query.properties):
                found = self._jvm.union([one.query.parts() for one in job], TASKS).collect()
            for one, parts in list(zip(job, found, strict=True)):
                one.found, one.failed = parts, False
        # what failed is told by its own job
        except Exception:  # noqa: S110
            pass  # whatever it is, a query's own job says it
        finally:
            for one in job[1:]:
                one.turn.set()


def _may_share(one: _Waiting, first: _Waiting) -> bool:
    return one.shares and first.shares and one.query.settings == first.query.settings
