"""``python -m trigger_svc``: runs until it is told to stop; exits with 1 if the query fails for good.
``--stand-by FIFO``: start Spark, then wait until something is written to the FIFO and go on."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from millrace_service import Lives, configure_logs, load_settings, start_tracing, turn_of, wait_for_turn
from millrace_service.web import serve, service_app
from millrace_wal import KafkaLog
from trigger_svc.engine import Engine
from trigger_svc.metrics import BATCH_SECONDS, IMPATIENT, MESSAGES, OFFSETS_LOST, SlotMetrics
from trigger_svc.settings import TriggerSettings
from trigger_svc.spark.session import start_session


def main() -> int:
    settings = load_settings(TriggerSettings)
    logger = configure_logs("trigger-svc", settings.log_level)
    token = settings.token
    session, turn = None, turn_of(sys.argv[1:])
    if turn is not None:
        session = start_session(settings)
        wait_for_turn(turn)
    log = KafkaLog(settings.broker, "trigger-svc", settings.kafka.librdkafka)
    lives = Lives(logger, settings.stall_seconds)
    tracing = start_tracing(settings, "trigger-svc")
    engine = Engine(settings, log, logger, lives, tracing, session)
    registry = CollectorRegistry()
    for metric in (OFFSETS_LOST, IMPATIENT, MESSAGES, BATCH_SECONDS):
        registry.register(metric)
    SlotMetrics(registry, log)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        engine.start()
        yield
        engine.stop()

    app = service_app("trigger-svc", engine.health, lifespan, registry, token, documented=False)
    status = serve(app, settings.host, settings.trigger_port, settings.stop_seconds, tls=settings.tls_pair)
    tracing.close()
    log.close()
    return status


if __name__ == "__main__":
    sys.exit(main())
