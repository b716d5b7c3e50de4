"""What the soak makes of its looks."""

from __future__ import annotations

from pathlib import Path

from bench.soak import bytes_of, growth, total, used


def looks(seconds: int, grows: int) -> list[tuple[float, dict[str, int]]]:
    return [
        (
            float(at),
            {
                "disk/tables": 500 + grows * at,
                "disk/broker": 500,
                "memory/calc-svc": 800,
                "java/calc-svc": at,
                "heap/calc-svc": 300,
            },
        )
        for at in range(0, seconds, 10)
    ]


def test_flat_is_one() -> None:
    assert growth(looks(3600, 0), 3600) == {"disk_growth": 1.0, "memory_growth": 1.0, "heap_growth": 1.0}


def test_growth_shows_in_the_quarters_behind_the_warm_up() -> None:
    found = growth(looks(3600, 1), 3600)
    # means at 1,345 and 2,845 s, each with 1,000 bytes to begin with
    assert found == {"disk_growth": round(3845 / 2345, 3), "memory_growth": 1.0, "heap_growth": 1.0}
    assert growth(looks(100, 1), 100)["disk_growth"] > 1


def test_what_files_take(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_bytes(b"x" * 8192)
    (tmp_path / "b").write_bytes(b"x")
    assert used(tmp_path) >= 8192 + 512
    assert total({"disk/a": 3, "disk/b": 4, "memory/c": 5}, "disk") == 7


def test_the_heap_in_use_is_what_a_full_collection_leaves() -> None:
    """As ``jcmd`` writes it, in Java 17; of a process that is no more it writes nothing."""
    histogram = """7:
 num     #instances         #bytes  class name (module)
-------------------------------------------------------
   1:        314360       38457152  [B (java.base@17.0.15)
   2:             1             16  org.example.Total
Total       1477913      124861840
"""
    assert bytes_of(histogram) == 124_861_840
    assert bytes_of("") == 0
