"""Rows that rewrite others, where the row alone does not show what to evaluate.

An update is disorder (seed 000). But a version that PRE_FILTER leaves out takes the row out of its window,
and a version that names only some columns keeps the stored values of the other cells. In both cases the slot
knows only the time; the stored rows know the rest.

A row that does not name what the keys of groups read may even belong to a group that the slot has never seen.
Its stored version is requested (``stream.partial``).

Where rows are sent on to their group's slot, the slot of the table does not know what the group has
evaluated. It remembers the newest time of each table: only a row that is not newer can rewrite another. The
time of such a row is sent on, and the group's slot knows whether it is late.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from millrace_core.trigger.groups.columns import Ints, starts_of
from millrace_core.trigger.groups.watermark import NEVER, RANGE, Arrivals, Bools, running_newest
from millrace_core.trigger.rows.intake import Messages, TableRows
from millrace_core.trigger.rows.keys import divide
from millrace_core.trigger.stream.definition import Definition
from millrace_core.trigger.stream.past import Gone, Held
from millrace_core.trigger.stream.state import StreamState


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of rows that cannot be evaluated as they are: place of the ``group``, ``ts``, whether a column
    is ``unnamed``, when ``written`` (ms), and the index of the ``message``."""

    group: Ints
    ts: Ints
    unnamed: Bools
    written: Ints
    message: Ints

    def by_group(self) -> Iterator[tuple[int, list[tuple[int, bool, int]]]]:
        """(place, [(ts, unnamed, written)]), by time."""
        order = np.lexsort((self.ts, self.group))
        columns = (self.group, self.ts, self.unnamed, self.written)
        rows = zip(*(column[order].tolist() for column in columns), strict=True)
        found: dict[int, list[tuple[int, bool, int]]] = {}
        for group, ts, unnamed, written in rows:
            found.setdefault(group, []).append((ts, unnamed, written))
        yield from found.items()

    def only(self, wanted: Bools) -> Versions:
        return Versions(
            self.group[wanted], self.ts[wanted], self.unnamed[wanted], self.written[wanted],
            self.message[wanted],
        )  # fmt: skip


NONE = np.empty(0, dtype=np.int64)
NO_VERSIONS = Versions(NONE, NONE, NONE.astype(bool), NONE, NONE)


class Unnamed(NamedTuple):
    """A row whose group only the stored rows know: its table, when it was ``written`` (ms), and where."""

    table: bytes
    ts: int
    written: int
    partition: int
    offset: int


class Passed(NamedTuple):
    """``rows``: the rows to evaluate, from ``messages``; ``group``: the groups of these messages; ``came``:
    for each row the message that it came in. ``versions``: rows that rewrite others but cannot be evaluated,
    from the messages that came. ``unnamed``: the rows to request. ``whole``: (table, time) of the rows that
    have been rewritten whole."""

    rows: TableRows
    group: Ints
    messages: Messages
    came: Ints
    versions: Versions
    unnamed: Sequence[Unnamed] = ()
    whole: Collection[tuple[bytes, int]] = ()


def passing(
    state: StreamState, rows: TableRows, group: Ints, messages: Messages, *, missed: bool = False
) -> Passed:
    """What is to be evaluated; rows that PRE_FILTER leaves out are counted. ``group[m]``: the stream's group
    of message ``m``, or, if keys divide its rows, what its table is grouped as; -1 for messages that do not
    take part. ``missed``: the messages came while the stream was stopped; then no rows are requested."""
    if state.definition.keys:
        return _by_keys(state, rows, group, messages, missed=missed)
    judged, versions = _passing(state, rows, group, messages)
    return Passed(judged, group, messages, judged.message, versions)


MOST_TURNS = 8
"""A turn costs about as much as a small batch, and each may request that windows be cut again."""


