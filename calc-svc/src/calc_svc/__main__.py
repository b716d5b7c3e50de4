"""``python -m calc_svc``: start, serve until told to stop, flush, stop. ``--stand-by FIFO``: start Spark,
then wait until something is written to the FIFO and go on."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from calc_svc.settings import CalcSettings
from calc_svc.spark.start import for_streams
from millrace_service import configure_logs, load_settings, turn_of, wait_for_turn

if TYPE_CHECKING:
    from fastapi import FastAPI


def main() -> int:
    settings = load_settings(CalcSettings)
    configure_logs("calc-svc", settings.log_level)
    # what Spark refuses is told to whoever asked, so it need not be logged
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    token = settings.token
    spark = for_streams(settings)
    spark.begin()
    # loading the rest takes about as long as the JVM
    from calc_svc.http.app import calc_app
    from calc_svc.service import CalcService, calc_engine
    from millrace_service.web import serve

    engine, turn = calc_engine(spark), turn_of(sys.argv[1:])
    if turn is not None:
        engine.start()
        engine.warm_up()
        wait_for_turn(turn)
    service = CalcService(settings, engine)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        # in the background: /healthz answers "not ready" meanwhile
        service.start()
        try:
            yield
        finally:
            service.stop()

    app = calc_app(service.calculator, service.store, service.health, lifespan, token)
    return serve(app, settings.host, settings.calc_port, settings.stop_seconds, tls=settings.tls_pair)


if __name__ == "__main__":
    sys.exit(main())
