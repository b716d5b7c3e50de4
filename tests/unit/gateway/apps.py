"""One app for all gateways of the same settings: its routes are made once, which takes longer than a test.

The routes ask the gateway that was served last: a test that talks to two at once makes its own apps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from fastapi import FastAPI

from api_gateway.service import Gateway, gateway_app
from api_gateway.settings import GatewaySettings


class _Now:
    """Stands for what ``of`` gives when it is used."""

    def __init__(self, of: Callable[[], Any]) -> None:
        self._of = of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of(), name)


class _Served:
    """What :func:`gateway_app` takes of a gateway: of the one that is served now."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway, self.token = gateway, gateway.token
        self.context = _Now(lambda: self.gateway.context)
        self.executor = _Now(lambda: self.gateway.executor)
        self.iotdb = _Now(lambda: self.gateway.iotdb)
        self.logins = _Now(lambda: self.gateway.logins)

    def health(self) -> Any:
        return self.gateway.health()


_APPS: dict[GatewaySettings, tuple[_Served, FastAPI]] = {}


def app_of(gateway: Gateway) -> FastAPI:
    """The app, which serves this gateway from now on. Its lifespan is whoever's made the gateway."""
    settings = gateway.context.settings
    if settings not in _APPS:
        served = _Served(gateway)
        _APPS[settings] = served, gateway_app(cast(Gateway, served))
    served, app = _APPS[settings]
    served.gateway = gateway
    return app
