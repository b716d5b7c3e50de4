"""Where a trigger's class comes from: the trigger folder, and files that a statement names."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx

from millrace_core.dialect.iotdb.codes import IotdbError, Status
from millrace_core.dialect.iotdb.statements import CreateTrigger
from millrace_core.errors import Position

INSTALLED = "install"
"""The folder, within the trigger folder, of files that came from elsewhere, named by their hash."""
MOST_BYTES = 64 * 1024 * 1024
SECONDS = 60.0
_SUFFIXES = (".py", ".zip", ".whl")


def place_of(folder: Path, statement: CreateTrigger) -> str | None:
    """What the class is loaded from, below ``folder``; None: the folder itself.

    :raises IotdbError: CREATE_TRIGGER_ERROR for a file that does not exist or is not below it,
        TRIGGER_DOWNLOAD_ERROR for one that cannot be fetched or does not have that hash.
    """
    if statement.uri is None:
        return None
    where = statement.position
    inside = _inside(folder, statement.uri)
    if statement.sha256 is None:
        if inside is None or not inside.is_file():
            raise _refused(f"there is no file {statement.uri} in the trigger folder {folder}", where)
        _check_suffix(inside.name, where)
        return str(inside.relative_to(folder.resolve()))
    name = Path(unquote(urlsplit(statement.uri).path)).name
    _check_suffix(name, where)
    wanted = statement.sha256.lower()
    target = folder / INSTALLED / wanted / name
    if not _is(target, wanted):
        data = (
            inside.read_bytes() if inside is not None and inside.is_file() else _fetched(statement.uri, where)
        )
        found = hashlib.sha256(data).hexdigest()
        if found != wanted:
            raise IotdbError(
                Status.TRIGGER_DOWNLOAD_ERROR,
                f"the SHA-256 of {statement.uri} is {found}, not {wanted}",
                where,
            )
        _install(target, data)
    return str(target.relative_to(folder))


def check_again(folder: Path, file: str | None, sha256: str | None) -> None:
    """Check code that has a hash before it is loaded again. :raises IotdbError: TRIGGER_DOWNLOAD_ERROR."""
    if file is not None and sha256 is not None and not _is(folder / file, sha256.lower()):
        raise IotdbError(
            Status.TRIGGER_DOWNLOAD_ERROR,
            f"the file {file} is missing from the trigger folder, or its SHA-256 has changed",
        )


def _is(file: Path, sha256: str) -> bool:
    return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == sha256


def _inside(folder: Path, uri: str) -> Path | None:
    if "://" in uri:
        return None
    found = (folder / uri).resolve()
    return found if found.is_relative_to(folder.resolve()) else None


def _check_suffix(name: str, where: Position) -> None:
    if not name.endswith(_SUFFIXES):
        raise _refused(
            f"{name!r} is neither a module nor an archive of modules: its name must end in one of "
            f"{', '.join(_SUFFIXES)}",
            where,
        )


def _fetched(uri: str, where: Position) -> bytes:
    parts = urlsplit(uri)
    try:
        if parts.scheme in ("", "file"):
            return Path(unquote(parts.path)).read_bytes()
        if parts.scheme not in ("http", "https"):
            raise _refused(f"{uri} cannot be fetched: the URI must begin with http, https or file", where)
        with httpx.stream("GET", uri, timeout=SECONDS, follow_redirects=True) as response:
            response.raise_for_status()
            data = b""
            for part in response.iter_bytes():
                data += part
                if len(data) > MOST_BYTES:
                    raise _refused(f"{uri} is larger than {MOST_BYTES} bytes", where)
            return data
    except (OSError, httpx.HTTPError, httpx.InvalidURL) as error:
        raise IotdbError(
            Status.TRIGGER_DOWNLOAD_ERROR, f"{uri} cannot be fetched: {error or type(error).__name__}", where
        ) from error


def _install(target: Path, data: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}")
    part.write_bytes(data)
    part.replace(target)


def _refused(message: str, where: Position) -> IotdbError:
    return IotdbError(Status.CREATE_TRIGGER_ERROR, message, where)
