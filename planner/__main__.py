"""The program ``planner`` and ``python -m planner``: signals are heard before anything large is imported."""

from __future__ import annotations

import gc

from planner.cli.interrupts import raise_on_signals
from planner.deferred import deferred

with deferred():
    from planner.cli import app


def main() -> None:
    """Run the command line and exit with the code of the contract."""
    raise_on_signals()
    try:
        app.main()
    finally:
        gc.freeze()  # else the interpreter looks through all objects once more before it ends


if __name__ == "__main__":
    main()
