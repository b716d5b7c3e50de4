"""One run of a continuous query over many devices, ALIGN BY DEVICE: where the gateway's time goes.

    .venv/bin/python -m bench.iotdb_cq [devices]

The log is in memory, and what calc-svc would answer is there already: a value of each device. The first run
makes as many devices with a series each, the later ones find them.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import httpx
import msgspec
import pyarrow as pa
import structlog

from api_gateway.iotdb.cq import run_once
from api_gateway.service import Gateway
from api_gateway.settings import GatewaySettings
from bench.iotdb_triggers import DB, catalog
from millrace_core.model.continuous import ContinuousQuery
from millrace_core.timeline.continuous import Run
from millrace_wal import MemoryLog

EVERY = 60_000
TEXT = (
    f"CREATE CQ bench BEGIN SELECT avg(m0) INTO root.mean.::(m0) FROM {DB}.** "
    "GROUP BY(1m) ALIGN BY DEVICE END"
)


def answer(devices: list[str]) -> bytes:
    """Count and sum of each device, in the one group of a run, as calc-svc sends them."""
    parts = (
        ("tbname", "VARCHAR(192)", pa.array(devices)),
        ("_wstart", "TIMESTAMP", pa.array([0] * len(devices), pa.int64())),
        ("count", "BIGINT", pa.array([2] * len(devices), pa.int64())),
        ("sum", "DOUBLE", pa.array([3.0] * len(devices))),
    )
    fields = [
        pa.field(name, values.type, metadata={"millrace.type": type_, "millrace.precision": "ms"})
        for name, type_, values in parts
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema(fields)) as writer:
        writer.write_batch(pa.record_batch([part[2] for part in parts], schema=pa.schema(fields)))
    return bytes(sink.getvalue().to_pybytes())


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    devices = [f"{DB}.line{i % 100}.d{i}" for i in range(count)]
    log = MemoryLog()
    catalog(log, devices)
    told = answer(devices)
    calc = httpx.MockTransport(lambda _: httpx.Response(200, content=told))
    well = httpx.MockTransport(lambda _: httpx.Response(200, json={"detail": {}}))
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as place:
        settings = GatewaySettings(data_dir=Path(place))
        gateway = Gateway(log, settings, structlog.get_logger(), calc, well)
        gateway.start()
        query = ContinuousQuery("bench", 1, TEXT, "root", "UTC", 0, EVERY, 0, EVERY, 0)
        with gateway.context.writer.ddl:
            gateway.context.writer.write([msgspec.structs.replace(query, created=10**15)])
        query = gateway.context.catalog.cqs["bench"]
        for number in range(1, 5):
            begin = time.process_time()
            rows = run_once(gateway.context, Run(query, number * EVERY))
            seconds.append(time.process_time() - begin)
            assert rows == count
        gateway.stop()
    figures = {"devices": count, "first_run_s": seconds[0], "later_run_s": min(seconds[1:])}
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
