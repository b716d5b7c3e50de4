"""The gate: many together, or one alone."""

from __future__ import annotations

import threading

from api_gateway.catalog.gate import Gate


def test_one_alone_waits_for_those_inside_and_keeps_the_others_out() -> None:
    gate, seen = Gate(), list[str]()
    inside, leave, alone_in = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        with gate.shared():
            inside.set()
            leave.wait(5)
            seen.append("first out")

    def alone() -> None:
        with gate.alone():
            seen.append("alone")
            alone_in.set()

    def late() -> None:
        with gate.shared():
            seen.append("late")

    threads = [threading.Thread(target=work) for work in (first, alone, late)]
    threads[0].start()
    assert inside.wait(5)
    threads[1].start()
    while not gate._waiting:
        pass
    threads[2].start()
    assert not alone_in.wait(0.05)
    assert seen == []
    leave.set()
    for thread in threads:
        thread.join(5)
    assert seen == ["first out", "alone", "late"]


def test_many_are_inside_together() -> None:
    gate, barrier = Gate(), threading.Barrier(3, timeout=5)
    met = []

    def work() -> None:
        with gate.shared():
            barrier.wait()
            met.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert len(met) == 3
