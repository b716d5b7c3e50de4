"""requirements.lock: every dependency is in it with hashes, and it names no place to fetch from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
MEMBERS = sorted([*ROOT.glob("*/pyproject.toml"), *ROOT.glob("libs/*/pyproject.toml")])


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[ \[<>=!;~]", name, maxsplit=1)[0]).lower()


def test_no_host_and_no_path() -> None:
    assert not re.search(r"https?:|file:|--(extra-)?index-url|--find-links|^#", LOCK, re.MULTILINE)


def test_every_entry_is_pinned_with_a_hash() -> None:
    entries = re.split(r"\n(?=\S)", LOCK.strip())
    assert len(entries) > 50
    for entry in entries:
        assert re.match(r"[a-z0-9.-]+==\S+", entry), entry
        assert "--hash=sha256:" in entry, entry


def test_every_dependency_is_locked() -> None:
    locked = {_plain(name) for name in re.findall(r"^([a-z0-9._-]+)==", LOCK, re.MULTILINE)}
    projects = [tomllib.loads(file.read_text()) for file in (*MEMBERS, ROOT / "pyproject.toml")]
    ours = {_plain(one["project"]["name"]) for one in projects}
    wanted = {_plain(name) for one in projects for name in one["project"].get("dependencies", ())}
    groups = [one["project"].get("optional-dependencies", {}) for one in projects]
    wanted |= {_plain(name) for group in groups for names in group.values() for name in names}
    wanted |= {_plain(name) for name in projects[-1]["dependency-groups"]["dev"]}
    assert len(projects) == 13
    assert wanted - ours - locked == set()
