"""Finds the Java that the broker and Spark run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from millrace_core.errors import ErrorCode, MillraceError

OLDEST = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


class Java(NamedTuple):
    """A Java runtime: its ``java`` program, its home, its feature version (17, 21, …)."""

    program: Path
    home: Path
    version: int


def version_of(banner: str) -> int | None:
    """The feature version in what ``java -version`` prints (``1.8.0_392`` is 8), or None."""
    match = _VERSION.search(banner)
    return int(match[1]) if match else None


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The Java of ``JAVA_HOME``, else the one on ``PATH``.

    Raises ``MillraceError`` (UNAVAILABLE) with one sentence if there is none, or it is too old.
    """
    env = os.environ if environment is None else environment
    home = env.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java", path=env.get("PATH"))
    where = f"JAVA_HOME ({home})" if home else "PATH"
    if found is None or not os.access(found, os.X_OK):
        raise MillraceError(
            ErrorCode.UNAVAILABLE, f"Java {OLDEST} or newer is required, but java was not found in {where}"
        )
    banner = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = version_of(banner.stderr + banner.stdout)
    if version is None or version < OLDEST:
        said = f"Java {version}" if version else "not a working Java"
        raise MillraceError(
            ErrorCode.UNAVAILABLE, f"Java {OLDEST} or newer is required, but the one in {where} is {said}"
        )
    program = Path(found).resolve()
    return Java(program, program.parent.parent, version)
