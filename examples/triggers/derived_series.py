"""A series that is calculated from two others of its device. Put this file into the trigger folder, then:

CREATE STATELESS TRIGGER power AFTER INSERT ON root.plant.** AS 'derived_series:Product'
WITH ("left" = "volts", "right" = "amps", "into" = "watts")
"""

from __future__ import annotations

from collections.abc import Mapping

from millrace_triggers import Tablet, Trigger


class Product(Trigger):
    """Writes left * right of each row that has both. What it writes fires triggers again: a pattern such as
    ``root.plant.**`` matches it too, but a tablet without the two measurements gives nothing."""

    def validate(self, attributes: Mapping[str, str]) -> None:
        left, right, into = (attributes[name] for name in ("left", "right", "into"))
        if into in (left, right):
            raise ValueError('"into" must be another measurement than "left" and "right"')

    def on_create(self, attributes: Mapping[str, str]) -> None:
        self._left, self._right, self._into = (attributes[name] for name in ("left", "right", "into"))

    def fire(self, tablet: Tablet) -> bool:
        if not {self._left, self._right} <= set(tablet.measurements):
            return True
        both = tablet.present(self._left) & tablet.present(self._right)
        if both.any():
            product = tablet.values(self._left)[both].astype(float) * tablet.values(self._right)[both]
            tablet.write(f"{tablet.device}.{self._into}", tablet.times[both], product)
        return True
