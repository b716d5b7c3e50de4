"""How an argument of a trigger or an option is described, in the tables of triggers and options."""

from __future__ import annotations

from dataclasses import dataclass

from millrace_core.model.stream import Duration

SHORT_UNITS = "asmhd"
"""The units that seed 000 lists for most arguments: milliseconds to days."""
FIXED_UNITS = "buasmhdw"
"""Every unit of fixed length."""
ALL_UNITS = FIXED_UNITS + "ny"


@dataclass(frozen=True, slots=True)
class DurationRule:
    """A duration in one of ``units``, ``low`` and ``high`` included, shorter than ``below``.

    Without ``low`` any length above zero is allowed; with ``zero`` also zero.
    """

    units: str
    low: Duration | None = None
    high: Duration | None = None
    below: Duration | None = None
    zero: bool = False

    def __str__(self) -> str:
        parts = []
        if self.low and self.high:
            parts.append(f"{self.low} to {self.high}")
        elif self.low:
            parts.append(f"at least {self.low}")
        elif self.below:
            parts.append(f"less than {self.below}")
        elif not self.zero:
            parts.append("more than 0")
        units = ", ".join(self.units)
        return ", ".join([*parts, f"a whole number and a unit of {units}"])


@dataclass(frozen=True, slots=True)
class IntegerRule:
    """A whole number from ``low`` to ``high``, both included."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"a whole number from {self.low} to {self.high}"


PERIOD_RULE = DurationRule(SHORT_UNITS, low=Duration(10, "a"), high=Duration(3650, "d"))
"""The distance between instants."""
DAY_OFFSET = DurationRule("asmh", below=Duration(1, "d"), zero=True)
"""The offset of instants from the midnight that they are counted from."""
