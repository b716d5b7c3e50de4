"""The query of an older stream, written in the newer dialect over ``%%trows``; and where each part of it
stands in the user's statement."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from millrace_core.conditions.row import AGGREGATES
from millrace_core.dialect.legacy.query import Item, PartitionKey, is_aggregate, is_start
from millrace_core.errors import Position
from millrace_core.language.lexer import quote_name, tokens
from millrace_core.language.query.nodes import position_at
from millrace_core.language.statements import Argument, LegacyQuery
from millrace_core.language.words import Token, TokenKind
from millrace_core.model.stream import Piece

_HOURS = {"d": 24, "w": 168}
_DAYS = re.compile(r"(\d+)([dw])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WrittenText:
    """``pieces``: the parts of the text that the user has written."""

    text: str
    pieces: tuple[Piece, ...]


@dataclass(slots=True)
class _Text:
    """A text that is being assembled. ``begins``: where the statement begins."""

    begins: Position
    parts: list[str] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    length: int = 0

    def add(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)

    def copy(self, text: str, where: Position) -> None:
        """Add a text that stands at ``where`` in the statement."""
        if text:
            self.pieces.append(Piece(self.length, self.length + len(text), where.within(self.begins)))
            self.add(text)

    def replacing(self, text: str, where: Position, words: Mapping[str, str]) -> None:
        """Add a text that stands at ``where``, with these names replaced."""
        last = 0
        for token, new in _replaced(text, words):
            self.copy(text[last : token.start], position_at(text, last, where))
            self.copy(new, position_at(text, token.start, where))
            last = token.end
        self.copy(text[last:], position_at(text, last, where))

    @property
    def done(self) -> WrittenText:
        return WrittenText("".join(self.parts), tuple(self.pieces))


@dataclass(frozen=True, slots=True)
class Calculation:
    """The parts of the query over a window's rows. ``names``: those of its columns; ``values``: the aliases
    of PARTITION BY as expressions over a group's key; ``gap``: that of SESSION, since in this dialect its
    windows end later by the gap; ``begins``: where the statement begins. ``partition``: the stream's
    grouping columns."""

    query: LegacyQuery
    items: Sequence[Item]
    keys: Sequence[PartitionKey]
    names: Sequence[str]
    values: Mapping[str, str]
    gap: str | None
    begins: Position
    partition: Sequence[str]

    @property
    def over_rows(self) -> WrittenText:
        """The query over the rows of one trigger."""
        end = f"(_twend + {self.gap})" if self.gap else "_twend"
        length = f"({end} - _twstart)" if self.gap else "_twduration"
        words = {"_wstart": "_twstart", "_wend": end, "_wduration": length} if self.query.window else {}
        text = _Text(self.begins)
        # a window whose rows are not asked for gives one result
        once = self.query.window is not None and not any(is_aggregate(item.node) for item in self.items)
        text.add("SELECT DISTINCT " if once else "SELECT ")
        self._columns(text, words, "_twstart")
        text.add(" FROM %%trows")
        return text.done

    @property
    def over_stretch(self) -> WrittenText:
        """The query over the rows of several windows and of what lies between them, with its own
        window and FILL."""
        window, fill = self.query.window, self.query.fill
        assert window is not None and fill is not None, "FILL goes with INTERVAL"
        text = _Text(self.begins)
        text.add("SELECT ")
        self._columns(text, {}, "_wstart")
        # a query counts days on a calendar; windows of a stream that slide by less than a day count hours
        sliding = window.sliding or window.arguments[:1]
        hours = any(_DAYS.fullmatch(one.text.strip()) is None for one in sliding)
        text.add(" FROM %%trows INTERVAL(")
        self._arguments(text, window.arguments, hours=hours)
        text.add(") SLIDING(")
        self._arguments(text, window.sliding, hours=hours)
        text.add(") ")
        mode, comma, values = fill.text.partition(",")
        # the stretch decides which windows there are, whatever the mode
        text.copy(f"FILL({mode.strip().upper().removesuffix('_F')}{comma}{values})", fill.position)
        return text.done

    def _columns(self, text: _Text, words: Mapping[str, str], start: str) -> None:
        words = {**words, **self._key_words()}
        whole = self._key_texts()
        names = iter(self.names)
        if self.query.window is not None and not is_start(self.items[0]):
            name = next(names)
            text.add(start if start == name else f"{start} AS {quote_name(name)}")
            text.add(", ")
        for place, (item, name) in enumerate(zip(self.items, names, strict=True)):
            text.add(", " if place else "")
            begin = text.length
            if (key := whole.get(_words(item.text))) is not None:
                text.copy(key, item.position)
            else:
                text.replacing(item.text, item.position, words)
            if "".join(text.parts)[begin:] not in (name, quote_name(name)):
                text.add(f" AS {quote_name(name)}")

    @staticmethod
    def _arguments(text: _Text, arguments: Sequence[Argument], *, hours: bool) -> None:
        for place, one in enumerate(arguments):
            text.add(", " if place else "")
            days = _DAYS.fullmatch(one.text.strip()) if hours else None
            length = f"{int(days[1]) * _HOURS[days[2].lower()]}h" if days else one.text
            text.copy(length, one.position)

    def _key_words(self) -> dict[str, str]:
        """The columns that rows are grouped by, each with the group's value in the newer dialect."""
        found = {}
        for key in self.keys:
            if key.column == "tbname":
                found["tbname"] = "%%tbname"
            elif self.query.window is None or key.column is None:
                continue
            elif key.column in self.partition:
                found[key.column] = f"%%{self.partition.index(key.column) + 1}"
            else:
                found[key.column] = self.values[key.name]
        return found

    def _key_texts(self) -> dict[tuple[tuple[TokenKind, str], ...], str]:
        """The same for the expressions that rows are grouped by."""
        if self.query.window is None:
            return {}
        return {
            _words(key.text): self.values[key.name]
            for key in self.keys
            if key.column is None and _is_value(self.values[key.name])
        }


def _is_value(expression: str) -> bool:
    return expression.startswith("%%")


def _words(text: str) -> tuple[tuple[TokenKind, str], ...]:
    return tuple((token.kind, token.value) for token in tokens(text))


def replaced(text: str, words: Mapping[str, str]) -> str:
    """The text with these names replaced."""
    parts: list[str] = []
    last = 0
    for token, new in _replaced(text, words):
        parts += [text[last : token.start], new]
        last = token.end
    return "".join(parts) + text[last:]


def _replaced(text: str, words: Mapping[str, str]) -> list[tuple[Token, str]]:
    """The names among ``words`` that are columns: not names of calls, not names after a point, and not names
    inside an aggregate, which mean the row's own value."""
    found = tokens(text)
    result: list[tuple[Token, str]] = []
    calls: list[bool] = []
    for i, token in enumerate(found):
        if token.text == "(":
            aggregated = i > 0 and found[i - 1].kind is TokenKind.WORD and found[i - 1].value in AGGREGATES
            calls.append(aggregated or any(calls[-1:]))
        elif token.text == ")" and calls:
            calls.pop()
        new = words.get(token.value) if token.kind in (TokenKind.WORD, TokenKind.QUOTED) else None
        own = new is not None and new.startswith("%%") and token.value != "tbname" and any(calls[-1:])
        if new is not None and not own and not _is(found, i - 1, ".") and not _is(found, i + 1, "(", "."):
            result.append((token, new))
    return result


def _is(found: Sequence[Token], i: int, *texts: str) -> bool:
    return 0 <= i < len(found) and found[i].text in texts
