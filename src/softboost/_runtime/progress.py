"""Progress bars on a terminal or in a notebook."""

from __future__ import annotations

from typing import Any

__all__ = ["Progress"]


class Progress:
    """A progress bar; silent unless ``verbose``, removed at the end unless ``keep``."""

    def __init__(self, verbose: bool, total: int | None, text: str, keep: bool = False) -> None:
        self._bar: Any = None
        if verbose:
            from tqdm.auto import tqdm  # noqa: PLC0415 - costs a tenth of the import time and is rarely wanted

            layout = "{desc} [{elapsed}{postfix}]" if total is None else None  # no bar without a known total
            self._bar = tqdm(total=total, desc=text, leave=keep, bar_format=layout)

    def step(self, text: str = "") -> None:
        """Advance by one step and show ``text`` after the bar."""
        if self._bar is not None:
            if text:
                self._bar.set_postfix_str(text, refresh=False)
            self._bar.update()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
