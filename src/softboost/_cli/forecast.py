"""The commands ``softboost forecast`` and ``softboost backtest``."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from softboost.forecast import Backtest, Differences, Forecaster
from softboost.forecast._frame import infer_freq
from softboost.forecast._frame_forms import Names
from softboost.report import Page, line_chart

from .console import short_number, text_table
from .series_file import SeriesFile, read_future, read_series
from .table_file import Format, TableError, shown_path

__all__ = ["add_backtest_arguments", "add_forecast_arguments", "backtest", "forecast"]

MAX_PICTURES = 12
MAX_ROWS = 50  # of a table in a report
MAX_LINES = 10  # of a table on the terminal
Say = Callable[[str], None]


def _add_file_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="CSV or Parquet, one row per time (and series); - reads stdin"
    )
    parser.add_argument("--h", type=_positive, default=12, metavar="N", help="steps ahead (default: %(default)s)")
    parser.add_argument("--freq", metavar="WORD", help="pandas frequency (D, MS, h) or a number (default: inferred)")
    parser.add_argument(
        "--level", type=_percent, nargs="+", default=[80, 95], metavar="PERCENT", help="intervals (default: 80 95)"
    )
    columns = parser.add_argument_group("columns (default: inferred)")
    columns.add_argument("--id", metavar="NAME", help="column that names the series")
    columns.add_argument("--time", metavar="NAME", help="column with the times")
    columns.add_argument("--target", metavar="NAME", help="column with the values to forecast")
    columns.add_argument("--wide", action="store_true", help="every column of numbers is a series")
    columns.add_argument(
        "--exog",
        type=Path,
        metavar="FILE",
        help="future values of columns that are known ahead, with the same columns of series and times",
    )
    text = parser.add_argument_group("text files (default: inferred)")
    text.add_argument("--sep", type=_separator, metavar="CHAR", help="separator of cells; tab for a tabulator")
    text.add_argument("--decimal", choices=[".", ","], help="decimal mark")
    text.add_argument("--encoding", metavar="NAME", help="e.g. cp1252 or latin-1 (default: UTF-8, else cp1252)")
    model = parser.add_argument_group("model")
    model.add_argument("--season-length", type=_positive, metavar="N", help="steps in a season (default: from --freq)")
    model.add_argument("--scope", choices=["local", "global"], help="regressions alone: one per series, or one for all")
    model.add_argument(
        "--gaps",
        choices=["raise", "interpolate", "forward"],
        default="raise",
        help="what to do with missing times (default: %(default)s)",
    )
    model.add_argument(
        "--n-jobs", type=int, default=1, metavar="N", help="processes, -1 for all (default: %(default)s)"
    )


def _separator(text: str) -> str:
    text = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}.get(text, text)
    if len(text) != 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a single character; use e.g. ';' or tab")
    return text


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number; put FILE before --level") from None
    if not 0 < value < 100:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 100")
    return value


def _path_to(*endings: str) -> Callable[[str], Path]:
    """Parser of a path whose name has one of the endings."""

    def path(text: str) -> Path:
        if not text.lower().endswith(endings):
            raise argparse.ArgumentTypeError(f"{text!r} does not end in {' or '.join(endings)}")
        return Path(text)

    return path


def _add_outputs(parser: argparse.ArgumentParser, what: str) -> None:
    table, page = _path_to(".csv", ".csv.gz", ".json", ".parquet"), _path_to(".html")
    parser.add_argument("--out", type=table, metavar="FILE", help=f"write {what} to a .csv, .json or .parquet file")
    parser.add_argument("--plot", type=page, metavar="FILE", help="write a report with charts (.html)")


def add_forecast_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``forecast``."""
    _add_file_arguments(parser)
    _add_outputs(parser, "the forecasts")


