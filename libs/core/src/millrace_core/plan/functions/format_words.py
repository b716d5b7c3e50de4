"""The words of the formats of to_char and to_timestamp, as in TDengine 3.3.7."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a format. ``field``: what it stands for; ``width``: its number of digits or letters;
    ``spelled``: its spelling in the format; ``noon``: the texts for before and after noon."""

    field: str
    width: int
    spelled: str = ""
    noon: tuple[str, str] = ("am", "pm")

    def cased(self, value: str) -> str:
        """A name in the same case as the word's spelling."""
        if self.spelled.isupper():
            return value.upper()
        return value.capitalize() if self.spelled[0].isupper() else value


_DOTTED = ("a.m.", "p.m.")
_TWO_CASES: dict[str, Word] = {
    "a.m.": Word("noon", 4, noon=_DOTTED), "p.m.": Word("noon", 4, noon=_DOTTED),
    "am": Word("noon", 2), "pm": Word("noon", 2),
    "yyyy": Word("year", 4), "yyy": Word("year", 3), "yy": Word("year", 2), "y": Word("year", 1),
    "mm": Word("month", 2), "dd": Word("day", 2), "ddd": Word("day of year", 3),
    "d": Word("day of week", 1),
    "hh24": Word("hour", 2), "hh12": Word("hour of 12", 2), "hh": Word("hour of 12", 2),
    "mi": Word("minute", 2), "ss": Word("second", 2),
    "ms": Word("fraction", 3), "us": Word("fraction", 6), "ns": Word("fraction", 9),
    "tzh": Word("zone", 2),
}  # fmt: skip
_THREE_CASES: dict[str, Word] = {
    "month": Word("month name", 9), "mon": Word("month name", 3),
    "day": Word("day name", 9), "dy": Word("day name", 3),
}  # fmt: skip


def _spellings() -> dict[str, Word]:
    found: dict[str, Word] = {}
    for table, cases in ((_TWO_CASES, (str.lower, str.upper)),
                         (_THREE_CASES, (str.lower, str.upper, str.capitalize))):  # fmt: skip
        for name, word in table.items():
            for case in cases:
                found[case(name)] = Word(word.field, word.width, case(name), word.noon)
    return found


WORDS: dict[str, Word] = _spellings()
_LONGEST = max(map(len, WORDS))


def words_of(pattern: str) -> list[Word | str]:
    """The format's words, and the text between them.

    Where several words match, the longest counts. What stands in double quotes is text, and so is a quote
    after a backslash.
    """
    found: list[Word | str] = []
    quoted = False
    i = 0
    while i < len(pattern):
        if pattern[i] == "\\" and pattern[i + 1 : i + 2] == '"':
            found.append('"')
            i += 2
            continue
        if pattern[i] == '"':
            quoted = not quoted
            i += 1
            continue
        sizes = () if quoted else range(_LONGEST, 0, -1)
        word = next((pattern[i : i + n] for n in sizes if pattern[i : i + n] in WORDS), None)
        found.append(WORDS[word] if word else pattern[i])
        i += len(word or pattern[i])
    return _joined(found)


def _joined(found: list[Word | str]) -> list[Word | str]:
    """Joins neighbouring texts into one."""
    made: list[Word | str] = []
    for item in found:
        if isinstance(item, str) and made and isinstance(made[-1], str):
            made[-1] += item
        else:
            made.append(item)
    return made
