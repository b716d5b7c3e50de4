"""The table store over a real broker: what only its log has."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from millrace_core.model.schema import Child
from millrace_wal import KafkaLog

from ...unit.calc.conftest import METERS, TOPIC, Running

pytestmark = pytest.mark.java


def test_rows_of_transactions_are_read_and_waited_for(broker: str, tmp_path: Path) -> None:
    with KafkaLog(broker, "test") as log:
        running = Running(tmp_path / "tables", log=log)
        running.define(METERS, Child("power", "meters", "m1", (1,)))
        running.start()
        try:
            producer = Producer({"bootstrap.servers": broker, "transactional.id": "rows"})
            producer.init_transactions(30)
            for number, finish in enumerate((producer.commit_transaction, producer.abort_transaction)):
                producer.begin_transaction()
                producer.produce(TOPIC, key=b"m1", value=b'{"ts":%d}' % number)
                producer.flush(30)
                finish(30)
            # the end lies behind the marks of both transactions, where no record is
            assert list(running.rows()) == [("m1", 0)]
            running.restart()
            assert list(running.rows()) == [("m1", 0)]
        finally:
            running.stop()
