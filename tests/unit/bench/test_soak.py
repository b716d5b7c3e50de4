"""What the soak makes of its looks."""

from __future__ import annotations

from pathlib import Path

from bench.soak import growth, live_heap, total, used


def looks(seconds: int, grows: int) -> list[tuple[float, dict[str, int]]]:
    return [
        (
            float(at),
            {
                "disk/tables": 500 + grows * at,
                "disk/broker": 500,
                "memory/calc-svc": 800,
                "java/calc-svc": at,
                "heap/gc-7": 300,
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


def test_the_heap_in_use_is_what_collections_leave(tmp_path: Path) -> None:
    """As G1 and Serial write it, in Java 17; what was in use before a collection says nothing."""
    log = tmp_path / "gc-7.log"
    log.write_text("[0.006s][info][gc] Using G1\n")
    assert live_heap(log) == 0
    log.write_text(
        "[1.2s][info][gc] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 90M->20M(256M) 4.1ms\n"
        "[2.2s][info][gc] GC(1) Pause Full (System.gc()) 40M->12M(256M) 9.1ms\n"
        "[2.3s][info][gc] GC(2) Concurrent Mark Cycle\n"
        "[2.4s][info][gc] GC(2) Pause Remark 10M->10M(256M) 1.0ms\n"
        "[3.2s][info][gc] GC(3) Pause Young (Allocation Failure) 80M->15M(256M) 3.3ms\n"
    )
    assert live_heap(log) == 12 << 20
    with log.open("a") as file:
        for number in range(10):
            file.write(
                f"[9.2s][info][gc] GC({number + 4}) Pause Young (Normal) 300M->3{number}M(512M) 1.0ms\n"
            )
    assert live_heap(log) == 30 << 20, "the last ones count"
