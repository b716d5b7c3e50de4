"""The service token: one for all services of a folder, read by its owner alone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from millrace.settings import StackSettings
from millrace_core.errors import ErrorCode, MillraceError
from millrace_service import Health, ServiceSettings, ServiceToken, find_token, load_settings
from millrace_service.web import service_app

TEXT = "a-token-of-this-test"


def test_the_first_to_ask_makes_the_file_and_the_others_read_it(tmp_path: Path) -> None:
    found: list[ServiceToken] = []
    asking = [
        threading.Thread(target=lambda: found.append(find_token("", "", tmp_path / "new"))) for _ in range(8)
    ]
    for one in asking:
        one.start()
    for one in asking:
        one.join()
    file = tmp_path / "new" / "service-token"
    assert {one.header["Authorization"] for one in found} == {f"Bearer {file.read_text()}"}
    assert len(found) == 8
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]
    assert len(file.read_text()) >= 43  # 32 random bytes


def test_each_folder_has_its_own(tmp_path: Path) -> None:
    assert find_token("", "", tmp_path / "a").header != find_token("", "", tmp_path / "b").header


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    find_token("", "", tmp_path)
    (tmp_path / "service-token").chmod(0o640)
    with pytest.raises(MillraceError, match="other users may read the service token") as caught:
        find_token("", "", tmp_path)
    assert caught.value.code is ErrorCode.INVALID_VALUE


def test_a_secret_that_is_mounted_is_read_and_never_made(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    with pytest.raises(MillraceError, match=r"MILLRACE_SERVICE_TOKEN_FILE = .*: No such file"):
        find_token("", str(secret), tmp_path)
    secret.write_text(f"{TEXT}\n")
    secret.chmod(0o444)
    assert find_token("", str(secret), tmp_path).header == {"Authorization": f"Bearer {TEXT}"}
    assert not (tmp_path / "service-token").exists()


def test_the_setting_goes_before_the_file(tmp_path: Path) -> None:
    given = load_settings(
        ServiceSettings, {"MILLRACE_SERVICE_TOKEN": TEXT, "MILLRACE_DATA_DIR": str(tmp_path)}
    )
    assert given.token.header == {"Authorization": f"Bearer {TEXT}"}
    assert TEXT not in repr(given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["short", "sixteen letters and a blank", "sixteen-letters-é", "a" * 513])
def test_a_token_that_is_easy_to_guess_or_fits_no_header_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(MillraceError, match="16 to 512 letters") as caught:
        find_token(text, "", tmp_path)
    assert text not in str(caught.value)


def test_a_stack_and_its_services_have_the_same(tmp_path: Path) -> None:
    for secret in ("", TEXT):
        stack = StackSettings(
            tmp_path, tmp_path, 1, dict.fromkeys(("api-gateway", "calc-svc", "notify-svc", "trigger-svc"), 2),
            service_token=secret,
        )  # fmt: skip
        assert load_settings(ServiceSettings, stack.variables()).token.header == stack.token.header
        assert not secret or secret not in repr(stack)


@pytest.mark.parametrize(
    "given",
    [None, "", TEXT, f"Basic {TEXT}", f"Bearer {TEXT}x", f"Bearer {TEXT[:-1]}", "Bearer ", "Bearer é"],
)
def test_without_it_a_service_says_that_it_lives_and_nothing_else(given: str | None) -> None:
    app = service_app("x", lambda: Health(False, {"problem": "power.meters"}), token=ServiceToken(TEXT))
    headers = {} if given is None else {"Authorization": given.encode()}
    client = TestClient(app)
    health = client.get("/healthz", headers=headers)
    assert (health.status_code, health.json()) == (503, {"service": "x", "ready": False})
    refused = client.get("/metrics", headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (401, "AUTHENTICATION")
    assert TEXT not in refused.text


def test_an_app_that_was_given_none_believes_nobody() -> None:
    client = TestClient(service_app("x", lambda: Health(True)))
    assert client.get("/metrics", headers={"Authorization": "Bearer "}).status_code == 401


def test_every_route_of_an_inner_service_takes_it() -> None:
    from calc_svc.http.app import calc_app

    unasked = object()
    app = calc_app(unasked, unasked, lambda: Health(True), None, ServiceToken(TEXT))  # type: ignore[arg-type]
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    assert {route.path for route in routes} >= {"/healthz", "/metrics", "/query", "/describe", "/verify"}
    assert len(routes) == len(app.routes)  # it does not describe itself
    client = TestClient(app)
    for route in routes:
        for method in route.methods:
            body = b'{"sql": "SELECT 1", "user": "root"}'
            status = client.request(method, route.path, content=body).status_code
            assert status == (200 if route.path == "/healthz" else 401), route.path