def in_turns(passed: Passed, *, shared: bool) -> Iterator[tuple[TableRows, Versions]]:
    """Rows, and the versions that came behind these: each group's in the order of the log, those of one
    message by time. So what a version takes out is gone when later rows close its window.

    There are as many turns as the group with most versions needs. A batch that needs more than
    ``MOST_TURNS``, a backlog, has the rest of its rows and versions in the last one: what then closes with a
    row that was left out later is told again, and a version is passed over if a row of its time came behind
    it. ``shared``: the rows of one group close windows of others, so all are in one order.
    """
    rows, versions = passed.rows, passed.versions
    count, more = len(rows.ts), len(versions.ts)
    if not count or not more:
        yield rows, versions
        return
    group = np.concatenate((passed.group[rows.message], versions.group)) * (not shared)
    came = np.concatenate((passed.came, versions.message))
    takes = np.arange(count + more) >= count  # a version comes behind the row of its own time
    order = np.lexsort((takes, np.concatenate((rows.ts, versions.ts)), came, group))
    turn = np.empty(count + more, dtype=np.int64)
    turn[order] = _turns_of(group[order], takes[order])
    many = int(turn.max()) >= MOST_TURNS
    turn = np.minimum(turn, MOST_TURNS - 1)
    for number in range(int(turn.max()) + 1):
        mine = turn[count:] == number
        if many and number == MOST_TURNS - 1 and not shared:
            mine &= versions.unnamed | ~_came_again(passed)
        yield rows.only(turn[:count] == number), versions.only(mine)


def _turns_of(group: Ints, takes: Bools) -> Ints:
    """In which turn each is, in the order of each group (``group`` ascends); ``takes``: whether it is a
    version. A turn of a group ends where one of its rows follows a version."""
    first = starts_of(group)
    ends = takes.copy()
    ends[1:] = takes[:-1] & ~takes[1:]
    ends[first] = False
    so_far = np.cumsum(ends)
    return so_far - np.repeat(so_far[first], np.diff(np.append(first, len(group))))


def held_in_turns(state: StreamState, held: Held) -> Iterator[tuple[Arrivals, Ints, Versions]]:
    """Rows that were held, when each was written, and what versions that came behind these took out of their
    groups: each group's in the order in which they came. As many turns as their batches would have had."""
    if held.lost.any() or held.partial.any():
        # what is newer than all that its group had when it came has rewritten nothing
        rewrites = _rewrites(state, held.rows.ts, held.rows.group, ~held.lost)
        known = ~held.lost | rewrites
        held = replace(held, lost=held.lost | (held.partial & rewrites)).only(known)
    turn = _turns_of(held.rows.group, held.lost)
    for number in range(int(turn.max(initial=-1)) + 1):
        came, gone = held.only((turn == number) & ~held.lost), held.only((turn == number) & held.lost)
        yield came.rows, came.written, _versions_of(gone)


def remaining(state: StreamState, held: Held, gone: Sequence[Gone]) -> tuple[Arrivals, Ints, Versions]:
    """What is left of rows that were held, in order of time within each group, and when each was written;
    and the times at which only the stored rows know what their groups have now. Those of late rows are among
    them: evaluated one after the other, they would cut windows that no moment had."""
    order = np.lexsort((held.rows.ts, held.rows.group))  # those of one time stay in order of arrival
    expired = np.zeros(len(order), dtype=bool)
    expired[~held.lost] = state.definition.clock.expired_among(state.clock, held.rows.only(~held.lost))
    state.count("expired", int(expired.sum()))
    held = held.only(order)
    group, ts, left_out = held.rows.group, held.rows.ts, held.lost & ~held.partial
    taken = _taken_out(group, ts, left_out) | expired[order]
    for one in gone:
        low, high = np.searchsorted(group, (one.place, one.place + 1))
        begin, end = low + np.searchsorted(ts[low:high], (one.first, one.last + 1))
        taken[begin:end] |= held.changes[begin:end] <= one.before
    older = ts <= state.clock.singles["newest"][group]
    late = (ts <= state.until[group]) & (state.clock.singles["started"][group] > 0)
    again = np.ones(len(ts), dtype=bool)
    again[starts_of(group, ts)] = False
    unknown = ~left_out & ~taken & (late | (held.partial & (older | again)))
    rows = held.only(~held.lost & ~taken & ~unknown)
    told = replace(held, partial=unknown).only(unknown | (left_out & older))
    return rows.rows, rows.written, _versions_of(told)


def _versions_of(held: Held) -> Versions:
    none = np.zeros(len(held.written), dtype=np.int64)
    return Versions(held.rows.group, held.rows.ts, held.partial, held.written, none)


