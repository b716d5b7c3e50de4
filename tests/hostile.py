"""Statements of any depth and width, as somebody may send them who means no good."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

DEEPEST, WIDEST = 5_000, 40_000
INSIDE: dict[str, Callable[[str], str]] = {
    "parentheses": lambda e: f"({e})",
    "sign": lambda e: f"- {e}",
    "sum": lambda e: f"1 + {e}",
    "call": lambda e: f"abs({e})",
    "case": lambda e: f"CASE WHEN v > 1 THEN {e} ELSE 0 END",
    "repeat": lambda e: f"length(repeat('x', length(concat('a', repeat('b', {e})))))",
    "like": lambda e: f"CASE WHEN concat(tbname, cast({e} AS VARCHAR(9))) LIKE '%m%_%m%' THEN 1 ELSE 0 END",
    "greatest": lambda e: f"greatest({e}, 1)",
    "root": lambda e: f"sqrt({e})",
    "case of a value": lambda e: f"CASE {e} WHEN 1 THEN 2 WHEN 2 THEN 3 END",
    "text and back": lambda e: f"cast(cast({e} AS VARCHAR(20)) AS INT)",
    "replace": lambda e: f"length(replace(tbname, 'a', cast({e} AS VARCHAR(9))))",
}
BESIDE: dict[str, Callable[[list[str]], str]] = {
    "columns": lambda all_: f"SELECT {', '.join(all_)} FROM meters",
    "or": lambda all_: f"SELECT v FROM meters WHERE {' OR '.join(f'{one} = 1' for one in all_)}",
    "in": lambda all_: f"SELECT v FROM meters WHERE v IN ({', '.join(all_)})",
    "concat": lambda all_: f"SELECT concat({', '.join(all_)}) FROM meters",
    "unions": lambda all_: " UNION ALL ".join(f"SELECT {one} FROM meters" for one in all_),
    "crossed": lambda all_: f"SELECT {all_[0]} FROM " + ", ".join(f"meters a{i}" for i in range(len(all_))),
    "queries in FROM": lambda all_: "SELECT * FROM (" * len(all_) + "SELECT v FROM meters" + ")" * len(all_),
}


@st.composite
def hostile(draw: st.DrawFn) -> str:
    """Mostly small ones: a few kinds of nesting inside one another, side by side in one of the ways."""
    deep = draw(st.one_of(st.integers(0, 20), st.sampled_from([100, 200, 201, 1_000, DEEPEST])))
    wide = draw(st.one_of(st.integers(1, 9), st.sampled_from([100, 4_096, 4_097, WIDEST])))
    kinds = draw(st.lists(st.sampled_from(sorted(INSIDE)), min_size=1, max_size=3))
    way = draw(st.sampled_from(sorted(BESIDE)))
    one = "v"
    for level in range(deep):
        one = INSIDE[kinds[level % len(kinds)]](one)
        if len(one) > 2 << 20:
            break  # it is longer than any that is read
    count = min(wide, max(1, (2 << 20) // len(one)))
    return BESIDE[way]([one] * count)


LITERALS: dict[str, tuple[str, str]] = {
    "a text of 2 GB": ("SELECT repeat('x', 2000000000) FROM meters LIMIT 1", "65,517 are allowed"),
    "all rows with all rows, three times": (
        "SELECT count(*) FROM meters a, meters b, meters c, meters d WHERE a.v + b.v + c.v + d.v = -1",
        "MILLRACE_QUERY_SECONDS",
    ),
    "a regular expression that never ends": (
        "SELECT count(*) FROM meters WHERE concat(s, s, '!') MATCH '(a|aa)+\\\\1b'",
        "MILLRACE_QUERY_SECONDS",
    ),
    "a result of gigabytes": (
        "SELECT repeat(a.s, 900) FROM meters a, meters b WHERE a.v + b.v > 0", "MILLRACE_",
    ),
    "too many rows": ("SELECT a.v FROM meters a, meters b", "MILLRACE_"),
    "calls that double their argument": (
        f"SELECT {'greatest(' * 60}v{', 1)' * 60} FROM meters", "the query becomes too large here",
    ),
    "more windows than can be": (
        "SELECT _wstart, sum(v) FROM meters WHERE ts >= 0 AND ts < '2999-01-01' INTERVAL(1s) FILL(PREV)",
        "windows",
    ),
}  # fmt: skip
"""Statements over ``meters`` that took something from others once, or might, and words of their error."""
BIG: dict[str, str] = {
    "columns": f"SELECT {', '.join(['v + 1'] * 4_000)} FROM meters LIMIT 2",
    "terms": f"SELECT count(*) FROM meters WHERE {' OR '.join(f'v = {i}' for i in range(1_000))}",
    "literals": f"SELECT count(*) FROM meters WHERE v IN ({', '.join(map(str, range(20_000)))})",
    "a long text": f"SELECT length('{'x' * 60_000}') FROM meters LIMIT 1",
    "unions": " UNION ALL ".join(["SELECT v FROM meters WHERE v = 1"] * 200),
    "sorted": "SELECT a.v, b.v FROM meters a, meters b ORDER BY a.v * b.v LIMIT 5",
    "distinct": "SELECT count(*) FROM (SELECT DISTINCT a.v, b.v FROM meters a, meters b WHERE a.v < 700)",
    "windows": "SELECT _wstart, count(*) FROM meters INTERVAL(1000s) SLIDING(1s)",
}
"""Large, but somebody may mean it: an answer, or an own error."""