def add_backtest_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``backtest``."""
    _add_file_arguments(parser)
    rolling = parser.add_argument_group("origins")
    rolling.add_argument("--n-windows", type=_positive, default=10, metavar="N", help="origins (default: %(default)s)")
    rolling.add_argument(
        "--step-size", type=_positive, default=1, metavar="N", help="rows between them (default: %(default)s)"
    )
    rolling.add_argument("--refit", action="store_true", help="fit again at every origin (default: only at the first)")
    _add_outputs(parser, "all forecasts")


def _check_outputs(args: argparse.Namespace) -> None:
    """Refuse outputs into folders that do not exist before any work is done."""
    for option, path in (("--out", args.out), ("--plot", args.plot)):
        if path is not None and not path.absolute().parent.is_dir():
            raise TableError(f"{option} {path}: the folder {str(path.parent)!r} does not exist; create it first")


def _read(args: argparse.Namespace, say: Say) -> tuple[SeriesFile, str | int, pd.DataFrame | None]:
    """The file, its frequency, and the values known ahead."""
    _check_outputs(args)
    form = Format(args.sep, args.decimal, args.encoding)
    roles = {"id_column": args.id, "time_column": args.time, "target": args.target}
    known = None
    if args.exog is not None:
        if args.wide:
            raise TableError("--exog needs a file with one row per series and time; omit --wide")
        known = read_future(args.exog, **roles, form=form)
    columns = [] if known is None else [c for c in known.columns if c not in ("unique_id", "ds")]
    if known is not None and not columns:
        raise TableError(f"{args.exog}: no column beside those of series and times")
    file = read_series(
        args.file, **roles, columns=columns, wide=args.wide, form=form, allow_gaps=args.gaps != "raise", say=say
    )
    if known is not None and "unique_id" not in known:
        ids = file.frame["unique_id"].unique()
        known = pd.concat([known.assign(unique_id=name) for name in ids], ignore_index=True)
    whole_numbers = file.frame["ds"].dtype.kind in "iu"
    if args.freq is None:
        freq = infer_freq(file.frame, Names())
        say(f"frequency: {freq!r}, from the times")
    elif whole_numbers:
        if not args.freq.lstrip("-").isdigit():
            raise TableError(
                f"--freq {args.freq}: the times of {shown_path(args.file)} are integers; use an integer, e.g. --freq 1"
            )
        freq = int(args.freq)
    else:
        freq = _checked_offset(args.freq)
    if args.gaps == "raise":
        file.check_regular(freq)
    return file, freq, known


def _title(args: argparse.Namespace) -> str:
    """Name of the input, for reports."""
    return shown_path(args.file) if args.file == Path("-") else str(args.file.name)


def _checked_offset(word: str) -> str:
    try:
        pd.tseries.frequencies.to_offset(word)
    except ValueError:
        raise TableError(
            f"--freq {word}: not a pandas frequency; use h, D, B, W, MS, ME, QS, QE, YS or YE, or omit --freq"
        ) from None
    return word


def _forecaster(args: argparse.Namespace, freq: str | int) -> Forecaster:
    return Forecaster(
        freq=freq,
        h=args.h,
        season_length=args.season_length,
        scope=args.scope,
        gaps=args.gaps,
        n_jobs=args.n_jobs,
        verbose=sys.stderr.isatty() and not args.quiet,
    )


def _heard(say: Say, work: Callable[[], Any]) -> Any:
    """Run and print warnings as remarks."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        result = work()
    for text in dict.fromkeys(str(w.message) for w in heard):
        say(f"note: {text.removesuffix('; see fallback_')}")  # an attribute of the Forecaster
    return result


def _chosen(model: Forecaster) -> str:
    """One line that says which candidates, or which regression, made the forecasts."""
    if model.scope_ is None:
        return f"weights: {model.choice_.describe()}"
    changes = ", ".join(_in_words(step) for step in model.target_transforms_.steps) or "not transformed"
    return f"models: {'one for all series' if model.scope_ == 'global' else 'one per series'}; target: {changes}"


def _plain_names(frame: pd.DataFrame) -> pd.DataFrame:
    """Rename the columns of the forecast to forecast, lo-80, hi-80, ..."""
    model = "SoftBoostRegressor"
    names = {c: c.removeprefix(f"{model}-") for c in frame.columns if c.startswith(f"{model}-")}
    return frame.rename(columns={model: "forecast", **names})


def forecast(args: argparse.Namespace, say: Say, show: Say) -> int:
    """Forecast every series of a file."""
    file, freq, known = _read(args, say)
    model = _forecaster(args, freq)

    def work() -> pd.DataFrame:
        return _plain_names(model.fit(file.frame).predict(level=args.level, X_df=known))

    try:
        table = _heard(say, work)
    except ValueError as error:
        if known is None or "X_df" not in str(error):
            raise
        raise TableError(str(error).replace("X_df", shown_path(args.exog))) from None
    say(_chosen(model))
    if args.plot:
        _forecast_page(file, table, args).write(args.plot, f"Written by softboost forecast {_title(args)}.")
        say(f"pictures: {args.plot}")
    _deliver(table, args, show)
    return 0


def _in_words(step: Any) -> str:
    """Describe a target transform in words."""
    if isinstance(step, Differences):
        return "changes over " + " and ".join(f"{lag} {'step' if lag == 1 else 'steps'}" for lag in step.differences)
    return {"Log": "logarithms", "LocalStandardScaler": "scaled by series"}.get(type(step).__name__, str(step))


