"""The page of options shows the table that the validator reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from millrace_core.model.options import OPTIONS, OptionRule
from millrace_core.model.stream import Emission, Options
from millrace_core.trigger.types import TriggerType, trigger_types
from millrace_core.trigger.types.registry import having

PAGE = Path(__file__).parents[3] / "docs" / "OPTIONS.md"


def row(rule: OptionRule) -> str:
    takes = str(rule.rule) if rule.rule else rule.takes.value
    triggers = (
        [f"refused for {', '.join(sorted(having(rule.refused)))}: {rule.refused.value}"]
        if rule.refused
        else []
    )
    triggers += [f"no effect for {', '.join(sorted(having(rule.ignored)))}"] if rule.ignored else []
    beside = [f"needs {rule.needs.value}: {rule.why}"] if rule.needs else []
    beside += [f"not beside {', '.join(sorted(rule.excludes))}: {rule.apart}"] if rule.excludes else []
    beside += [f"not longer than {rule.within}: {rule.apart}"] if rule.within else []
    cells = (f"`{rule.keyword}`", takes, "; ".join(triggers), "; ".join(beside), rule.meaning)
    return "| " + " | ".join(cells) + " |"


def test_the_page_has_every_option_as_the_table_says() -> None:
    shown = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert shown == [row(rule) for rule in OPTIONS.values()]


def effects(rule: TriggerType[Any]) -> str:
    again = rule.recalculates
    by_hand = "with both ends, as far as its windows have closed" if rule.numbered else "yes"
    cells = (
        rule.keyword,
        "calculated again; ignored with IGNORE_DISORDER" if again else "ignored",
        "ignored; calculated again with DELETE_RECALC" if again else "ignored",
        "it reads no rows" if rule.by_clock else "ignored",
        "refused" if rule.by_clock else by_hand,
    )
    return "| " + " | ".join(cells) + " |"


def test_the_page_says_what_changed_rows_do_to_each_trigger() -> None:
    lines = PAGE.read_text().splitlines()
    keywords = {rule.keyword for rule in trigger_types()}
    assert [line for line in lines if line.split(" | ")[0][2:] in keywords] == [
        effects(rule) for rule in trigger_types()
    ]


def test_every_option_is_a_field_of_the_model_and_the_other_way_round() -> None:
    plain = {rule.field for rule in OPTIONS.values() if not rule.emits}
    assert plain == set(Options.__struct_fields__)
    assert {rule.field for rule in OPTIONS.values() if rule.emits} <= set(Emission.__struct_fields__)
