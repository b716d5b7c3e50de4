"""The Java dependencies: one ``ivy.xml``, resolved by the Ivy that pyspark ships."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from millrace.java import Java
from millrace.settings import CommandSettings
from millrace_core.errors import ErrorCode, MillraceError
from millrace_service import load_settings

Report = Callable[[str], None]

_PATTERN = "[conf]/[artifact]-[revision].[ext]"
_STAMP = ".stamp"
_TROUBLE = re.compile(r"unresolved dependency|not found|FAILED|UNRESOLVED|[Ee]xception|[Ee]rror")


def ivy_jar() -> Path:
    """The Ivy jar inside the installed pyspark; ``MillraceError`` (UNAVAILABLE) if it is not there."""
    spec = importlib.util.find_spec("pyspark")
    places = spec.submodule_search_locations if spec else None
    for place in places or ():
        for jar in sorted(Path(place, "jars").glob("ivy-*.jar")):
            return jar
    raise MillraceError(
        ErrorCode.UNAVAILABLE, "pyspark, whose Ivy resolves the Java jars, is not installed: run `make venv`"
    )


def digest(ivy_xml: Path) -> str:
    """A digest that identifies the jars of an ``ivy.xml``."""
    return hashlib.sha256(ivy_xml.read_bytes()).hexdigest()


def is_resolved(ivy_xml: Path, jars_dir: Path) -> bool:
    """Whether ``jars_dir`` holds the jars of this very ``ivy.xml``."""
    stamp = jars_dir / _STAMP
    return stamp.is_file() and stamp.read_text() == digest(ivy_xml)


@contextmanager
def _locked(jars_dir: Path) -> Iterator[None]:
    """Only one process resolves into a folder at a time."""
    with (jars_dir / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _retrieve(java: Java, ivy_xml: Path, jars_dir: Path, target: Path, report: Report) -> None:
    """Runs Ivy and reports what it finds; its files land in ``target/<conf>/``."""
    command = [str(java.program), "-jar", str(ivy_jar()), "-cache", str(jars_dir / ".cache")]
    if settings := load_settings(CommandSettings).ivy_settings:
        command += ["-settings", settings]
    command += ["-ivy", str(ivy_xml), "-retrieve", f"{target}/{_PATTERN}"]
    trouble: list[str] = []
    fetching = False
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        assert ivy.stdout is not None
        for line in map(str.strip, ivy.stdout):
            if line.startswith("found "):
                report(f"  found {line.split()[1].split('#')[-1].replace(';', ' ')}")
            elif line.startswith("downloading ") and not fetching:
                fetching = True
                report("  downloading what is not in the cache")
            elif _TROUBLE.search(line):
                trouble.append(line)
    if ivy.returncode:
        said = "; ".join(dict.fromkeys(trouble[:4])) or f"Ivy exited with status {ivy.returncode}"
        raise MillraceError(ErrorCode.UNAVAILABLE, f"the Java jars could not be resolved: {said}")


def _install(source: Path, jars_dir: Path) -> int:
    """Moves the jars in, file by file (a running Java keeps its old ones), then deletes those that are not
    wanted any more; returns the number of jars."""
    wanted = {jar.relative_to(source) for jar in source.glob("*/*.jar")}
    for name in wanted:
        (jars_dir / name).parent.mkdir(exist_ok=True)
        (source / name).replace(jars_dir / name)
    for jar in jars_dir.glob("[!.]*/*.jar"):
        if jar.relative_to(jars_dir) not in wanted:
            jar.unlink()
    return len(wanted)


def resolve(java: Java, ivy_xml: Path, jars_dir: Path, report: Report) -> bool:
    """Fills ``jars_dir/<conf>/`` with the jars of ``ivy_xml``; False if they were there already.

    The stamp is written last, so an interrupted run is simply done again.
    """
    jars_dir = jars_dir.resolve()
    jars_dir.mkdir(parents=True, exist_ok=True)
    if is_resolved(ivy_xml, jars_dir):
        return False
    with _locked(jars_dir):
        if is_resolved(ivy_xml, jars_dir):
            return False
        report(f"resolving the Java jars of {ivy_xml.name}")
        target = Path(tempfile.mkdtemp(prefix=".new-", dir=jars_dir))
        try:
            _retrieve(java, ivy_xml, jars_dir, target, report)
            count = _install(target, jars_dir)
            (jars_dir / _STAMP).write_text(digest(ivy_xml))
        finally:
            shutil.rmtree(target, ignore_errors=True)
    report(f"{count} jars in {jars_dir}")
    return True
