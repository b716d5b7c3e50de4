"""Two deployments that look alike to one user, ``ann``: what she may know of is the same, all else is not.

What she may know follows here from her grants by rules of this module's own. Some of what others keep to
themselves is alike as well: what streams and virtual tables that she knows publish of it (their definitions
name it), and names that she might want to give herself, for a name that is taken is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from tests.unit.gateway.whole import Whole

from millrace_core.wire import status
from millrace_core.wire.counters import CALC, TRIGGER
from millrace_core.wire.topics import wal_topic

DATABASES = ("a", "b", "c")
SUPER = {"c1": "st", "c2": "st", "c9": "st", "root.p.d1": "devices", "root.p.d2": "devices",
         "root.p.h1": "devices"}  # fmt: skip
ANN = ("ann", "Secret_1")
T0 = 1_767_225_600_000
Row = tuple[int, int, str]
GRANTABLE = [
    *(f"{db}.{name}" for db in DATABASES for name in ("*", "st", "c1", "nt", "vt", "out")),
    "`root.p`.*", "`root.p`.`root.p.d1`", "`root.p`.devices",
]  # fmt: skip


@dataclass(frozen=True)
class Granted:
    """What ann was given: (``READ``, ``WRITE`` or ``ALL``, on what)."""

    grants: tuple[tuple[str, str], ...]

    def _has(self, kinds: Sequence[str], db: str, *names: str) -> bool:
        on = {f"{db}.{name}" for name in names} | {f"`{db}`.{name}" for name in names}
        on |= {f"`{db}`.`{name}`" for name in names}
        return any(kind in (*kinds, "ALL") and what in on for kind, what in self.grants)

    def whole(self, db: str, *kinds: str) -> bool:
        """Whether she may read or write (or do one of these in) the whole database, so that she knows its
        streams."""
        return self._has(kinds or ("READ", "WRITE"), db, "*")

    def knows(self, db: str, name: str, *kinds: str) -> bool:
        return self._has(kinds or ("READ", "WRITE"), db, "*", name, SUPER.get(name, name))

    def reads(self, db: str, name: str) -> bool:
        return self.knows(db, name, "READ")

    def names_in(self, db: str) -> bool:
        """Whether she may make things in the database, whose names must be free then."""
        return self.whole(db, "WRITE") or self.knows(db, "st", "WRITE") or self.knows(db, "devices", "WRITE")

    @property
    def names(self) -> bool:
        """Whether she may give names that all databases share."""
        return any(kind != "READ" for kind, _ in self.grants)


@dataclass(frozen=True)
class Secret:
    """What may differ: rows by table, tags of children, which optional things there are, and words."""

    rows: dict[str, list[Row]]
    tags: dict[str, int]
    there: frozenset[str]
    word: str
    count: int


TABLES = [f"{db}.{name}" for db in (*DATABASES, "z") for name in ("c1", "c2", "c9", "nt", "h1")]
TABLES += ["root.p.d1", "root.p.d2", "root.p.h1", "root.q.d1"]
OPTIONAL = [
    *(f"{db}.{what}" for db in DATABASES for what in ("h1", "c9", "hs", "x")),
    "z", "bob", "bobs", "cq", "root.q", "root.p.h1",
]  # fmt: skip
WORDS = ["alpha", "beta"]
_rows = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.sampled_from(["u", "v"])), max_size=4)


def secrets(word: str) -> st.SearchStrategy[Secret]:
    return st.builds(
        Secret, st.fixed_dictionaries(dict.fromkeys(TABLES, _rows)),
        st.fixed_dictionaries({name: st.integers(0, 3) for name in TABLES if name.split(".")[-1] in SUPER}),
        st.frozensets(st.sampled_from(OPTIONAL)), st.just(word), st.integers(0, 99),
    )  # fmt: skip


@dataclass(frozen=True)
class World:
    """``links``: database -> that whose tables its streams and its virtual table read; ``failing``: whether
    streams have failed; ``common``: what is alike; ``own``: what is not, where ann may not know of it."""

    granted: Granted
    links: dict[str, str]
    failing: bool
    common: Secret
    own: Secret

    def _rows(self, db: str, name: str) -> list[Row]:
        known = self.granted.reads(db, name) or (name == "nt" and self._published(db))
        return (self.common if known else self.own).rows[name if "." in name else f"{db}.{name}"]

    def _published(self, db: str) -> bool:
        """Whether a virtual table that ann may read has columns of the database's ``nt``."""
        return any(db in (one, self.links[one]) and self.granted.reads(one, "vt") for one in DATABASES)

    def _there(self, what: str, free: bool) -> bool:
        """Whether something optional is there that ann does not know of; ``free``: she may not want its
        name."""
        return what in (self.own if free else self.common).there

    def build(self, whole: Whole) -> None:
        for text in self._statements():
            whole.root(text)
        for text in self._of_iotdb():
            whole.iotdb(text)
        for what, on in self.granted.grants:
            if on.startswith("`"):
                whole.root(f"GRANT {what} ON {on} TO {ANN[0]}")
        whole.settle()
        for said in self._news(whole):
            whole.tell(said)
        whole.settle()

    # -- tables, streams and rows ----------------------------------------------------------------------------

    def _statements(self) -> Iterator[str]:
        granted = self.granted
        databases = [*DATABASES, *(["z"] if self._there("z", True) else [])]
        for db in databases:
            yield f"CREATE DATABASE {db}"
            yield f"CREATE STABLE {db}.st (ts TIMESTAMP, v INT, w VARCHAR(16)) TAGS (site INT)"
            more = ", x INT" if self._there(f"{db}.x", True) and not granted.knows(db, "nt") else ""
            yield f"CREATE TABLE {db}.nt (ts TIMESTAMP, v INT, w VARCHAR(16){more})"
            yield from self._children(db)
            if not granted.whole(db) and self._there(f"{db}.h1", not granted.names_in(db)):
                yield f"CREATE TABLE {db}.h1 (ts TIMESTAMP, v INT, w VARCHAR(16), {self.own.word} INT)"
        yield f"CREATE USER {ANN[0]} PASS '{ANN[1]}'"
        for db in databases:
            yield from self._streams(db)
        yield from self._others()
        for what, on in granted.grants:
            if not on.startswith("`"):
                yield f"GRANT {what} ON {on} TO {ANN[0]}"
        for db in databases:
            yield from self._inserts(db)
            if not granted.knows(db, "nt"):
                yield f"ALTER TABLE {db}.nt RENAME COLUMN w {self.own.word}"

    def _children(self, db: str) -> Iterator[str]:
        for child in ("c1", "c2"):
            tag = (self.common if self.granted.knows(db, child) else self.own).tags[f"{db}.{child}"]
            yield f"CREATE TABLE {db}.{child} USING {db}.st TAGS ({tag})"
        if not self.granted.knows(db, "c9") and self._there(f"{db}.c9", not self.granted.names_in(db)):
            yield f"CREATE TABLE {db}.c9 USING {db}.st TAGS ({self.own.tags[f'{db}.c9']})"

    def _streams(self, db: str) -> Iterator[str]:
        """Of the database's own, and of others; what hides from ann is called otherwise."""
        link = self.links.get(db, db)
        yield f"CREATE VTABLE {db}.vt (ts TIMESTAMP, v INT FROM {link}.nt.v, w VARCHAR(16) FROM {db}.nt.w)"
        yield (
            f"CREATE STREAM {db}.s INTERVAL(10s) SLIDING(10s) FROM {link}.st PARTITION BY tbname"
            f" INTO {db}.out AS SELECT _twstart AS ts, count(*) AS n FROM %%tbname"
        )
        yield (
            f"CREATE STREAM {db}.s2 COUNT_WINDOW(2) FROM {db}.nt INTO {db}.out2"
            f" AS SELECT _twstart AS ts, count(*) AS n FROM {link}.nt WHERE ts >= _twstart"
        )
        yield (
            f"CREATE STREAM g_{db} INTO {db}.go AS SELECT _wstart AS ts, count(*) AS n FROM {link}.nt"
            " INTERVAL(10s)"
        )
        if self.granted.whole(db):
            return
        if self._there(f"{db}.hs", True):
            yield (
                f"CREATE STREAM {db}.hs COUNT_WINDOW(2) FROM {link}.nt INTO {db}.ho"
                " AS SELECT _twstart AS ts, count(*) AS n FROM %%trows"
            )
        if db == "z":
            return
        yield (
            f"CREATE STREAM held_{self.own.word}_{db} INTO {db}.held AS SELECT _wstart AS ts, count(*) AS n"
            " FROM a.st INTERVAL(10s)"
        )

    def _inserts(self, db: str) -> Iterator[str]:
        for name in ("c1", "c2", "nt"):
            if rows := self._rows(db, name):
                values = " ".join(f"({T0 + 1000 * ts}, {v}, '{w}')" for ts, v, w in rows)
                yield f"INSERT INTO {db}.{name} (ts, v, w) VALUES {values}"

    def _others(self) -> Iterator[str]:
        if self._there("bob", True):
            yield f"CREATE USER bob PASS '{self.own.word}_1'"
            if self._there("bobs", True):
                yield "GRANT ALL ON b.* TO bob"

    # -- IoTDB -----------------------------------------------------------------------------------------------

    def _of_iotdb(self) -> Iterator[str]:
        devices = ["root.p.d1", "root.p.d2"]
        if not self.granted.knows("root.p", "root.p.h1"):
            devices += ["root.p.h1"] if self._there("root.p.h1", not self.granted.names_in("root.p")) else []
        if self._there("root.q", True):
            devices.append("root.q.d1")
        for device in devices:
            yield f"CREATE TIMESERIES {device}.v WITH DATATYPE=INT32"
            yield f"CREATE TIMESERIES {device}.w WITH DATATYPE=TEXT"
            db = device.rpartition(".")[0]
            for ts, v, w in self._rows(db, device):
                yield f"INSERT INTO {device}(time, v, w) VALUES ({T0 + 1000 * ts}, {v}, '{w}')"
        if self._there("cq", not self.granted.names):
            yield (
                "CREATE CQ cq_root RESAMPLE EVERY 3650d BEGIN SELECT count(v) INTO root.p.out(n)"
                f" FROM root.p.d1 WHERE w = '{self.own.word}' GROUP BY(3650d) END"
            )

    # -- what services tell ----------------------------------------------------------------------------------

    def reads_of(self, db: str, stream: str) -> bool:
        """Whether ann may read all that this stream reads."""
        link = self.links[db]
        reads = {"s": [(link, "st")], "s2": [(db, "nt"), (link, "nt")], f"g_{db}": [(link, "nt")]}[stream]
        return all(self.granted.reads(*one) for one in reads)

    def _news(self, whole: Whole) -> Iterator[status.AnyStatus]:
        for entry in list(whole.gateway.context.catalog.streams.values()):
            spec = entry.spec
            if spec.home not in DATABASES or spec.name.startswith(("hs", "held")):
                continue
            secret = self.common if self.reads_of(spec.home, spec.name) else self.own
            totals: dict[str, int] = {
                "events_taken": secret.count,
                "result_rows": secret.count,
                "failures": 1,
            }
            yield status.Counters(CALC, spec.uid, 0, totals)
            yield status.Counters(TRIGGER, spec.uid, 0, {"rows_read": secret.count, "late": secret.count})
            yield status.Recalculation(
                spec.uid, 0, secret.count, "by hand", secret.count, secret.count + 9, "Running", 0.5,
                secret.count, 3, secret.word,
            )  # fmt: skip
            if self.failing:
                yield status.StreamFailure(spec.uid, f"cannot read {secret.word}")
        if self.failing:
            for db in DATABASES:
                word = (self.common if self.granted.reads(db, "nt") else self.own).word
                topics = (wal_topic(db, "nt"),)
                yield status.Problem("calc-svc", f"table/{db}", f"{db}.nt: {word} is damaged", topics)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[World, World]:
    """Two worlds that ann should not be able to tell apart."""
    kinds = st.sampled_from(["READ", "WRITE", "ALL"])
    grants = draw(
        st.lists(st.tuples(kinds, st.sampled_from(GRANTABLE)), max_size=4, unique_by=lambda g: g[1])
    )
    links = draw(st.fixed_dictionaries({db: st.sampled_from(DATABASES) for db in DATABASES}))
    common, failing = draw(secrets("known")), draw(st.booleans())
    one, other = (
        World(Granted(tuple(grants)), links, failing, common, draw(secrets(word))) for word in WORDS
    )
    return one, other
