"""Case files: what they may say, and that anything else is refused with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace_conformance import case as model
from millrace_conformance import load
from millrace_conformance.case import Expect, Sql, Step, substitute
from millrace_conformance.source import BadCase, BadCases

ROOT = Path(__file__).parents[3]
PATH = Path("some-case.yaml")
HEAD = """\
id: some-case
title: a title
covers: [trigger.interval]
dialect: tdengine
precision: ms
oracle: by hand
"""
FULL = (
    HEAD
    + """\
timezone: Asia/Tokyo
steps:
  - sql: A
  - sql: [B, C]
  - running: [s1]
  - expect: {sql: Q, rows: [[1, 'x', null, 1.5, true]], within: 2m, ordered: false}
  - expect: {sql: Q, rows: []}
  - stays: {sql: Q, rows: [[1]], for: 500ms, within: 1.5s}
  - error: {sql: E, match: '(?i)x'}
  - sleep: 3s
  - notifications:
      events:
        - {streamName: s, result: {a: [1, null]}}
  - restart: notify-svc
  - produce: {table: a.b, rows: [{ts: 1, v: null}]}
  - sql: {as: {user: '{db}_u', pass: p}, run: [B, C]}
  - error: {sql: E, as: {user: '{db}_u', pass: p}}
"""
)


def test_a_case_with_all_steps() -> None:
    case = load.read_case(PATH, FULL)
    assert (case.id, case.timezone, case.precision, case.covers) == (
        "some-case", "Asia/Tokyo", "ms", ("trigger.interval",),
    )  # fmt: skip
    row = (1, "x", None, 1.5, True)
    assert case.steps == (
        model.Sql(9, ("A",)),
        model.Sql(10, ("B", "C")),
        model.Running(11, ("s1",)),
        model.Expect(12, "Q", (row,), 120, False),
        model.Expect(13, "Q", (), 30, True),
        model.Stays(14, "Q", ((1,),), 1.5, True, 0.5),
        model.Refused(15, "E", "(?i)x"),
        model.Sleep(16, 3),
        model.Notifications(17, ({"streamName": "s", "result": {"a": [1, None]}},), 30, False),
        model.Restart(20, "notify-svc"),
        model.Produce(21, "a.b", ({"ts": 1, "v": None},)),
        model.Sql(22, ("B", "C"), model.Login("{db}_u", "p")),
        model.Refused(23, "E", None, model.Login("{db}_u", "p")),
    )


@pytest.mark.parametrize(
    ("steps", "line", "what"),
    [
        ("  - sleeps: 3s", 8, "no step 'sleeps'"),
        ("  - sql: A\n    sleep: 3s", 8, "a step must be one of"),
        ("  - sql: A\n  - just text", 9, "a step must be one of"),
        ("  - sql: []", 8, "must not be empty"),
        ("  - sql: ['']", 8, "not empty"),
        ("  - sql:\n      - A\n      - {db}", 10, "must be a string"),
        ("  - expect:\n      sql: Q\n      rows: []\n      during: 3s", 11, "cannot have 'during'"),
        ("  - expect:\n      sql: Q\n      for: 3s\n      rows: []", 10, "cannot have 'for'"),
        ("  - expect:\n      sql: Q", 8, "must have 'rows'"),
        ("  - expect: {sql: Q, rows: [1]}", 8, "a row must be a list"),
        ("  - expect:\n      sql: Q\n      rows:\n        - [1]\n        - [1, 2]", 10, "differ"),
        (
            "  - expect:\n      sql: Q\n      rows:\n        - [1]\n        - [2026-01-01 00:00:00]",
            12,
            "quotes",
        ),
        ("  - expect: {sql: Q, rows: [], within: 30}", 8, "must be a duration"),
        ("  - expect: {sql: Q, rows: [], within: -1s}", 8, "must be a duration"),
        ("  - expect: {sql: Q, rows: [], ordered: 1}", 8, "true or false"),
        ("  - stays: {sql: Q, rows: []}", 8, "must have 'for'"),
        ("  - error: {sql: E, match: '('}", 8, "not a regular expression"),
        ("  - error: E", 8, "must be an object"),
        ("  - sql: {as: {user: u, pass: p}}", 8, "must have 'run'"),
        ("  - sql: {user: u, run: [A]}", 8, "cannot have 'user'"),
        ("  - error: {sql: E, as: u}", 8, "'as' must be an object"),
        ("  - error: {sql: E, as: {user: u}}", 8, "'as' must have 'pass'"),
        ("  - notifications: {events: [], as: {user: u, pass: p}}", 8, "cannot have 'as'"),
        ("  - sleep: soon", 8, "must be a duration"),
        ("  - notifications: {events: [{eventType: X}]}", 8, "must name its streamName"),
        ("  - notifications: {events: {}}", 8, "must be a list"),
        ("  - restart: kafka", 8, "must be one of trigger-svc"),
        ("  - produce: {table: t, rows: [{ts: 1}]}", 8, "<database>.<table>"),
        ("  - produce: {table: a.t, rows: []}", 8, "must not be empty"),
        ("  - sql: A\n  - sql: B\n    sql: C", 10, "given twice"),
        ("  - sql: 'A", 9, "end of stream"),
    ],
)
def test_bad_steps_are_refused_with_their_line(steps: str, line: int, what: str) -> None:
    with pytest.raises(BadCase) as error:
        load.read_case(PATH, f"{HEAD}steps:\n{steps}\n")
    assert str(error.value).startswith(f"some-case.yaml:{line}: ")
    assert what in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("id: some-case", "id: another", 1, "not the name of the file"),
        ("id: some-case", "id: Some_Case", 1, "kebab"),
        ("title: a title", "title: ''", 2, "not empty"),
        ("title: a title", "titles: x", 2, "cannot have 'titles'"),
        ("covers: [trigger.interval]", "covers: []", 3, "not be empty"),
        ("dialect: tdengine", "dialect: sqlite", 4, "must be one of tdengine"),
        ("precision: ms", "precision: s", 5, "must be one of ms"),
        ("oracle: by hand\n", "", 1, "must have 'oracle'"),
        ("oracle: by hand", "oracle: by hand\ntimezone: Mars/Base", 7, "no time zone"),
        ("id: some-case", "- a list", 2, "block"),
    ],
)
def test_bad_heads_are_refused_with_their_line(old: str, new: str, line: int, what: str) -> None:
    with pytest.raises(BadCase) as error:
        load.read_case(PATH, f"{HEAD}steps:\n  - sql: A\n".replace(old, new))
    assert str(error.value).startswith(f"some-case.yaml:{line}: ")
    assert what in str(error.value)


@pytest.mark.parametrize("text", ["", "text", "[]", "!!python/object:os.system {}", "\x00"])
def test_what_is_no_case_at_all(text: str) -> None:
    with pytest.raises(BadCase):
        load.read_case(PATH, text)


def test_files_of_folders(tmp_path: Path) -> None:
    for name in ("b/two.yaml", "a.yaml", "b/note.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = load.files([tmp_path / "b" / "two.yaml", tmp_path])
    assert [one.relative_to(tmp_path).as_posix() for one in found] == ["b/two.yaml", "a.yaml"]
    with pytest.raises(FileNotFoundError):
        load.files([tmp_path / "missing"])


def test_an_id_is_taken_once(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "some-case.yaml").write_text(f"{HEAD}steps:\n  - sql: A\n")
    with pytest.raises(BadCases, match="the id some-case is also that of"):
        load.load(load.files([tmp_path]))


def test_disputes() -> None:
    path = Path("disputed.yaml")
    assert load.read_disputes(path, "# none\n") == {}
    text = "some-case:\n  reason: because\n  seed: a sentence\n"
    assert load.read_disputes(path, text) == {"some-case": load.Dispute("because", "a sentence")}
    with pytest.raises(BadCase, match=r"disputed.yaml:1: 'some-case' must have 'seed'"):
        load.read_disputes(path, "some-case:\n  reason: because\n")


def test_the_cases_of_this_repository() -> None:
    cases = load.load(load.files([ROOT / "tests" / "conformance" / "cases"]))
    known = ROOT / "tests" / "conformance" / "disputed.yaml"
    assert cases
    assert load.read_disputes(known, known.read_text()).keys() <= {one.id for one in cases}


# -- {db} and {notify} -----------------------------------------------------------------------------------


def test_placeholders_are_literal_text_everywhere() -> None:
    names = {"db": "c1", "notify": "ws://h/{db}"}
    step = Expect(1, "SELECT j->'{\"a\": 1}' FROM {db}.t", (("{db}_x", 1, None),))
    assert substitute(step, names) == Expect(1, "SELECT j->'{\"a\": 1}' FROM c1.t", (("c1_x", 1, None),))
    assert substitute(Sql(1, ("{notify}{db}{other}",)), names) == Sql(1, ("ws://h/{db}c1{other}",))
    login = model.Login("{db}_r", "p")
    assert substitute(Sql(1, (), login), names).login == model.Login("c1_r", "p")
    assert substitute({"{db}.s": [{"x": "{db}"}]}, names) == {"c1.s": [{"x": "c1"}]}


@pytest.mark.parametrize("step", load.read_case(PATH, FULL).steps[:-2], ids=lambda step: type(step).__name__)
def test_steps_without_placeholders_stay_as_they_are(step: Step) -> None:
    assert substitute(step, {"db": "x", "notify": "y"}) == step
