"""Self-contained pages: tables and drawings in one HTML file that needs no network, no script and no other file.

Drawings are SVG written here, so a page is readable on a phone, prints, follows a dark screen, and costs no plotting
library. Colours are those of Okabe and Ito, which people with colour-blindness tell apart; lines differ by dashes too.

Examples
--------
>>> from softboost.report import Page, line_chart
>>> page = Page("Two lines", "They differ.")
>>> page.figure(line_chart({"up": [1, 2, 3], "down": [3, 2, 1]}), "Values by step.")
>>> page.html().startswith("<!DOCTYPE html>")
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Page", "bar_chart", "heat_map", "line_chart"]

Array = NDArray[Any]
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("", "7 3", "2 2", "9 3 2 3", "4 4", "1 3")
WIDTH = 460.0  # of a drawing, in its own units: text of 11.5 units stays legible on a phone

STYLE = """
:root{--ink:#1a1a1a;--soft:#5a5a5a;--line:#d5d5d5;--page:#fff;--card:#f7f7f5;--accent:#0072B2}
@media (prefers-color-scheme:dark){:root{--ink:#ececec;--soft:#b0b0b0;--line:#444;--page:#16181b;--card:#1f2226;
--accent:#56B4E9}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0 auto;max-width:72rem;padding:1rem;color:var(--ink);background:var(--page);
font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0}
h2{font-size:1.2rem;margin:2rem 0 .5rem;border-top:1px solid var(--line);padding-top:1rem}
p{max-width:46rem;margin:.5rem 0}
code{overflow-wrap:anywhere;font-size:.9em}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1rem;align-items:start}
figure,.table{margin:0;padding:.75rem;background:var(--card);border:1px solid var(--line);border-radius:.5rem}
.table{overflow-x:auto}
figcaption,caption{color:var(--soft);font-size:.875rem;text-align:left;padding-top:.5rem}
caption{padding:0 0 .5rem}
svg{display:block;width:100%;height:auto;max-width:38rem;margin:0 auto}
svg text{font:11.5px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:var(--ink)}
svg .soft{fill:var(--soft)}
svg .rule{stroke:var(--line);stroke-width:1}
svg .truth{stroke:var(--ink)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .5rem;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}
tr.best td{font-weight:700}
@media (max-width:30rem){th,td{padding:.25rem .2rem;font-size:.8rem}.table,figure{padding:.5rem}}
footer{margin:2rem 0 1rem;color:var(--soft);font-size:.875rem}
@media print{:root{--ink:#000;--soft:#444;--line:#bbb;--page:#fff;--card:#fff;--accent:#0072B2}
body{max-width:none;padding:0 2px;font-size:10pt}figure,.table{break-inside:avoid;border-color:#bbb}
h2,h2~p{break-after:avoid}.grid{grid-template-columns:repeat(2,minmax(0,1fr))}th,td{padding:.3rem .2rem}}
"""


@dataclass
class Page:
    """A page that is built from top to bottom and written once.

    Parameters
    ----------
    title : str
        The heading, and what the browser's tab shows.
    lead : str, default=""
        A sentence under the title.

    Examples
    --------
    >>> page = Page("Title")
    >>> page.text("1 < 2")
    >>> "1 &lt; 2" in page.html()
    True
    """

    title: str
    lead: str = ""
    _blocks: list[str] = field(default_factory=list, repr=False)
    _cards: list[str] = field(default_factory=list, repr=False)

    def heading(self, text: str) -> None:
        """Begin a section.

        Parameters
        ----------
        text : str
            Its heading; plain text, as everywhere here, not HTML.
        """
        self._end_cards()
        self._blocks.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str) -> None:
        """Add a paragraph.

        Parameters
        ----------
        text : str
            What it says.
        """
        self._end_cards()
        self._blocks.append(f"<p>{escape(text)}</p>")

    def figure(self, drawing: str, caption: str) -> None:
        """Add a drawing; figures and tables in a row share the width of the page.

        Parameters
        ----------
        drawing : str
            SVG of :func:`line_chart`, :func:`bar_chart` or :func:`heat_map`.
        caption : str
            What it shows.
        """
        self._cards.append(f"<figure>{drawing}<figcaption>{escape(caption)}</figcaption></figure>")

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str, best: int | None = None
    ) -> None:
        """Add a table.

        Parameters
        ----------
        columns : sequence of str
            Headings; the first column is set to the left, the others to the right.
        rows : sequence of sequences of str
            Cells, as they are to be read.
        caption : str
            What it shows.
        best : int or None, default=None
            Number of a row to be set in bold, from zero; None sets none.
        """
        head = "".join(f'<th scope="col">{escape(c)}</th>' for c in columns)
        body = ""
        for i, row in enumerate(rows):
            mark = ' class="best"' if i == best else ""
            body += f"<tr{mark}>" + "".join(f"<td>{escape(v)}</td>" for v in row) + "</tr>"
        self._cards.append(
            f'<div class="table"><table><caption>{escape(caption)}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def _end_cards(self) -> None:
        if self._cards:
            self._blocks.append('<div class="grid">' + "".join(self._cards) + "</div>")
            self._cards = []

    def html(self, footer: str = "") -> str:
        """The whole page as text.

        Parameters
        ----------
        footer : str, default=""
            A line below everything.

        Returns
        -------
        html : str
        """
        self._end_cards()
        lead = f"<p>{escape(self.lead)}</p>" if self.lead else ""
        foot = f"<footer>{escape(footer)}</footer>" if footer else ""
        blocks = "\n".join(self._blocks)
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            '<link rel="icon" href="data:,">'
            f"<title>{escape(self.title)}</title><style>{STYLE}</style></head>\n"
            f"<body><main><h1>{escape(self.title)}</h1>{lead}\n{blocks}</main>{foot}</body></html>\n"
        )

    def write(self, path: str | Path, footer: str = "") -> Path:
        """Write the page; folders on the way are made.

        Parameters
        ----------
        path : str or Path
            The file, which is replaced if it is there.
        footer : str, default=""
            A line below everything.

        Returns
        -------
        path : Path
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.html(footer), encoding="utf-8")
        return path


def _number(value: float) -> str:
    """Short text of an axis value: no exponent for ordinary sizes, a true minus sign."""
    if value == 0:
        return "0"
    value = float(f"{value:.4g}")
    text = f"{value:,.4g}" if abs(value) < 1e3 else f"{value:,.0f}"
    if not 1e-4 <= abs(value) < 1e7:
        text = f"{value:.1e}"
    return text.replace("-", "\N{MINUS SIGN}")


def _ticks(low: float, high: float, n: int = 5, whole: bool = False) -> Array:
    """Round values from ``low`` to ``high``, about ``n`` of them; ``whole`` ones only where asked for."""
    span = high - low if high > low else max(abs(high), 1.0)
    step = 10.0 ** np.floor(np.log10(span / n))
    step *= next((m for m in (1, 2, 2.5, 5, 10) if span / (step * m) <= n), 10)
    if whole:
        step = max(np.ceil(step), 1.0)
    return np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step


class _Axes:
    """A rectangle with linear or logarithmic scales, and the SVG drawn so far."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], height: float, log: bool, top: float) -> None:
        self.x_range, self.log = x, log
        self.y_range = (np.log10(y[0]), np.log10(y[1])) if log else y
        self.y_values = self._y_values()
        longest = max([len(_number(float(value))) for value in self.y_values], default=0)
        self.left, self.right = max(48.0, 8.0 + 6.6 * longest), WIDTH - 12.0
        self.top, self.bottom, self.height = top, height - 34.0, height
        self.parts: list[str] = []

    def _y_values(self) -> Array:
        """Where the rules go: round values, or powers of ten with 2 and 5 between them where there is room."""
        low, high = self.y_range
        if not self.log:
            return _ticks(low, high)
        powers = 10.0 ** np.arange(np.floor(low), np.ceil(high) + 1)
        steps = (1.0,) if high - low > 2 else (1.0, 2.0, 5.0)
        values = np.sort(np.concatenate([step * powers for step in steps]))
        return values[(values >= 10**low * 0.999) & (values <= 10**high * 1.001)]

    def x(self, value: Any) -> Any:
        low, high = self.x_range
        return self.left + (np.asarray(value, dtype=float) - low) / ((high - low) or 1.0) * (self.right - self.left)

    def y(self, value: Any) -> Any:
        value = np.asarray(value, dtype=float)
        value = np.log10(np.maximum(value, 1e-300)) if self.log else value
        low, high = self.y_range
        inside = np.clip((value - low) / ((high - low) or 1.0), 0.0, 1.0)
        return self.bottom - inside * (self.bottom - self.top)

    def text(self, x: float, y: float, text: str, anchor: str = "middle", cls: str = "soft") -> None:
        self.parts.append(f'<text class="{cls}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>')

    def rules(self, x_label: str, y_label: str, x_ticks: Sequence[float], x_names: Sequence[str]) -> None:
        for value in self.y_values:
            y = float(self.y(value))
            self.parts.append(f'<line class="rule" x1="{self.left}" x2="{self.right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            self.text(self.left - 5, y + 4, _number(float(value)), "end")
        for tick, name in zip(x_ticks, x_names, strict=True):
            x, half = float(self.x(tick)), 3.3 * len(name)  # names stay inside the drawing
            self.text(min(max(x, half + 2), WIDTH - half - 2), self.bottom + 15, name)
        self.text((self.left + self.right) / 2, self.height - 4, x_label)
        if y_label:
            self.text(2, self.top - 8, y_label, "start")

    def line(self, x: Any, y: Any, colour: str, dash: str, name: str, width: float = 1.8) -> None:
        keep = np.isfinite(np.asarray(y, dtype=float))
        points = " ".join(
            f"{a:.1f},{b:.1f}" for a, b in zip(self.x(np.asarray(x)[keep]), self.y(np.asarray(y)[keep]), strict=True)
        )
        stroke = 'class="truth"' if colour == "truth" else f'stroke="{colour}"'
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<polyline {stroke} points="{points}" fill="none" stroke-width="{width}" stroke-linejoin="round"{dashes}>'
            f"<title>{escape(name)}</title></polyline>"
        )

    def band(self, x: Any, low: Any, high: Any, colour: str, name: str) -> None:
        forth = [f"{a:.1f},{b:.1f}" for a, b in zip(self.x(x), self.y(high), strict=True)]
        back = [f"{a:.1f},{b:.1f}" for a, b in zip(self.x(x), self.y(low), strict=True)][::-1]
        points = " ".join(forth + back)
        self.parts.append(
            f'<polygon points="{points}" fill="{colour}" fill-opacity="0.22" stroke="none">'
            f"<title>{escape(name)}</title></polygon>"
        )

    def svg(self, label: str) -> str:
        return _svg(self.parts, self.height, label)


def _svg(parts: Sequence[str], height: float, label: str) -> str:
    head = f'<svg viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="img" aria-label="{escape(label)}">'
    return head + "".join(parts) + "</svg>"


def line_chart(
    lines: Mapping[str, Any],
    x: Any = None,
    *,
    bands: Mapping[str, tuple[Any, Any]] | None = None,
    truth: str | None = None,
    log: bool = False,
    x_label: str = "step",
    y_label: str = "",
    height: float = 290.0,
) -> str:
    """Lines over a common x, with bands around the first line that is not the truth.

    Parameters
    ----------
    lines : mapping of str to sequence of float
        Values of each line; NaN is left out.
    x : sequence of float, strings or None, default=None
        Where the values stand. None counts from one; strings (dates) are spaced evenly.
    bands : mapping of str to (low, high), default=None
        Intervals, the widest first.
    truth : str or None, default=None
        Name of the line drawn in the colour of the text.
    log : bool, default=False
        Logarithmic y; for values that are all positive.
    x_label, y_label : str, default="step" and ""
        Names of the axes.
    height : float, default=290.0
        Of the drawing, which is 460 wide; it is scaled to the page.

    Returns
    -------
    svg : str

    Examples
    --------
    >>> line_chart({"a": [1, 2, 4]}, x=[2000, 2001, 2002], log=True).startswith("<svg")
    True
    """
    bands = bands or {}
    values = {name: np.asarray(v, dtype=float) for name, v in lines.items()}
    n = max(len(v) for v in values.values())
    names = None if x is None or np.asarray(x).dtype.kind in "iuf" else [str(v) for v in x]
    at = np.arange(1, n + 1, dtype=float) if x is None or names else np.asarray(x, dtype=float)
    edges = [np.asarray(edge, dtype=float) for pair in bands.values() for edge in pair]
    everything = np.concatenate([*values.values(), *edges])
    everything = everything[np.isfinite(everything) & ((everything > 0) | (not log))]
    low, high = float(everything.min()), float(everything.max())
    margin = 0.0 if log else 0.04 * ((high - low) or 1.0)
    entries = [*values, *bands]
    rows = _legend_rows(entries)
    low, high = (low / 1.15, high * 1.15) if log else (low - margin, high + margin)
    axes = _Axes((float(at[0]), float(at[-1])), (low, high), height, log, top=22 + 17.0 * len(rows))
    if names:
        chosen = np.unique(np.linspace(0, n - 1, 4).round().astype(int))
        axes.rules(x_label, y_label, at[chosen].tolist(), [names[i] for i in chosen])
    else:
        ticks = _ticks(float(at[0]), float(at[-1]), whole=bool(np.all(at == np.round(at))))
        axes.rules(x_label, y_label, ticks.tolist(), [f"{t:g}" for t in ticks])
    for name, (below, above) in bands.items():
        axes.band(at[-len(np.asarray(below)) :], below, above, PALETTE[0], name)
    styles: dict[str, tuple[str, str]] = {}
    others = [name for name in values if name != truth]
    for i, name in enumerate(others):
        styles[name] = PALETTE[i % len(PALETTE)], DASHES[i % len(DASHES)]
    for name in [*others[::-1], *([truth] if truth else [])]:
        colour, dash = ("truth", "") if name == truth else styles[name]
        v = values[name]
        axes.line(at[-len(v) :], v, colour, dash, name, 1.3 if name == truth else 2.0)
    _legend(axes, rows, styles, truth, list(bands))
    return axes.svg(f"Line chart of {', '.join(entries)}")


def _legend_rows(entries: Sequence[str]) -> list[list[str]]:
    """Names dealt to rows that fit the width."""
    rows: list[list[str]] = [[]]
    used = 0.0
    for name in entries:
        need = 34 + 6.4 * len(name)
        if rows[-1] and used + need > WIDTH - 10:
            rows.append([])
            used = 0.0
        rows[-1].append(name)
        used += need
    return rows


def _legend(
    axes: _Axes,
    rows: Sequence[Sequence[str]],
    styles: Mapping[str, tuple[str, str]],
    truth: str | None,
    bands: list[str],
) -> None:
    for r, row in enumerate(rows):
        x, y = 4.0, 12.0 + 17 * r
        for name in row:
            if name in bands:
                opacity = 0.22 * (bands.index(name) + 1)  # bands lie on top of each other
                axes.parts.append(
                    f'<rect x="{x}" y="{y - 9:.1f}" width="20" height="10" fill="{PALETTE[0]}" '
                    f'fill-opacity="{opacity:.2f}"/>'
                )
            else:
                colour, dash = ("truth", "") if name == truth else styles[name]
                stroke = 'class="truth"' if colour == "truth" else f'stroke="{colour}"'
                dashes = f' stroke-dasharray="{dash}"' if dash else ""
                axes.parts.append(
                    f'<line {stroke} x1="{x}" x2="{x + 20}" y1="{y - 4}" y2="{y - 4}" stroke-width="2.2"{dashes}/>'
                )
            axes.text(x + 24, y, name, "start", "ink")
            x += 34 + 6.4 * len(name)


def bar_chart(values: Mapping[str, float], *, highlight: Sequence[str] = (), height: float | None = None) -> str:
    """Horizontal bars, one a name, in the order given; those in ``highlight`` stand out.

    Parameters
    ----------
    values : mapping of str to float
        Non-negative lengths.
    highlight : sequence of str, default=()
        Names of bars in colour, the others grey; without any, all are in colour.
    height : float or None, default=None
        None gives every bar 19 units.

    Returns
    -------
    svg : str

    Examples
    --------
    >>> bar_chart({"lag 1": 0.7, "lag 2": 0.3}).count("<rect")
    2
    """
    height = 8 + 19.0 * len(values) if height is None else height
    step = (height - 8) / max(len(values), 1)
    left = min(12 + 6.6 * max((len(n) for n in values), default=1), 0.45 * WIDTH)
    room = WIDTH - left - 56
    largest = max([*values.values(), 1e-300])
    parts = []
    for i, (name, value) in enumerate(values.items()):
        y = 4 + i * step
        colour = PALETTE[0] if not highlight or name in highlight else "#9a9a9a"
        length = room * value / largest
        parts.append(
            f'<text x="{left - 6:.1f}" y="{y + 0.7 * step:.1f}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{left:.1f}" y="{y + 0.12 * step:.1f}" width="{max(length, 0.5):.1f}" height="{0.76 * step:.1f}" '
            f'fill="{colour}"><title>{escape(name)}: {value:.4g}</title></rect>'
            f'<text class="soft" x="{left + length + 5:.1f}" y="{y + 0.7 * step:.1f}">{_number(round(value, 3))}</text>'
        )
    return _svg(parts, height, "Bar chart of " + ", ".join(values))


def _diverging(value: float) -> str:
    """Blue for -1, white for 0, vermilion for 1."""
    end = np.array([0xD5, 0x5E, 0x00]) if value > 0 else np.array([0x00, 0x72, 0xB2])
    share = min(abs(value), 1.0)
    r, g, b = (np.array([0xF7, 0xF7, 0xF7]) * (1 - share) + end * share).round().astype(int)
    return f"#{r:02x}{g:02x}{b:02x}"


def heat_map(matrix: Any, rows: Sequence[str], columns: Sequence[str], *, height: float | None = None) -> str:
    """Signed values as colours from blue (negative) over white to orange (positive), scaled to the largest size.

    Parameters
    ----------
    matrix : array of shape (n_rows, n_columns)
        The values.
    rows, columns : sequence of str
        Names; of many columns only some are written, all are shown on pointing.
    height : float or None, default=None
        None gives every row 20 units.

    Returns
    -------
    svg : str

    Examples
    --------
    >>> heat_map([[1.0, -0.5]], ["z1"], ["lag 1", "lag 2"]).startswith("<svg")
    True
    """
    matrix = np.asarray(matrix, dtype=float)
    height = 110 + 20.0 * len(rows) if height is None else height
    left, top, bottom = min(14 + 6.4 * max(len(r) for r in rows), 120.0), 6.0, height - 100
    width, step = (WIDTH - left - 8) / matrix.shape[1], (bottom - top) / matrix.shape[0]
    largest = float(np.abs(matrix).max()) or 1.0
    parts = []
    for i, name in enumerate(rows):
        y, size = top + i * step, f'width="{width + 0.2:.2f}" height="{step:.1f}"'
        parts.append(f'<text x="{left - 6:.1f}" y="{y + 0.68 * step:.1f}" text-anchor="end">{escape(name)}</text>')
        for j, column in enumerate(columns):
            parts.append(
                f'<rect x="{left + j * width:.2f}" y="{y:.1f}" {size} fill="{_diverging(matrix[i, j] / largest)}">'
                f"<title>{escape(name)}, {escape(column)}: {matrix[i, j]:.3g}</title></rect>"
            )
    every = max(1, int(np.ceil(16.0 / width)))
    for j in range(0, len(columns), every):
        x = left + (j + 0.5) * width
        parts.append(
            f'<text class="soft" x="{x:.1f}" y="{bottom + 8:.1f}" text-anchor="end" '
            f'transform="rotate(-50 {x:.1f} {bottom + 8:.1f})">{escape(columns[j][:16])}</text>'
        )
    parts += _colour_key(left, height - 10, largest)
    return _svg(parts, height, "Heat map")


def _colour_key(x: float, y: float, largest: float) -> list[str]:
    cells = [
        f'<rect x="{x + 7 * i:.1f}" y="{y - 8:.1f}" width="7.2" height="9" fill="{_diverging(v)}"/>'
        for i, v in enumerate(np.linspace(-1, 1, 21))
    ]
    low, high = _number(-float(f"{largest:.2g}")), _number(float(f"{largest:.2g}"))
    words = f'<text class="soft" x="{x - 4:.1f}" y="{y:.1f}" text-anchor="end">{low}</text>'
    words += f'<text class="soft" x="{x + 152:.1f}" y="{y:.1f}">{high}</text>'
    return [*cells, words]
