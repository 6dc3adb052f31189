"""Long names in plots: shortened in the middle, wrapped at separators, fitted to the space beside the axes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

__all__ = ["CHARACTER", "label_width", "name_bars", "shortened", "value_text", "wrapped"]

CHARACTER = 0.6 / 72  # width of a character in inches per point of font size
FONT = 9.0
WIDTH = 34  # characters of a line
WORD = re.compile(r"[^\s_=-]+[\s_=-]*|[\s_=-]+")


def shortened(name: str, longest: int) -> str:
    """The name with its middle replaced by an ellipsis if it has more than ``longest`` characters.

    Examples
    --------
    >>> shortened("rolling_mean_of_sales_28", 15)
    'rolling…ales_28'
    """
    if len(name) <= longest:
        return name
    head = longest // 2
    return f"{name[:head]}…{name[len(name) - (longest - head - 1) :]}"


def wrapped(name: str, width: int, n_lines: int) -> str:
    r"""The name in at most ``n_lines`` lines of about ``width`` characters, broken after separators where possible.

    Examples
    --------
    >>> wrapped("rolling_mean_of_sales", 13, 2)
    'rolling_mean_\nof_sales'
    """
    name = shortened(name, width * n_lines)
    lines = [""]
    for word in WORD.findall(name):
        part = word
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > width and len(lines) < n_lines:
            lines.append("")
        while len(lines[-1]) + len(part.rstrip()) > width and len(lines) < n_lines:
            room = width - len(lines[-1])
            lines[-1] += part[:room]
            part = part[room:]
            lines.append("")
        lines[-1] += part
    return "\n".join([*(line.rstrip(" ") for line in lines[:-1]), shortened(lines[-1], width)])


def value_text(value: Any) -> str:
    """A cell of a table as short text."""
    try:
        return f"{float(value):.4g}"
    except (TypeError, ValueError):
        return shortened(str(value), 16)


def name_bars(ax: Any, names: Sequence[str]) -> None:
    """Label horizontal bars with names of at most two lines, for which the layout of the figure makes room.

    A figure of the user without a layout gets the constrained one if the names are wider than the margin.
    """
    texts = [wrapped(name, WIDTH, 2) for name in names]
    ax.set_yticks(range(len(names)), texts, fontsize=FONT)
    margin = ax.get_position().x0 * ax.figure.get_size_inches()[0] - 0.12
    if label_width(texts) > margin and ax.figure.get_layout_engine() is None:
        ax.figure.set_layout_engine("constrained")


def label_width(names: Sequence[str]) -> float:
    """Width in inches of labels beside bars."""
    lines = [line for name in names for line in wrapped(name, WIDTH, 2).split("\n")]
    return FONT * CHARACTER * max(map(len, lines), default=0)