def _deliver(table: pd.DataFrame, args: argparse.Namespace, show: Say) -> None:
    """Print the table, or write it to a file and print its name."""
    if args.out is not None:
        _write(table, args.out)
    if args.json:
        records = json.loads(table.to_json(orient="records", date_format="iso"))
        paths = [str(path) for path in (args.out, args.plot) if path is not None]
        show(json.dumps({"rows": records, "files": paths}, indent=2))
    elif args.out is not None:
        show(str(args.out))
    else:
        show(table.to_csv(index=False, float_format="%.6g").rstrip("\n"))


def _write(table: pd.DataFrame, path: Path) -> None:
    if path.suffix.lower() == ".parquet":
        table.to_parquet(path, index=False)
    elif path.suffix.lower() == ".json":
        table.to_json(path, orient="records", date_format="iso", indent=1)
    else:
        table.to_csv(path, index=False)


def _forecast_page(file: SeriesFile, table: pd.DataFrame, args: argparse.Namespace) -> Page:
    page = Page(f"Forecasts of {_title(args)}", f"{_steps(args.h)} ahead with intervals of {_levels(args)}.")
    names = list(dict.fromkeys(table["unique_id"]))
    for name in names[:MAX_PICTURES]:
        past = file.frame[file.frame["unique_id"] == name].tail(max(4 * args.h, 48))
        ahead = table[table["unique_id"] == name]
        drawing = _fan(past["ds"], past["y"], ahead, args.level)
        page.figure(drawing, f"{name}: the last {len(past)} values and the forecast.")
    if len(names) > MAX_PICTURES:
        page.text(f"The first {MAX_PICTURES} of {len(names)} series are shown; the table contains all.")
    return page


def _fan(times: Any, y: Any, ahead: pd.DataFrame, levels: list[float]) -> str:
    """Chart of history, forecast and intervals; the line of the forecast starts at the last known value."""
    last = float(y.iloc[-1])
    x = [*times, *ahead["ds"]]
    x = [str(t).removesuffix(" 00:00:00") for t in x] if times.dtype.kind == "M" else x
    line = np.concatenate([np.full(len(y) - 1, np.nan), [last], ahead["forecast"]])
    bands = {
        f"{level:g}% interval": (np.append(last, ahead[f"lo-{level:g}"]), np.append(last, ahead[f"hi-{level:g}"]))
        for level in sorted(levels, reverse=True)
    }
    truth = np.concatenate([y, np.full(len(ahead), np.nan)])
    return line_chart({"known": truth, "forecast": line}, x, bands=bands, truth="known", x_label="time")


def _steps(h: int) -> str:
    return "One step" if h == 1 else f"{h} steps"


def _levels(args: argparse.Namespace) -> str:
    return " and ".join(f"{level:g}%" for level in args.level)


def backtest(args: argparse.Namespace, say: Say, show: Say) -> int:
    """Back-test on the series of a file, compared with naive, seasonal naive and smoothing forecasts."""
    file, freq, _ = _read(args, say)  # a back-test finds the columns known ahead in the past
    model = _forecaster(args, freq)
    refit = bool(args.refit)

    def work() -> Backtest:
        return model.backtest(
            file.frame, n_windows=args.n_windows, step_size=args.step_size, refit=refit, level=args.level
        )

    result = _heard(say, work)
    if result.choice is not None and result.choice.weights:
        say(f"weights at the first origin: {result.choice.describe()}")
    table = _plain_names(result.forecasts)
    scores, series, steps = (_records(t) for t in (result.scores(), result.by_series(), result.by_step()))
    scores[0].update({f"inside {level:g}%": share for level, share in result.coverage().items()})
    paths = [str(path) for path in (args.out, args.plot) if path is not None]
    if args.out is not None:
        _write(table, args.out)
        say(f"forecasts: {args.out}")
    if args.plot is not None:
        page = _backtest_page(result, table, (scores, series, steps), args)
        page.write(args.plot, f"Written by softboost backtest {_title(args)}.")
        say(f"pictures: {args.plot}")
    if args.json:
        show(json.dumps({"scores": scores, "series": series, "steps": steps, "files": paths}, indent=2))
        return 0
    parts = [_score_table(scores), *([_coverage_line(result)] if args.level else [])]
    if len(series) > 1:
        parts.append(f"series, worst first\n{_score_table(series[:MAX_LINES])}")
    parts.append(f"mase by step\n{_score_table(steps)}")
    show("\n\n".join(parts))
    return 0


Records = list[dict[str, Any]]


def _records(frame: pd.DataFrame) -> Records:
    """Rows of a table of scores, with plain names, ids as text, and None for unknown numbers."""
    frame = frame.rename(columns={"unique_id": "series", **{c: _plain(c) for c in frame.columns if c != "unique_id"}})
    rows: Records = [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]
    for row in rows:
        for key, value in row.items():
            if key in ("model", "series"):
                row[key] = {"SoftBoostRegressor": "softboost"}.get(str(value), str(value)).replace("_", " ")
            elif value != value:
                row[key] = None
    return rows


