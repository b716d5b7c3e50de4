"""A webhook for each value above a limit. Put this file into the trigger folder, then:

CREATE STATELESS TRIGGER hot AFTER INSERT ON root.plant.**.temperature
AS 'threshold_alert:ThresholdAlert' WITH ("limit" = "100", "url" = "http://127.0.0.1:9093/alerts")
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping

from millrace_triggers import Tablet, Trigger

SECONDS = 2.0


class ThresholdAlert(Trigger):
    """A webhook that cannot be reached is a failed firing: it is counted and logged. After a crash an alert
    may be sent twice."""

    def validate(self, attributes: Mapping[str, str]) -> None:
        float(attributes["limit"])
        if not attributes["url"].startswith(("http://", "https://")):
            raise ValueError('"url" must begin with http:// or https://')

    def on_create(self, attributes: Mapping[str, str]) -> None:
        self._limit, self._url = float(attributes["limit"]), attributes["url"]

    def fire(self, tablet: Tablet) -> bool:
        alerts = []
        for name in tablet.measurements:
            values = tablet.values(name)
            if values.dtype.kind in "if":
                above = tablet.present(name) & (values > self._limit)
                found = zip(tablet.times[above].tolist(), values[above].tolist(), strict=True)
                alerts += [{"series": f"{tablet.device}.{name}", "time": at, "value": v} for at, v in found]
        if alerts:
            body = json.dumps({"alerts": alerts}).encode()
            # the same address
            request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})  # noqa: S310
            # the address is an attribute that CREATE TRIGGER was given, by root alone
            with urllib.request.urlopen(request, timeout=SECONDS):  # noqa: S310
                pass
        return True
