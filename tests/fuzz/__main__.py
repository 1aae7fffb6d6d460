"""``python -m tests.fuzz COUNT [FIRST]``: run broken inputs; exit 1 where one ends badly."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.fuzz.running import findings


def main() -> None:
    """Run as many broken inputs as asked for, and print what did not end well."""
    count, first = int(sys.argv[1]), int(sys.argv[2] if len(sys.argv) > 2 else 0)
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        for finding in findings(count, Path(folder), first):
            total += 1
            sys.stdout.write(f"{finding.number}\n  {finding.why}\n  {' '.join(finding.command)}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{count} broken inputs, {total} that did not end well\n")
    sys.exit(1 if total else 0)


if __name__ == "__main__":
    main()
