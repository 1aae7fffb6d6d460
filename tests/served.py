"""A process that has imported the planner and forks for each command: a start costs 20 ms, not a second.

What a document shows runs hundreds of commands, each by its name in a shell. ``started`` gives a program
that hands its arguments, folder, environment and streams to such a process, waits, and ends with the same
code. Signals are not passed on, and what is imported is not that of another checkout.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import io
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.helpers import ROOT, user_environment

LENGTH: Final = 8
"""Bytes that say how long a request is. [byte]"""

CLIENT: Final = """\
#!{python} -ISE
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
text = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(text).to_bytes({length}, "big")], [0, 1, 2])
server.sendall(text)
sys.exit(int(server.recv(16) or b"70"))
"""


@functools.cache
def started() -> Path:
    """Start the process, and return the program that asks it; both go when this one ends."""
    folder = Path(tempfile.mkdtemp(prefix="planner-"))
    held, _ = os.pipe()  # whose other end closes with this process
    theirs, ready = os.pipe()
    words = [sys.executable, "-m", "tests.served", str(folder / "socket")]
    streams = [(os.POSIX_SPAWN_DUP2, held, 0), (os.POSIX_SPAWN_DUP2, ready, 1)]
    with contextlib.chdir(ROOT):
        os.posix_spawn(sys.executable, words, user_environment(folder), file_actions=streams)
    for end in (held, ready):
        os.close(end)
    if not os.read(theirs, 1):
        raise RuntimeError("the process that runs commands has not started")
    os.close(theirs)
    client = folder / "planner"
    client.write_text(CLIENT.format(python=sys.executable, address=str(folder / "socket"), length=LENGTH))
    client.chmod(0o755)
    return client


def serve(address: str, command: Callable[[], None]) -> None:
    """Answer requests until the standard input ends."""
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        os.write(1, b".")
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            while True:
                asked, _ = listener.accept()
                if not os.fork():
                    answer(asked, command)
                asked.close()
    sys.stdin.buffer.read()
    shutil.rmtree(Path(address).parent)
    os.killpg(0, signal.SIGTERM)


def answer(asked: socket.socket, command: Callable[[], None]) -> None:
    """Run what is asked for in a process of its own, tell its code, and end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, streams, _, _ = socket.recv_fds(asked, LENGTH, 3)
    text = b""
    while len(text) < int.from_bytes(length, "big"):
        text += asked.recv(1 << 16)
    arguments, folder, environment = json.loads(text)
    if not (child := os.fork()):
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        asked.close()
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(io.FileIO(number, "w", closefd=False), "utf-8", write_through=True)
            for number in (1, 2)
        )
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[0] = folder
        sys.argv[1:] = arguments
        command()
        sys.exit()
    asked.sendall(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
    os._exit(0)


def main(address: str) -> None:
    """Import what commands import when they are called, and serve."""
    from planner import __main__

    for path in (ROOT / "planner").rglob("*.py"):
        if not path.stem.startswith("__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    sys.argv[0] = str(ROOT / "planner" / "__main__.py")
    serve(address, __main__.main)


if __name__ == "__main__":
    os.setpgid(0, 0)
    main(sys.argv[1])
