"""Ctrl-C between steps instead of in the middle of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["uninterrupted"]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back until the block is done, so that what the block changes is never left half changed.

    For short blocks alone. Python hands signals to the main thread, so others need nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler: Any = signal.getsignal(signal.SIGINT)
    if not callable(handler):  # the system's own, which ends the process or does nothing
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