def _plain(column: str) -> str:
    """Name of a column in words: 'mase of seasonal naive', 'inside 80%'."""
    if column.startswith("mase_"):
        return column.removeprefix("mase_").replace("_", " ")
    return f"inside {column.removeprefix('inside_')}%" if column.startswith("inside_") else column


def _coverage_line(result: Backtest) -> str:
    shares = [f"{100 * share:.0f}% of the values are inside the {level:g}% interval"
              for level, share in result.coverage().items()]  # fmt: skip
    return "coverage: " + ", ".join(shares)


def _score_table(rows: Records) -> str:
    columns = list(rows[0])
    return text_table(columns, _cells(rows, columns))


def _cells(rows: Records, columns: list[str]) -> list[list[str]]:
    return [[_cell(row.get(c), share=c == "skill" or "inside" in c) for c in columns] for row in rows]


def _backtest_page(
    result: Backtest, table: pd.DataFrame, tables: tuple[Records, Records, Records], args: argparse.Namespace
) -> Page:
    scores, series, steps = tables
    page = Page(f"Back-test of {_title(args)}", f"{_steps(args.h)} ahead from {args.n_windows} origins.")
    page.text(
        "mase is the mean absolute error divided by the mean absolute change from one time to the next, averaged over "
        "the series. skill is the gain over the naive forecast: 0% is as good as the last value, 100% is perfect."
    )
    if args.level:
        page.text(_coverage_line(result).capitalize() + ".")
    best = min(range(len(scores)), key=lambda i: scores[i]["mase"] or np.inf)
    columns = list(scores[0])
    page.table(columns, _cells(scores, columns), "Errors over all series, origins and steps.", best)
    page.heading("Errors by step and origin")
    columns = list(steps[0])
    page.table(columns, _cells(steps[:MAX_ROWS], columns), "Mase of each step ahead: the model (mase) and its rivals.")
    if len(steps) > 1:
        curves = {name if name != "mase" else "softboost": [r[name] or np.nan for r in steps] for name in columns[1:]}
        page.figure(line_chart(curves, x_label="step ahead"), "Mase of each step ahead.")
    page.figure(_errors_by_origin(result), "Cumulative mean squared error (cMSE) over the origins.")
    page.heading("Series, worst first")
    columns = list(series[0])
    shown = f"The {MAX_ROWS} worst of {len(series)} series" if len(series) > MAX_ROWS else "All series"
    page.table(columns, _cells(series[:MAX_ROWS], columns), f"{shown}: the model and the mase of its rivals.")
    page.heading("Forecasts and truth")
    by_name = {str(name): rows for name, rows in table.groupby("unique_id", sort=False)}
    for row in series[:MAX_PICTURES]:
        page.figure(_against_truth(by_name[row["series"]], args.level), f"{row['series']}: {_verdict(row)}")
    if len(series) > MAX_PICTURES:
        page.text(f"The {MAX_PICTURES} worst of {len(series)} series are shown, worst first.")
    return page


def _errors_by_origin(result: Backtest) -> str:
    curves = {}
    for name, losses in {"softboost": result.losses, **result.rivals}.items():
        known = ~np.isnan(losses)
        by_origin = np.nansum(losses, axis=(0, 2)) / np.maximum(known.sum(axis=(0, 2)), 1)
        curves[name.replace("_", " ")] = np.cumsum(by_origin) / np.arange(1, len(by_origin) + 1)
    return line_chart(curves, x_label="origin")


def _against_truth(rows: pd.DataFrame, levels: list[float]) -> str:
    """Chart of the forecasts of one series beside the truth."""
    rows = rows.sort_values(["ds", "cutoff"]).drop_duplicates("ds", keep="last")
    x = rows["ds"].astype(str) if rows["ds"].dtype.kind == "M" else rows["ds"]
    bands = {f"{v:g}% interval": (rows[f"lo-{v:g}"], rows[f"hi-{v:g}"]) for v in sorted(levels, reverse=True)}
    lines = {"truth": rows["y"], "softboost": rows["forecast"], "naive": rows["naive"]}
    return line_chart(lines, x, bands=bands, truth="truth", x_label="time")


def _verdict(row: dict[str, Any]) -> str:
    skill = row.get("skill")
    beside = "" if skill is None else f", skill {100 * skill:.0f}%"
    error = f"mase {short_number(row['mase'])}" if row["mase"] is not None else f"mae {short_number(row['mae'])}"
    return f"{error}{beside}. Each value is forecast from the nearest earlier origin."


def _cell(value: Any, share: bool = False) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{100 * value:.0f}%" if share else short_number(value)
