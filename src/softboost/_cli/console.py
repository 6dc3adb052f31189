"""Output of the command line: stdout, stderr and text tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

__all__ = ["Console", "short_number", "text_table"]


class Console:
    """Writes results to stdout and everything else to stderr; uses colours only on a terminal."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet

    @staticmethod
    def coloured(stream: TextIO) -> bool:
        """Whether the stream is a terminal with colours, which ``NO_COLOR`` and ``TERM=dumb`` disable."""
        return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def result(self, text: str) -> None:
        """Print a result."""
        print(text)

    def note(self, text: str) -> None:
        """Print a remark, unless quiet."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def bold(self, text: str) -> str:
        """Emphasise a result if stdout is a terminal."""
        return f"\033[1m{text}\033[0m" if self.coloured(sys.stdout) else text

    def bar(self, total: int) -> Any:
        """A progress bar on stderr, disabled if quiet or if stderr is not a terminal."""
        from tqdm import tqdm  # noqa: PLC0415 - only commands that take a while pay for it

        hidden = self.quiet or not sys.stderr.isatty()
        layout = "{percentage:3.0f}%|{bar:24}| {desc}"
        return tqdm(total=total, file=sys.stderr, disable=hidden, bar_format=layout, leave=False)


def short_number(value: float) -> str:
    """Format with four digits, without an exponent for ordinary sizes: 32390, 0.0072, 1.2e+09."""
    rounded = float(f"{value:.4g}")
    return f"{rounded:.0f}" if 1e3 <= abs(rounded) < 1e7 else f"{rounded:.4g}"


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]], mark: Callable[[str], str] | None = None) -> str:
    """Text table with the first column aligned left and the others right; ``mark`` formats the first row."""
    widths = [max(len(row[j]) for row in [columns, *rows]) for j in range(len(columns))]

    def line(row: Sequence[str]) -> str:
        cells = [row[0].ljust(widths[0]), *[value.rjust(w) for value, w in zip(row[1:], widths[1:], strict=True)]]
        return "  ".join(cells).rstrip()

    body = [line(row) for row in rows]
    if mark is not None and body:
        body[0] = mark(body[0])
    return "\n".join([line(columns), *body])
