"""The page of options shows the table that the validator reads."""

from __future__ import annotations

from pathlib import Path

from millrace_core.model.options import OPTIONS, OptionRule
from millrace_core.model.stream import Options

PAGE = Path(__file__).parents[3] / "docs" / "OPTIONS.md"


def row(rule: OptionRule) -> str:
    takes = str(rule.rule) if rule.rule else rule.takes.value
    triggers = [f"refused for {', '.join(sorted(rule.refused))}"] if rule.refused else []
    triggers += [f"no effect for {', '.join(sorted(rule.ignored))}"] if rule.ignored else []
    beside = [f"needs {rule.needs.value}"] if rule.needs else []
    beside += [f"not beside {', '.join(sorted(rule.excludes))}"] if rule.excludes else []
    cells = (f"`{rule.keyword}`", takes, "; ".join(triggers), "; ".join(beside), rule.meaning)
    return "| " + " | ".join(cells) + " |"


def test_the_page_has_every_option_as_the_table_says() -> None:
    shown = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert shown == [row(rule) for rule in OPTIONS.values()]


def test_every_option_is_a_field_of_the_model_and_the_other_way_round() -> None:
    assert {rule.field for rule in OPTIONS.values()} == set(Options.__struct_fields__)
