"""Delays Ctrl-C until the end of a step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["uninterrupted"]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, so that its changes are never left incomplete.

    Use it for short blocks only. Python delivers signals to the main thread, so other threads need no protection.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler: Any = signal.getsignal(signal.SIGINT)
    if not callable(handler):  # the default of the system, which ends the process or ignores the signal
        yield
        return
    waiting: list[Any] = []
    signal.signal(signal.SIGINT, lambda *args: waiting.append(args))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if waiting:
        handler(*waiting[0])
