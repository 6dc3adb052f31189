"""The results of the speed benchmark as a table and a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["write_report"]

Record = dict[str, Any]


def write_report(result: Record, out: Path) -> str:
    """Write speed.md and, if growth was measured, growth.png; return the table in Markdown."""
    records = [record for section in result["sections"].values() for record in section]
    lines = ["| measure | softboost | other | ratio | target | met |", "|---|---|---|---|---|---|"]
    lines += [_line(record) for record in records]
    environment = result["environment"]
    versions = ", ".join(f"{name} {number}" for name, number in environment["versions"].items())
    text = "\n".join(lines) + f"\n\nPython {environment['python']}, {versions}; {environment['instruction_set']}.\n"
    (out / "speed.md").write_text(text, encoding="utf-8")
    if result["sections"].get("growth"):
        _plot_growth(result["sections"]["growth"], out / "growth.png")
    return text


def _line(record: Record) -> str:
    target, ratio, at_least = record["target"], record["ratio"], record.get("at_least", False)
    met = wanted = ""
    if target is not None:
        met = "yes" if (ratio >= target if at_least else ratio <= target) else "no"
        wanted = f"at {'least' if at_least else 'most'} {target:,g}"
    ours = _seconds(record["seconds"]) if "seconds" in record else ""
    other = f"{record['other']} {_seconds(record['other_seconds'])}" if "other_seconds" in record else ""
    return f"| {record['measure']} | {ours} | {other} | {ratio:.3g} | {wanted} | {met} |"


def _seconds(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-6:.3g} µs"


def _plot_growth(records: list[Record], path: Path) -> None:
    import matplotlib.pyplot as plt

    grown = [record for record in records if "points" in record]
    figure, axes = plt.subplots(1, len(grown), figsize=(4.6 * len(grown), 3.4), layout="constrained")
    for ax, record in zip(axes, grown, strict=True):
        points = record["points"]
        values = [p["value"] for p in points]
        ax.loglog(values, [p["seconds"] for p in points], "o-", color="#0072B2", label="softboost, default")
        ax.loglog(values, [p["lightgbm_seconds"] for p in points], "s--", color="#D55E00", label="LightGBM")
        ax.set(xlabel=points[0]["axis"], ylabel="seconds", title=f"slope {record['ratio']:.2f}")
        ax.legend(frameon=False)
        ax.grid(which="major", alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)
