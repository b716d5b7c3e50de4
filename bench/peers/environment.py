"""Environments of the peers: each a Python of its own, outside Millrace's, made by uv; jars by Ivy.

They are kept in ``.peers/`` of the project (``MILLRACE_PEERS_DIR`` moves it) and made anew only if what they
shall hold has changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.stage import BenchError, say
from millrace import jars
from millrace.java import find_java
from millrace.settings import project_root

_STAMP = "made-of"
_IVY = """<ivy-module version="2.0">
  <info organisation="millrace" module="{name}"/>
  <configurations><conf name="{name}"/></configurations>
  <dependencies>
    <dependency org="{org}" name="{artifact}" rev="{version}" conf="{name}->default" transitive="false"/>
  </dependencies>
</ivy-module>
"""


def home() -> Path:
    """The folder of all environments."""
    return Path(os.environ.get("MILLRACE_PEERS_DIR", project_root() / ".peers")).absolute()


def python(name: str, requirements: Sequence[str]) -> Path:
    """The Python of an environment that holds these packages, made if need be. :raises BenchError: if it
    cannot be made."""
    place = home() / name
    found, stamp, wanted = place / "bin" / "python", place / _STAMP, "\n".join(requirements)
    if stamp.is_file() and stamp.read_text() == wanted:
        return found
    say(f"making {place} with {', '.join(requirements)}")
    shutil.rmtree(place, ignore_errors=True)
    uv = _uv()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    _run([uv, "venv", "--quiet", "--python", version, str(place)])
    _run([uv, "pip", "install", "--quiet", "--python", str(found), *requirements])
    stamp.write_text(wanted)
    return found


def jar(org: str, artifact: str, version: str) -> Path:
    """A jar by its coordinates, fetched by the Ivy that fetches Millrace's own."""
    place = home() / "jars" / artifact
    place.mkdir(parents=True, exist_ok=True)
    description = place / "ivy.xml"
    description.write_text(_IVY.format(name="jar", org=org, artifact=artifact, version=version))
    jars.resolve(find_java(), description, place, say)
    return place / "jar" / f"{artifact}-{version}.jar"


def _uv() -> str:
    """uv of Millrace's own environment (``make venv`` puts it there), else the one on PATH."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise BenchError(
            "uv, which makes the peers' environments, was found neither beside this Python nor on PATH"
        )
    return found


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"`{' '.join(command)}` failed: {done.stderr.strip()[-2000:]}")
