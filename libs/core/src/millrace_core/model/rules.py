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
        units = ", ".join(self.units)
        text = f"an integer followed by a unit ({units})"
        if self.low and self.high:
            return f"{text}, from {self.low} to {self.high}"
        if self.low:
            return f"{text}, at least {self.low}"
        if self.below:
            return f"{text}, less than {self.below}"
        return text if self.zero else f"{text}, greater than 0"


@dataclass(frozen=True, slots=True)
class IntegerRule:
    """A whole number from ``low`` to ``high``, both included."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"an integer from {self.low} to {self.high}"


PERIOD_RULE = DurationRule(SHORT_UNITS, low=Duration(10, "a"), high=Duration(3650, "d"))
"""The distance between instants."""
DAY_OFFSET = DurationRule("asmh", below=Duration(1, "d"), zero=True)
"""The offset of instants from the midnight that they are counted from."""
