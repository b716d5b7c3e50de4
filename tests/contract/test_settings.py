"""docs/SETTINGS.md says what the settings say of themselves, and every setting says it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.settings import DOCUMENT, document

from millrace_service import Addresses, ServiceSettings, settings_table

ROOT = Path(__file__).parents[2]
BENCHES = {"MILLRACE_PEERS_DIR", "MILLRACE_CHAOS_SEED"}
"""Variables of tests and benches."""


def test_the_document_is_what_make_settings_writes() -> None:
    assert DOCUMENT.read_text() == document(), "run make settings"


def test_every_setting_is_described() -> None:
    rows = re.findall(r"^\| `(MILLRACE_\w+)` \|(.*)\|(.*)\|(.*)\|$", document(), re.MULTILINE)
    names = [name for name, *_ in rows]
    assert len(names) == len(set(names)) > 50
    assert all(meaning.strip().endswith(".") for *_, meaning in rows)


def test_a_table_leaves_out_what_the_base_has() -> None:
    assert "MILLRACE_BROKER" not in settings_table(ServiceSettings, Addresses)
    assert "MILLRACE_BROKER" in settings_table(ServiceSettings)


@pytest.mark.parametrize("file", ["README.md", "docker-compose.yml", "docker-compose.sasl.yml", *sorted(
    str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")
)])  # fmt: skip
def test_variables_that_are_named_exist(file: str) -> None:
    named = set(re.findall(r"\bMILLRACE_[A-Z][A-Z_]*[A-Z]\b", (ROOT / file).read_text()))
    known = set(re.findall(r"MILLRACE_[A-Z_]+", document()))
    assert named - known - BENCHES == set()
