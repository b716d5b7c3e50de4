"""Rows of one message that belong to different groups: the message is divided into one for each group.

A stream that groups by columns evaluates rows, not messages. The steps after this one never see the
difference: each part has the message's place in the log, and the rows of one group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from millrace_core.trigger.groups.columns import Array, Ints, starts_of
from millrace_core.trigger.rows.intake import Messages, TableRows
from millrace_core.trigger.rows.signals import Signal

Values = tuple[Any, ...]
"""The values of a row's keys."""


@dataclass(slots=True)
class Divided:
    """Messages that each hold rows of one group. ``group[m]``: the group of message ``m``, -1 for none;
    ``row``: the place of each row before the division."""

    rows: TableRows
    group: Ints
    messages: Messages
    row: Ints


def values_of(keys: Sequence[Signal], cells: dict[Signal, Array]) -> list[Values]:
    """The key values of each row, as a group's key holds them: floats that are not finite become NULL, and
    there is only one zero."""
    columns = [
        [_plain(cell) if isinstance(cell, float) else cell for cell in cells[key].tolist()] for key in keys
    ]
    return list(zip(*columns, strict=True))


def _plain(cell: float) -> float | None:
    # groups travel as JSON, which has finite numbers only
    return cell + 0.0 if isfinite(cell) else None


def divide(
    rows: TableRows, owner: Ints, place: Callable[[int, Values], int], keys: Sequence[Signal],
    messages: Messages,
) -> Divided:  # fmt: skip
    """Divide messages by the keys of their rows. ``owner[row]``: what the row's table is grouped as, -1 for a
    row that takes no part; ``place``: gives the group of an owner's rows with these key values."""
    group = np.full(len(rows.ts), -1, dtype=np.int64)
    mine = np.flatnonzero(owner >= 0)
    values = values_of(keys, {key: rows.signals[key][mine] for key in keys})
    known: dict[tuple[int, Values], int] = {}
    for row, whose, said in zip(mine.tolist(), owner[mine].tolist(), values, strict=True):
        found = known.get((whose, said))
        if found is None:
            found = known[whose, said] = place(whose, said)
        group[row] = found
    return _apart(rows, group, messages)


def _apart(rows: TableRows, group: Ints, messages: Messages) -> Divided:
    order = np.lexsort((group, rows.message))  # stable: by time within a message's group
    part_of, message = group[order], rows.message[order]
    begins = starts_of(message, part_of)
    number = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(order))))
    apart = replace(
        rows, ts=rows.ts[order], message=number, operations=[], bad=[], pending=[], frame=rows.frame[:0],
        signals={signal: cells[order] for signal, cells in rows.signals.items()},
        absent={name: mask[order] for name, mask in rows.absent.items()},
    )  # fmt: skip
    return Divided(apart, part_of[begins], messages.take(message[begins]), order)
