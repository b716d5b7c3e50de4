"""Paths and patterns: what they match, and that their text says all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace_core.dialect.iotdb.codes import IotdbError, Status
from millrace_core.dialect.iotdb.cursor import Cursor
from millrace_core.dialect.iotdb.paths import Node, Pattern, read_path, write_path

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=6)
SHORT = st.sampled_from(["a", "b", "ab", "温度"])


def pattern(text: str) -> Pattern:
    return Cursor(text).path("a path")


@given(st.lists(NAMES, min_size=1, max_size=5))
def test_text_of_a_path_gives_its_nodes_again(nodes: list[str]) -> None:
    assert read_path(write_path(nodes)) == tuple(nodes)
    assert pattern(write_path(["root", *nodes])).names == ("root", *nodes)


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("root.sg.*", "root.sg.a", True), ("root.sg.a", "root.sg.a", True), ("root.sg.b", "root.sg.a", False),
        ("root.sg.*", "root.sg.a.b", False), ("root.sg.*", "root.sg", False),
        ("root.**", "root.sg", True), ("root.**", "root.sg.a.b", True), ("root.**", "root", False),
        ("root.**.a", "root.sg.a", True), ("root.**.a", "root.x.y.a", True), ("root.**.a", "root.a", False),
        ("root.ln.m*.s", "root.ln.m17.s", True), ("root.ln.m*.s", "root.ln.n17.s", False),
        ("root.ln.*7*.s", "root.ln.m17b.s", True), ("root.1d.*", "root.1d.2", True),
        ("root.`*`.a", "root.`*`.a", True), ("root.`*`.a", "root.b.a", False),
        ("root.Sg.a", "root.sg.a", False),
    ],
)  # fmt: skip
def test_what_a_pattern_matches(text: str, path: str, expected: bool) -> None:
    assert pattern(text).matches(read_path(path)) is expected


def naive(nodes: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Node by node, as SEMANTICS-FRONTENDS says it."""
    if not nodes or not path:
        return not nodes and not path
    if nodes[0] == "**":
        return naive(nodes[1:], path[1:]) or naive(nodes, path[1:])
    return (nodes[0] == "*" or nodes[0] == path[0]) and naive(nodes[1:], path[1:])


@given(st.lists(st.sampled_from(["a", "b", "*", "**"]), max_size=5), st.lists(SHORT, min_size=1, max_size=6))
def test_patterns_match_as_one_node_after_the_other(nodes: list[str], path: list[str]) -> None:
    whole = Pattern(tuple(Node(node) for node in ("root", *nodes)))
    assert whole.matches(("root", *path)) is naive(("root", *nodes), ("root", *path))


@pytest.mark.parametrize("text", ["ln.wf01", "roots.a", "root.a.***", "root.a.x**", "root.**y.b"])
def test_what_is_no_path_has_its_own_code(text: str) -> None:
    with pytest.raises(IotdbError) as caught:
        pattern(text)
    assert caught.value.status is Status.ILLEGAL_PATH
    assert caught.value.position is not None


@pytest.mark.parametrize("text", ["", "root.", "root..a", "root.`a", "'root'"])
def test_what_is_no_token_is_a_syntax_error(text: str) -> None:
    with pytest.raises(IotdbError) as caught:
        cursor = Cursor(text)
        cursor.path("a path")
        cursor.finish()
    assert caught.value.status is Status.SQL_PARSE_ERROR
