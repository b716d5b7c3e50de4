"""The alerting example of IoTDB's guide, in Python: events for Alertmanager. Put this file into the trigger
folder, then:

CREATE STATELESS TRIGGER alerting BEFORE INSERT ON root.ln.wf01.wt01.temperature
AS 'cluster_alerting:ClusterAlertingExample' WITH ("url" = "http://127.0.0.1:9093/api/v2/alerts")
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping

from millrace_triggers import Tablet, Trigger

URL = "http://127.0.0.1:9093/api/v2/alerts"
SECONDS = 2.0
CRITICAL, WARNING = 100.0, 50.0


class ClusterAlertingExample(Trigger):
    """An event for each value of a DOUBLE series above 50; above 100 it is critical. All of a tablet go with
    one request."""

    def validate(self, attributes: Mapping[str, str]) -> None:
        if not attributes.get("url", URL).startswith(("http://", "https://")):
            raise ValueError('"url" must begin with http:// or https://')

    def on_create(self, attributes: Mapping[str, str]) -> None:
        self._url = attributes.get("url", URL)
        self._annotations = {
            "summary": "high temperature",
            "description": "{{.alertname}}: {{.series}} is {{.value}}",
        }

    def fire(self, tablet: Tablet) -> bool:
        events = []
        for name in tablet.measurements:
            if tablet.type(name) == "DOUBLE":
                values = tablet.values(name)
                for value in values[tablet.present(name) & (values > WARNING)].tolist():
                    labels = {
                        "alertname": "alert_test", "series": f"{tablet.device}.{name}", "value": str(value),
                        "severity": "critical" if value > CRITICAL else "warning",
                    }  # fmt: skip
                    events.append({"labels": labels, "annotations": self._annotations})
        if events:
            self._send(json.dumps(events).encode())
        return True

    def _send(self, body: bytes) -> None:
        # the address is an attribute that CREATE TRIGGER was given, by root alone
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})  # noqa: S310
        with urllib.request.urlopen(request, timeout=SECONDS):  # noqa: S310
            pass