def _taken_out(group: Ints, ts: Ints, lost: Bools) -> Bools:
    """bool[rows], for rows by group and time, those of one time in order of arrival: what a later version of
    the same time has taken out. ``lost``: whether it is such a version."""
    so_far = np.cumsum(lost)
    first = starts_of(group, ts)
    size = np.diff(np.append(first, len(ts)))
    found: Bools = so_far < np.repeat(so_far[first + size - 1], size)
    return found


def _came_again(passed: Passed) -> Bools:
    """bool[versions]: those behind which a row of the same time came that can be evaluated by itself."""
    rows, versions = passed.rows, passed.versions
    groups = passed.group[rows.message].tolist()
    # the rows are in the order of the log
    last = dict(zip(zip(groups, rows.ts.tolist(), strict=True), passed.came.tolist(), strict=True))
    own = zip(versions.group.tolist(), versions.ts.tolist(), versions.message.tolist(), strict=True)
    return np.array([last.get((group, ts), -1) > message for group, ts, message in own], dtype=bool)


def _by_keys(state: StreamState, rows: TableRows, group: Ints, messages: Messages, *, missed: bool) -> Passed:
    """A row that rewrites another may have left its group: each group of the table may have lost it."""
    definition, owner = state.definition, group[rows.message]
    taken = owner >= 0
    passed = (
        np.ones(len(rows.ts), dtype=bool) if definition.filter is None else rows.signals[definition.filter]
    )
    state.count("filtered", int((~passed & taken).sum()))
    rewrites = _rewrites_in_table(state, rows, owner, messages)
    unnamed = rows.partial(definition.keys) & rewrites  # it keeps the keys of the old version
    partial = rows.partial(definition.signals) & rewrites & definition.home
    names = [key or b"" for key in messages.keys]
    table = messages.key[rows.message]
    whose = {int(place): names[number] for place, number in zip(owner.tolist(), table.tolist(), strict=True)}
    bases = {place: state.passing.get(place) for place in whose if place >= 0}
    divided = divide(
        rows, np.where(passed & ~unnamed, owner, -1),
        lambda place, values: state.part_of(whose[place], bases[place], values), definition.keys, messages,
    )  # fmt: skip
    own = np.full(len(rows.ts), -1, dtype=np.int64)
    own[divided.row] = divided.group[divided.rows.message]
    told = taken & rewrites
    lost = _lost_by_keys(
        state, rows, told if missed else told & ~unnamed, own, unnamed | partial, (names, table), messages
    )
    wanted = ~partial[divided.row] & (own[divided.row] >= 0)
    kept, came = divided.rows.only(wanted), rows.message[divided.row[wanted]]
    passed_on = Passed(kept, divided.group, divided.messages, came, lost)
    if missed or not (unnamed.any() or state.life.partial):
        return passed_on
    last = {(names[table[row]], int(rows.ts[row])): row for row in np.flatnonzero(told).tolist()}
    places = messages.timestamp, messages.partition, messages.offset
    asked = [
        Unnamed(name, ts, *(int(column[rows.message[row]]) for column in places))
        for (name, ts), row in last.items()
        if unnamed[row]
    ]
    whole = {one for one, row in last.items() if not unnamed[row]}
    return passed_on._replace(unnamed=asked, whole=whole)


def _lost_by_keys(
    state: StreamState, rows: TableRows, rewriting: Bools, own: Ints, unnamed: Bools,
    tables: tuple[list[bytes], Ints], messages: Messages,
) -> Versions:  # fmt: skip
    """Each rewritten time, in every group of the table except that of the row's last version."""
    definition, (names, table) = state.definition, tables
    if definition.clock.ignore_disorder:
        return NO_VERSIONS
    if definition.spec.emission.rewritten == "counted":
        rewriting = rewriting & unnamed
    # with a composite key several rows may have one time, and it is not known which one was rewritten
    alone = not definition.table.has_composite_key
    last = {(int(table[row]), int(rows.ts[row])): row for row in np.flatnonzero(rewriting).tolist()}
    found: list[tuple[int, int, bool, int]] = []
    parts: dict[int, list[int]] = {}
    for (number, ts), row in last.items():
        if number not in parts:
            parts[number] = state.parts_of(names[number]) + state.strangers()
        doubt, message = bool(unnamed[row]), int(rows.message[row])
        kept = int(own[row]) if alone and not doubt else -1
        found += [(place, ts, doubt, message) for place in parts[number] if place != kept]
    if not found:
        return NO_VERSIONS
    columns = [np.array(column) for column in zip(*found, strict=True)]
    return Versions(columns[0], columns[1], columns[2], messages.timestamp[columns[3]], columns[3])


