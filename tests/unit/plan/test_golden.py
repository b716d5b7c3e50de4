"""Golden plans: each file has a query, its two Spark SQL texts, and an oracle in DuckDB's own SQL.

The texts are compared, and both plans are run on DuckDB: they must give the oracle's rows. After a wanted
change run with MILLRACE_UPDATE_GOLDEN=1, and read the difference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from millrace_core.plan.spark.text import MARK, spark_text

GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "plan").glob("*.sql"))
SECTION = re.compile(r"^-- (\w+)(?:: (.*))?$", re.MULTILINE)


def read(path: Path) -> dict[str, str]:
    """``-- key: value`` lines and ``-- section`` bodies of a golden file."""
    text = path.read_text()
    marks = list(SECTION.finditer(text))
    ends = [m.start() for m in marks[1:]] + [len(text)]
    return {m[1]: m[2] or text[m.end() : end].strip() for m, end in zip(marks, ends, strict=True)}


def plan_of(world: Any, kit: Any, golden: dict[str, str]) -> Any:
    partition = tuple(name.strip() for name in golden["partition"].split(",") if name.strip() != "none")
    more: dict[str, Any] = {"where": golden["notify"]} if "notify" in golden else {}
    return world.plan(golden["query"], partition=partition, trigger=kit.TRIGGERS[golden["trigger"]], **more)


def texts(plan: Any) -> dict[str, str]:
    one = spark_text(plan.one_tree, pretty=True)
    columns = ", ".join(f"{c.name} {c.type}" for c in plan.result)
    set_ = "" if plan.set_tree is None else spark_text(plan.set_tree, pretty=True)
    return {"result": columns, "set": set_, "one": re.sub(f"{MARK}(.*?){MARK}", r"{\1}", one)}


@pytest.mark.parametrize("path", GOLDEN, ids=[path.stem for path in GOLDEN])
def test_golden_plan(path: Path, world: Any, kit: Any) -> None:
    golden = read(path)
    plan = plan_of(world, kit, golden)
    found = texts(plan)
    if os.environ.get("MILLRACE_UPDATE_GOLDEN"):
        head = [f"-- {key}: {golden[key]}" for key in ("trigger", "partition", "notify") if key in golden]
        head.append(f"-- result: {found['result']}")
        parts = {
            "query": golden["query"],
            "set": found["set"],
            "one": found["one"],
            "oracle": golden["oracle"],
        }
        path.write_text("\n".join(head) + "\n" + "".join(f"-- {k}\n{v}\n" for k, v in parts.items()))
        golden = read(path)
    assert found == {key: golden[key] for key in found}

    windows = [(kit.T0 + 1_000 * a, kit.T0 + 1_000 * (a + 10)) for a in (0, 10, 25, 50, 70)]
    trig = kit.trigger_relation(world.spec, kit.window_events(world.spec, windows))
    wanted = world.oracle(golden["oracle"], trig)
    assert len(wanted) > 3
    key = repr
    assert sorted(world.set_rows(plan, trig), key=key) == sorted(wanted, key=key)
    assert sorted(world.one_rows(plan, trig), key=key) == sorted(wanted, key=key)


def test_there_are_golden_plans() -> None:
    assert len(GOLDEN) >= 15
