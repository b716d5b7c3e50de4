"""How thorough property tests are: ``pytest --hypothesis-profile=check`` (``make check``), or ``full``
(``make test``, and where none is named)."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

FULL = 100
# nothing is timed: the machine may be busy with something else
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("full", UNTIMED, max_examples=FULL)
settings.register_profile("check", UNTIMED, max_examples=12)
settings.load_profile("full")


def examples(most: int) -> int:
    """How many examples to try of a property that is worth ``most`` of them in full, at least three."""
    return max(min(most, 3), most * settings().max_examples // FULL)