def _passing(
    state: StreamState, rows: TableRows, group: Ints, messages: Messages
) -> tuple[TableRows, Versions]:
    """The rows to evaluate, and those that rewrite others but cannot be evaluated."""
    definition = state.definition
    passed = np.ones(len(rows.ts), dtype=bool)
    if definition.filter is not None:
        passed = rows.signals[definition.filter]
    unnamed = rows.partial(definition.signals)
    owner = group[rows.message]
    if follows_tables(state.definition):
        unnamed &= ~passed  # a row that passes is sent on as it is
        doubtful = ~passed & (owner >= 0) & _rewrites_in_table(state, rows, owner, messages)
        state.count("filtered", int((~passed & (owner >= 0)).sum()))
    else:
        doubtful = (~passed | unnamed) & (owner >= 0)
        if not definition.home or definition.drops_disorder:
            doubtful[:] = False
        elif state.life.holding:
            doubtful &= ~passed  # what its group has is not known before history has been told
        elif doubtful.any():
            doubtful &= _rewrites(state, rows.ts, owner, passed)
        state.count("filtered", int((~passed & (owner >= 0) & ~(doubtful & unnamed)).sum()))
    if passed.all() and not doubtful.any():
        return rows, NO_VERSIONS
    message = rows.message[doubtful]
    found = Versions(
        owner[doubtful], rows.ts[doubtful], unnamed[doubtful], messages.timestamp[message], message
    )
    return rows.only(passed & ~(doubtful & unnamed)), found


def _rewrites(state: StreamState, ts: Ints, owner: Ints, passed: Bools) -> Bools:
    """bool[rows]: those that are not newer than what their group had seen when they came. ``passed``: the
    rows that advance the group's newest time."""
    state.clock.grow(len(state.groups))
    order = np.flatnonzero((owner >= 0) & (ts > -RANGE) & (ts < RANGE))
    order = order[np.argsort(owner[order], kind="stable")]
    found = np.zeros(len(ts), dtype=bool)
    if len(order):
        mine = owner[order]
        first = starts_of(mine)
        moving = np.where(passed[order], ts[order], NEVER)
        before, _ = running_newest(moving, first, state.clock.singles["newest"][mine[first]])
        found[order] = ts[order] <= before
    return found


def follows_tables(definition: Definition) -> bool:
    """Whether rows that PRE_FILTER leaves out may rewrite rows that were sent on to another slot."""
    return definition.filter is not None and not definition.home and not definition.clock.ignore_disorder


def _rewrites_in_table(state: StreamState, rows: TableRows, owner: Ints, messages: Messages) -> Bools:
    """bool[rows]: those that are not newer than what their table had when they came, as far as the stream
    knows. Updates the newest time of each table."""
    newest = state.life.newest
    # for a table without live rows so far, what history holds is not known here
    unknown = RANGE if state.definition.fills_history else NEVER
    table, names = messages.key, [key or b"" for key in messages.keys]
    order = np.flatnonzero((owner >= 0) & (rows.ts > -RANGE) & (rows.ts < RANGE))
    order = order[np.argsort(table[rows.message[order]], kind="stable")]
    found: Bools = np.zeros(len(rows.ts), dtype=bool)
    if len(order):
        mine, ts = table[rows.message[order]], rows.ts[order]
        first = starts_of(mine)
        known = [newest.get(names[number], unknown) for number in mine[first].tolist()]
        before, _ = running_newest(ts, first, np.array(known, dtype=np.int64))
        found[order] = ts <= before
        for number, last in zip(mine[first].tolist(), np.maximum.reduceat(ts, first).tolist(), strict=True):
            newest[names[number]] = max(last, newest.get(names[number], last))
    return found
