"""An archive of the classes that Spark's JVM loads: the next JVM maps it, instead of reading, checking and
linking some 15,000 classes from jars (decision 0075).

A JVM that finds no archive writes down the names of the classes that it loads. Once it has been up for a
while, a process of the lowest priority makes the archive from these names, for all JVMs that start later.
Nothing depends on the archive: a JVM for which it is damaged, or of other jars, starts as if there were none.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

AFTER = 60.0
"""Seconds after its start by which a JVM has loaded what it needs for its usual work."""
KEPT = 4
"""As many lists of JVMs that found no archive are kept: where none ever lives long enough to have the archive
made, each start would add one."""
LOWEST = ("nice", "-n", "19")
_MAKE_SECONDS = 600.0


def home_of_java() -> Path | None:
    """The folder of the Java that Spark starts; None: there is none."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    return Path(found).resolve().parent.parent if found else None


def known_by(java_home: Path, jars: Iterable[Path]) -> str:
    """What tells archives apart: this Java, and these jars in this order."""
    stamp = hashlib.sha256(str(java_home).encode())
    for file in (java_home / "lib" / "server" / "libjvm.so", *jars):
        with suppress(OSError):
            found = file.stat()
            stamp.update(f"\0{file}\0{found.st_size}\0{found.st_mtime_ns}".encode())
    return stamp.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive ``folder/name.jsa``; ``folder`` is shared by all processes that start such JVMs."""

    folder: Path
    name: str

    @property
    def file(self) -> Path:
        return self.folder / f"{self.name}.jsa"

    @property
    def _written(self) -> Path:
        """The file in which the JVM of this process writes down what it loads."""
        return self.folder / f"{self.name}.{os.getpid()}.classes"

    @property
    def there(self) -> bool:
        return self.file.is_file()

    def options(self, there: bool) -> list[str]:
        """The options with which a JVM uses the archive, or else helps to make it."""
        if there:
            # a JVM's messages about an archive that it cannot use would not help those who read its output
            return [f"-XX:SharedArchiveFile={self.file}", "-Xlog:disable", "-Xlog:all=error:stderr"]
        try:
            self.folder.mkdir(exist_ok=True)
            for old in self._lists()[: 1 - KEPT]:
                old.unlink(missing_ok=True)
            self._written.touch()
        except OSError:  # the folder of the jars does not exist, or is not ours
            return []
        return [f"-XX:DumpLoadedClassList={self._written}"]

    def used_by(self, pid: int) -> bool:
        """Whether the JVM of this process id has mapped the archive."""
        try:
            return str(self.file.resolve()) in Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            return True  # the JVM has ended

    def discard(self) -> None:
        """Have the archive made anew. JVMs that use the old one keep it."""
        self.file.unlink(missing_ok=True)

    def make(self, java_home: Path, class_path: str) -> bool:
        """Make the archive, unless it exists or somebody else is making it; returns whether it was made."""
        with self._alone() as alone:
            if not alone or self.there:
                return False
            draft, names = self.folder / f".{self.name}.new", self.folder / f".{self.name}.classes"
            names.write_text("".join(f"{line}\n" for line in self.names()))
            try:
                if not _dump(java_home, class_path, names, draft):
                    return False
                draft.replace(self.file)
            finally:
                for file in (draft, names, *self._lists()):
                    file.unlink(missing_ok=True)
        return True

    def names(self) -> list[str]:
        """What JVMs have written down, each line once. The last line of a running JVM may be incomplete:
        it is left out."""
        found: dict[str, None] = {}
        for file in self._lists():
            whole, _, _ = file.read_text(errors="replace").rpartition("\n")
            found |= dict.fromkeys(line for line in whole.split("\n") if line and not line.startswith("#"))
        return list(found)

    def _lists(self) -> list[Path]:
        """What JVMs write or have written, the newest last."""
        found: list[tuple[float, Path]] = []
        for file in self.folder.glob(f"{self.name}.*.classes"):
            with suppress(OSError):  # another process has just removed it
                found.append((file.stat().st_mtime, file))
        return [file for _, file in sorted(found)]

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        with (self.folder / f".{self.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
            else:
                yield True


def _dump(java_home: Path, class_path: str, names: Path, archive: Path) -> bool:
    command = [
        *LOWEST, str(java_home / "bin" / "java"), "-Xshare:dump", f"-XX:SharedClassListFile={names}",
        f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", "-cp", class_path,
    ]  # fmt: skip
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet) as process:
        atexit.register(process.kill)
        try:
            return process.wait(_MAKE_SECONDS) == 0 and archive.is_file()
        except subprocess.TimeoutExpired:
            return False
        finally:
            process.kill()
            atexit.unregister(process.kill)


def make_later(
    archive: ClassArchive, java_home: Path, class_path: str, seconds: float = AFTER
) -> threading.Thread:
    """Make the archive after so many seconds, in a thread that ends with the process."""
    waits = threading.Event()

    def work() -> None:
        waits.wait(seconds)
        with suppress(OSError):
            archive.make(java_home, class_path)

    thread = threading.Thread(target=work, name="class-archive", daemon=True)
    thread.start()
    return thread
