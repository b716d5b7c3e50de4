"""Rows into Millrace by a plain Kafka producer: python examples/producer.py (needs a running stack).

The topic is ``wal.<database>.<table>``, the key the child table's name, the value JSON: one row, an array of
rows, or an object with one array per column. The super table must exist (README.md's first stream makes it);
a child table that does not exist yet is made by its tags in the message.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from confluent_kafka import Producer

TOPIC = "wal.power.meters"


def access() -> dict[str, str]:
    """Who writes, for a broker that asks (docs/SECURITY.md)."""
    protocol = os.environ.get("MILLRACE_KAFKA_PROTOCOL", "PLAINTEXT")
    if not protocol.startswith("SASL_"):
        return {}
    password = Path(os.environ["MILLRACE_KAFKA_PASSWORD_FILE"]).read_text().strip()
    user = os.environ.get("MILLRACE_KAFKA_USER", "producer")
    found = {"security.protocol": protocol, "sasl.mechanism": "PLAIN"}
    found |= {"sasl.username": user, "sasl.password": password}
    authority = os.environ.get("MILLRACE_KAFKA_CA")
    return found | ({"ssl.ca.location": authority} if authority else {})


def main() -> None:
    """Writes one message of each kind for a child table that the first one makes."""
    broker = os.environ.get("MILLRACE_BROKER", "127.0.0.1:19092")
    # as Java clients and Millrace: a table's rows stay in one partition, in order, whoever writes
    own = {"bootstrap.servers": broker, "acks": "all", "partitioner": "murmur2_random"}
    producer = Producer(own | access())
    now = time.time_ns() // 1_000_000
    for value in (
        {"tags": {"site": 2}, "rows": [{"ts": now, "amps": 1.5}]},
        {"ts": now + 1_000, "amps": 1.6},
        [{"ts": now + 2_000, "amps": 1.7}, {"ts": now + 3_000, "amps": 1.8}],
        {"ts": [now + 4_000, now + 5_000], "amps": [1.9, 2.0]},
    ):
        producer.produce(TOPIC, key="m2", value=json.dumps(value))
    if left := producer.flush(15):
        raise SystemExit(f"{left} messages were not written: does {TOPIC} exist, and does {broker} answer?")


if __name__ == "__main__":
    main()
