"""Known vulnerabilities of the locked packages: ``make audit``. A package that nobody could look up is not
taken for a good one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TOOL = "pip-audit==2.10.1"
FOUND, UNKNOWN = 1, 2
"""Exit status: something is vulnerable; something could not be looked up."""


def verdict(dependencies: Sequence[dict[str, Any]]) -> tuple[int, list[str]]:
    """What pip-audit found, as an exit status and in words."""
    lines = [
        f"{one['name']} {one['version']}: {bug['id']}, fixed in {', '.join(bug['fix_versions']) or 'none'}"
        for one in dependencies
        for bug in one.get("vulns", ())
    ]
    skipped = [one["name"] for one in dependencies if "skip_reason" in one]
    audited = len(dependencies) - len(skipped)
    if lines:
        lines.append(f"{len(lines)} known vulnerabilities in {audited} packages of requirements.lock")
    if skipped or not dependencies:
        lines.append(
            f"{len(skipped)} of {len(dependencies)} packages could not be looked up: this package index "
            "serves no advisories. Run `make audit` where pip-audit reaches PyPI's"
        )
        return FOUND if len(lines) > 1 else UNKNOWN, lines
    return (
        (FOUND, lines) if lines else (0, [f"{audited} packages of requirements.lock: no known vulnerability"])
    )


def main() -> int:
    uv = ROOT / ".venv" / "bin" / "uv"
    command = [
        str(uv), "tool", "run", TOOL, "--requirement", str(ROOT / "requirements.lock"), "--disable-pip",
        "--require-hashes", "--progress-spinner", "off", "--format", "json",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        said = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        print(f"the locked packages could not be audited: {said[0]}", file=sys.stderr)
        return UNKNOWN
    status, lines = verdict(found)
    print("\n".join(lines), file=sys.stderr if status else sys.stdout)
    return status


if __name__ == "__main__":
    sys.exit(main())
