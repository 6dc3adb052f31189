"""Keeps the linear algebra of NumPy and SciPy to one thread."""

from __future__ import annotations

import os
import threading
from contextlib import ContextDecorator
from functools import cache
from types import TracebackType
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


@cache
def _controller() -> ThreadpoolController:
    """The BLAS libraries of this process; finding them takes milliseconds."""
    return ThreadpoolController()


class _OneThread(ContextDecorator):
    """A block or function in which products of matrices are computed in the calling thread.

    A BLAS starts threads for matrices of a few hundred rows already, and waiting for them may take twenty times as long
    as the product. The limit holds for the process. Blocks of several threads may overlap: the last ends the limit.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_blocks = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._n_blocks == 0:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._n_blocks += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._n_blocks -= 1
            if self._n_blocks == 0:
                self._limit.restore_original_limits()


one_blas_thread = _OneThread()
if hasattr(os, "register_at_fork"):  # a thread that holds the lock does not exist in the child
    os.register_at_fork(after_in_child=one_blas_thread.__init__)  # type: ignore[misc]
