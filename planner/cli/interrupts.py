"""Ctrl-C and SIGTERM as exceptions, which wait while a module is being imported.

Raised inside a deferred import an interrupt would be lost: CPython asks a module for its ``__spec__`` and
drops whatever that raises (``import_ensure_initialized``). Raised inside ``exec`` or ``eval`` of a text, as
dataclasses are made, it would end the process by the signal although it was handled (``run_eval_code_obj``).
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Final

AGAIN: Final = 0.02
"""Time until an interrupt that waits is tried again. [s]"""


class Terminated(KeyboardInterrupt):
    """The process was asked to end, as by ``kill`` or a scheduler: it leaves nothing half-written either."""


def raise_on_signals() -> None:
    """Let SIGINT and SIGTERM end a command with what it began to write taken back, unless they are taken."""
    below = _unsafe(sys._getframe())

    def hear(kind: type[KeyboardInterrupt], frame: FrameType | None) -> None:
        if _unsafe(frame) <= below:
            raise kind
        signal.signal(signal.SIGALRM, lambda _, later: hear(kind, later))
        signal.setitimer(signal.ITIMER_REAL, AGAIN)

    def terminate(_: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        hear(Terminated, frame)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda _, frame: hear(KeyboardInterrupt, frame))
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminate)


def _unsafe(frame: FrameType | None) -> int:
    """Callers that import a module or carry out a text; who calls the program itself may do so too."""
    count = 0
    while frame is not None:
        code = frame.f_code
        text = (code.co_filename, code.co_name) == ("<string>", "<module>") and frame.f_back is not None
        count += text or code.co_filename.startswith("<frozen importlib")
        frame = frame.f_back
    return count
