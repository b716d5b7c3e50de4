"""Where the code of a trigger may come from, over HTTP and in archives."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from tests.unit.gateway.test_insert_triggers import Iotdb, iotdb

from millrace_core.dialect.iotdb.codes import Status

__all__ = ["iotdb"]
CODE = b"""
class Marks:
    def fire(self, tablet):
        tablet.write("root.p.marks.n", tablet.times, [1] * len(tablet))
"""
SHA256 = hashlib.sha256(CODE).hexdigest()


@pytest.fixture
def shelf() -> Iterator[tuple[str, dict[str, bytes]]]:
    """A server of files, and what it was asked for is taken from here."""
    files: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = files.get(self.path)
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write(found or b"")

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", files
    server.shutdown()
    server.server_close()


def statement(uri: str, sha256: str | None = None, kind: str = "marks:Marks") -> str:
    clause = f' WITH ("sha256" = "{sha256}")' if sha256 else ""
    return f"CREATE STATELESS TRIGGER t AFTER INSERT ON root.p.d.v AS '{kind}' USING URI '{uri}'{clause}"


def test_code_is_fetched_with_its_hash_once(iotdb: Iotdb, shelf: tuple[str, dict[str, bytes]]) -> None:
    url, files = shelf
    files["/marks.py"] = CODE
    assert iotdb.refused(statement(f"{url}/marks.py")).status is Status.CREATE_TRIGGER_ERROR
    iotdb(statement(f"{url}/marks.py", SHA256.upper()))
    iotdb.insert(1, 1)
    assert iotdb.values("root.p.marks", "n") == [1]
    files.clear()  # it is kept
    iotdb.restart()
    iotdb.insert(2, 1)
    assert iotdb.values("root.p.marks", "n") == [1, 1]


@pytest.mark.parametrize(
    ("path", "sha256", "status", "said"),
    [
        ("/gone.py", SHA256, Status.TRIGGER_DOWNLOAD_ERROR, "404"),
        ("/other.py", SHA256, Status.TRIGGER_DOWNLOAD_ERROR, f"not {SHA256}"),
        ("/marks.jar", SHA256, Status.CREATE_TRIGGER_ERROR, ".py, .zip, .whl"),
        ("/marks.py", "12", Status.CREATE_TRIGGER_ERROR, "64 hexadecimal digits"),
    ],
)
def test_what_cannot_be_fetched_makes_no_trigger(
    iotdb: Iotdb, shelf: tuple[str, dict[str, bytes]], path: str, sha256: str, status: Status, said: str
) -> None:
    url, files = shelf
    files |= {"/marks.py": CODE, "/marks.jar": CODE, "/other.py": CODE + b"#"}
    found = iotdb.refused(statement(url + path, sha256))
    assert (found.status, said in str(found)) == (status, True), str(found)
    assert iotdb("SHOW TRIGGERS").rows == []
    assert not (iotdb.folder / "install" / SHA256).exists()


def test_an_address_that_nobody_answers(iotdb: Iotdb) -> None:
    for uri in ("http://127.0.0.1:1/marks.py", "file:///nowhere/marks.py"):
        found = iotdb.refused(statement(uri, SHA256))
        assert (found.status, "cannot be fetched" in str(found)) == (Status.TRIGGER_DOWNLOAD_ERROR, True)
    assert iotdb.refused(statement("ftp://127.0.0.1/marks.py", SHA256)).status is Status.CREATE_TRIGGER_ERROR


def test_an_archive_below_the_folder_needs_no_hash(iotdb: Iotdb) -> None:
    with zipfile.ZipFile(iotdb.folder / "made.zip", "w") as archive:
        archive.writestr("plant/__init__.py", "")
        archive.writestr("plant/marks.py", CODE)
    iotdb(statement("made.zip", kind="plant.marks:Marks"))
    iotdb.insert(1, 1)
    assert iotdb.values("root.p.marks", "n") == [1]
    assert iotdb.refused("DROP TRIGGER T").status is Status.DROP_TRIGGER_ERROR
    iotdb("DROP TRIGGER t")
    found = iotdb.refused(statement("../made.zip", kind="plant.marks:Marks"))
    assert (found.status, "not in the trigger folder" in str(found)) == (Status.CREATE_TRIGGER_ERROR, True)
