"""The ``softboost`` command: parses the arguments and runs the command, which is implemented in another module.

Results go to stdout, progress and remarks to stderr. Exit codes: 0 success, 1 failure, 2 usage error, 130 interrupted
by Ctrl-C. A command whose module is not installed is not listed.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import importlib
import importlib.util
import io
import json
import os
import pkgutil
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from . import completion
from .console import Console, text_table

__all__ = ["build_parser", "main"]

DESCRIPTION = "Gradient boosting that learns its own features, for regression on small data with many columns."
MAIN_BENCHMARKS = ("accuracy", "speed")  # run by `softboost benchmark` without a name
EXIT_CODES = "exit codes: 0 success, 1 failure, 2 usage error, 130 interrupted by Ctrl-C"


@dataclass(frozen=True)
class Command:
    """One sub-command: its help text, its arguments and its function.

    The command is listed if ``module`` is installed. ``add_arguments`` and ``run`` are called only for the command in
    use, so they may import slow modules.
    """

    name: str
    summary: str
    module: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    examples: tuple[str, ...] = ()

    def available(self) -> bool:
        """Whether the module of the command is installed."""
        spec = importlib.util.find_spec(self.module)
        return spec is not None and spec.origin is not None


def _add_common(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print results as JSON")
    group.add_argument("--quiet", "-q", action="store_true", help="print only results, no progress or remarks")


# -- demo ------------------------------------------------------------------------------------------------------------


def _demo_arguments(parser: argparse.ArgumentParser) -> None:
    page = Path("report.html")
    parser.add_argument("--out", type=Path, default=page, metavar="FILE", help="report to write (default: %(default)s)")
    _add_common(parser)


def _demo(args: argparse.Namespace) -> int:
    from . import demo  # noqa: PLC0415 - commands import what they need

    console = Console(args.quiet)
    with console.bar(demo.n_steps()) as bar:

        def progress(text: str) -> None:
            bar.set_description_str(text, refresh=False)
            bar.update()

        summary = demo.run(args.out, progress)
    if args.json:
        console.result(json.dumps(summary, indent=2))
        return 0
    for title, rows in summary["tables"].items():
        console.note(f"{title}\n  {summary['about'][title]}\n  softboost {summary['chose'][title]}")
        cells = [[r["model"], f"{r['mse']:.4g}", f"{r['relative']:.2f}", f"{r['seconds']:.2f}"] for r in rows]
        console.result(text_table(["model", "test MSE", "relative", "seconds"], cells, console.bold) + "\n")
    for name in summary["missing"]:
        console.note(f"{name} is not installed and was skipped: pip install 'softboost[lightgbm]'")
    console.note("report, to be opened in a browser:")
    console.result(summary["report"])
    return 0


# -- forecast and backtest -------------------------------------------------------------------------------------------


def _forecast_arguments(parser: argparse.ArgumentParser) -> None:
    importlib.import_module("softboost._cli.forecast").add_forecast_arguments(parser)
    _add_common(parser)


def _backtest_arguments(parser: argparse.ArgumentParser) -> None:
    importlib.import_module("softboost._cli.forecast").add_backtest_arguments(parser)
    _add_common(parser)


def _forecast(args: argparse.Namespace) -> int:
    console = Console(args.quiet)
    return int(importlib.import_module("softboost._cli.forecast").forecast(args, console.note, console.result))


def _backtest(args: argparse.Namespace) -> int:
    console = Console(args.quiet)
    return int(importlib.import_module("softboost._cli.forecast").backtest(args, console.note, console.result))


# -- commands of other modules ---------------------------------------------------------------------------------------


def _benchmark_modules() -> dict[str, Any]:
    """Benchmarks by name: the modules of ``softboost._benchmarks`` with ``add_arguments`` and ``run_from_args``."""
    package = importlib.import_module("softboost._benchmarks")
    found = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"softboost._benchmarks.{info.name}")
        if hasattr(module, "add_arguments") and hasattr(module, "run_from_args"):
            found["accuracy" if info.name == "arena" else info.name] = module
    return found


def _first_line(module: Any) -> str:
    line = (module.__doc__ or "").strip().split("\n")[0].rstrip(".")
    return line[:1].lower() + line[1:]


def _add_missing(parser: argparse.ArgumentParser) -> None:
    """Add the common output options that a module has not added itself."""
    known = set(parser._option_string_actions)
    group = parser.add_argument_group("output")
    if "--json" not in known:
        group.add_argument("--json", action="store_true", help="print the tables as JSON")
    if "--quiet" not in known:
        flags = ["--quiet"] if "-q" in known else ["--quiet", "-q"]
        group.add_argument(*flags, action="store_true", help="print only results, no progress or remarks")


def _run_module(run: Callable[[argparse.Namespace], Any], args: argparse.Namespace) -> int:
    """Run the command of a module; with ``--quiet`` suppress stderr, with ``--json`` print its tables as JSON."""
    status, tables = _run_for_tables(run, args)
    if status == 0 and args.json:
        print(json.dumps(tables, indent=2))
    return status


def _run_for_tables(
    run: Callable[[argparse.Namespace], Any], args: argparse.Namespace
) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """Exit code of the command of a module and, with ``--json``, its tables, read from the CSV files in ``--out``."""
    started, said, printed = time.time(), io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        if args.quiet:
            stack.enter_context(contextlib.redirect_stderr(said))
        if args.json:
            stack.enter_context(contextlib.redirect_stdout(printed))
        status = int(run(args))
    if status != 0:
        sys.stderr.write(said.getvalue())
    if status != 0 or not args.json:
        return status, {}
    files = sorted(path for path in Path(args.out).glob("*.csv") if path.stat().st_mtime >= started - 1)
    return status, {path.stem: _records(path) for path in files}


def _records(path: Path) -> list[dict[str, Any]]:
    """Rows of a CSV file, with numbers converted."""
    with path.open(newline="", encoding="utf-8") as stream:
        return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(stream)]


def _value(text: str) -> Any:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text or None


def _benchmark_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", dest="json_of_all", help="print the tables as JSON")
    group.add_argument(
        "--quiet", "-q", action="store_true", dest="quiet_of_all", help="print only results, no progress or remarks"
    )
    commands = parser.add_subparsers(dest="benchmark", metavar="NAME", title="benchmarks")
    for name, module in _benchmark_modules().items():
        description = (module.__doc__ or "").strip().split("\n\n")[0]
        sub = commands.add_parser(
            name,
            help=_first_line(module),
            description=textwrap.fill(description, 90),
            epilog=_epilog([f"softboost benchmark {name} --quick", f"softboost benchmark {name} --quick --json"]),
            formatter_class=_Help,
        )
        module.add_arguments(sub)
        _add_missing(sub)
        sub.set_defaults(run_benchmark=module.run_from_args, parser=sub)


def _benchmark(args: argparse.Namespace) -> int:
    if args.benchmark is not None:
        args.json, args.quiet = args.json or args.json_of_all, args.quiet or args.quiet_of_all
        return _run_module(args.run_benchmark, args)
    worst, tables = 0, {}
    for name, module in _benchmark_modules().items():
        if name not in MAIN_BENCHMARKS:
            continue
        Console(args.quiet_of_all).note(f"softboost benchmark {name}")
        parser = argparse.ArgumentParser(prog=f"softboost benchmark {name}")
        module.add_arguments(parser)
        _add_missing(parser)
        options = parser.parse_args([])
        options.json, options.quiet = args.json_of_all, args.quiet_of_all
        status, tables[name] = _run_for_tables(module.run_from_args, options)
        worst = max(worst, status)
    if args.json_of_all:
        print(json.dumps(tables, indent=2))
    return worst


def _reproduce_arguments(parser: argparse.ArgumentParser) -> None:
    importlib.import_module("softboost._paper").add_arguments(parser)
    _add_missing(parser)


def _reproduce(args: argparse.Namespace) -> int:
    return _run_module(importlib.import_module("softboost._paper").run_from_args, args)


# -- completion ------------------------------------------------------------------------------------------------------


def _completion_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=completion.SHELLS, help="the shell")


def _complete(args: argparse.Namespace) -> int:
    Console().result(completion.script(build_parser(), args.shell))
    return 0


COMMANDS = (
    Command(
        "demo",
        "fit bundled data, compare with other models and write a report",
        "softboost._cli.demo",
        _demo_arguments,
        _demo,
        ("softboost demo", "softboost demo --out /tmp/report.html", "softboost demo --json --quiet"),
    ),
    Command(
        "forecast",
        "forecast the series of a file",
        "softboost.forecast",
        _forecast_arguments,
        _forecast,
        (
            "softboost forecast sales.csv",
            "softboost forecast sales.csv --h 6 --level 90 --out forecast.csv --plot forecast.html",
            "softboost forecast sales.parquet --id store --time week --target units --freq W-MON",
        ),
    ),
    Command(
        "backtest",
        "back-test on the series of a file, compared with simple forecasts",
        "softboost.forecast",
        _backtest_arguments,
        _backtest,
        (
            "softboost backtest sales.csv",
            "softboost backtest sales.csv --h 3 --n-windows 24 --plot backtest.html",
            "softboost backtest sales.csv --json --quiet",
        ),
    ),
    Command(
        "reproduce",
        "recreate the paper's tables and figures",
        "softboost._paper",
        _reproduce_arguments,
        _reproduce,
        ("softboost reproduce table1 --out results", "softboost reproduce all --data-dir data"),
    ),
    Command(
        "benchmark",
        "measure accuracy and speed against other libraries (both without a name)",
        "softboost._benchmarks",
        _benchmark_arguments,
        _benchmark,
        ("softboost benchmark accuracy --quick", "softboost benchmark accuracy --list", "softboost benchmark"),
    ),
    Command(
        "completion",
        "print the completion script for a shell",
        "softboost._cli.completion",
        _completion_arguments,
        _complete,
        (
            "softboost completion bash > ~/.local/share/bash-completion/completions/softboost",
            "softboost completion zsh > ~/.softboost.zsh    # in ~/.zshrc: source ~/.softboost.zsh",
            "softboost completion fish > ~/.config/fish/completions/softboost.fish",
        ),
    ),
)


# -- the frame -------------------------------------------------------------------------------------------------------


class _Help(argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of examples and reserves space for long option names."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=min(100, shutil.get_terminal_size((100, 24)).columns))

    def add_argument(self, action: argparse.Action) -> None:
        """Include the indent of sub-commands in the width, which the base class does not."""
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            self._action_max_length += self._indent_increment


def _epilog(examples: Sequence[str]) -> str:
    lines = ["examples:", *[f"  {example}" for example in examples], "", EXIT_CODES]
    return "\n".join(lines)


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """Create the parser of the command; with ``only``, add arguments for that sub-command only.

    Adding the arguments imports the module of a sub-command, so :func:`main` does it only for the one in use.

    Parameters
    ----------
    only : str or None, default=None
        Name of a sub-command; None adds the arguments of all.

    Returns
    -------
    parser : argparse.ArgumentParser

    Examples
    --------
    >>> build_parser("demo").parse_args(["demo", "--quiet"]).quiet
    True
    """
    parser = argparse.ArgumentParser(
        prog="softboost",
        description=DESCRIPTION,
        epilog=_epilog(["softboost demo", "softboost forecast sales.csv --h 6", "softboost forecast --help"]),
        formatter_class=_Help,
    )
    parser.add_argument("--version", action="version", version=f"softboost {version('softboost')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS:
        if not command.available():
            continue
        sub = commands.add_parser(
            command.name,
            help=command.summary,
            description=textwrap.fill(command.summary[0].upper() + command.summary[1:] + ".", 90),
            epilog=_epilog(command.examples),
            formatter_class=_Help,
        )
        if only is None or only == command.name:
            command.add_arguments(sub)
        sub.set_defaults(run_command=command.run, parser=sub)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str or None, default=None
        Arguments after the program name; None uses those of the process.

    Returns
    -------
    status : int
        The exit code.

    Examples
    --------
    >>> main([])
    usage: softboost [-h] [--version] COMMAND ...
    ...
    2
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    names = [command.name for command in COMMANDS]
    parser = build_parser(next((word for word in argv if word in names), ""))
    try:
        args, unknown = parser.parse_known_args(argv)
        if unknown:
            getattr(args, "parser", parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as stop:  # argparse has printed an error or the help
        return int(stop.code or 0)
    if args.command is None:
        parser.print_help()
        return 2
    return _run(args)


def _run(args: argparse.Namespace) -> int:
    try:
        return int(args.run_command(args))
    except BrokenPipeError:  # the reader has closed the pipe, as in `softboost ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (OSError, ValueError, ImportError) as error:
        if os.environ.get("SOFTBOOST_DEBUG"):
            raise
        print(f"softboost {args.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
