"""The command line: output, exit codes, and messages about invalid files."""

import io
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from helpers import PATIENCE
from softboost._cli import main as cli
from softboost._cli.series_file import read_series
from softboost._cli.table_file import TableError


def run(*args):
    return cli.main([str(arg) for arg in args])


@pytest.fixture
def sales(tmp_path):
    """Two shops, five years of months, a seasonal curve each."""
    t, rng = np.arange(60), np.random.default_rng(0)
    months = pd.date_range("2019-01-01", periods=60, freq="MS").strftime("%Y-%m-%d")
    frames = []
    for shop in ("north", "south"):
        y = 100 + t + 10 * np.sin(t * np.pi / 6) + rng.normal(size=60)
        frames.append(pd.DataFrame({"shop": shop, "month": months, "promo": 1, "sales": y.round(3)}))
    path = tmp_path / "sales.csv"
    pd.concat(frames).rename(columns={"shop": "store"}).to_csv(path, index=False)
    return path


# -- the frame -----------------------------------------------------------------------------------------------------


def test_help_lists_commands_examples_and_exit_codes(capsys):
    assert run("--help") == 0
    out, err = capsys.readouterr()
    assert err == ""
    for command in cli.COMMANDS:
        assert (f"    {command.name} " in out) == command.available()
    assert "examples:" in out
    assert cli.EXIT_CODES in out


@pytest.mark.parametrize("name", [command.name for command in cli.COMMANDS if command.available()])
def test_every_command_has_help_with_examples(name, capsys):
    assert run(name, "--help") == 0
    out = capsys.readouterr().out
    assert f"usage: softboost {name}" in out
    assert f"  softboost {name}" in out.split("examples:")[1] or "softboost completion" in out
    assert max(len(line) for line in out.splitlines()) <= 100


@pytest.mark.parametrize("name", ["demo", "forecast", "backtest"])
def test_options_show_their_defaults(name, capsys):
    run(name, "--help")
    out = capsys.readouterr().out
    assert "default:" in out
    assert "--json" in out
    assert "--quiet" in out


def test_wrong_usage_returns_two(capsys):
    assert run() == 2
    assert run("no-such-command") == 2
    assert run("demo", "--no-such-option") == 2
    out, err = capsys.readouterr()
    assert "usage: softboost demo" in err
    assert "--no-such-option" in err
    assert "usage" in out  # a call without arguments shows the help


def test_version_is_printed(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith("softboost ")


def test_command_of_an_absent_module_is_not_listed(monkeypatch, capsys):
    ghost = cli.Command("ghost", "not there", "softboost._ghost", lambda parser: None, lambda args: 0)
    monkeypatch.setattr(cli, "COMMANDS", (*cli.COMMANDS, ghost))
    assert run("--help") == 0
    assert "ghost" not in capsys.readouterr().out
    assert run("ghost") == 2


@pytest.mark.parametrize(
    ("error", "status"), [(OSError("disk full"), 1), (ValueError("h=0"), 1), (KeyboardInterrupt(), 130)]
)
def test_failures_are_one_line_and_a_code(monkeypatch, capsys, error, status):
    def fail(args):
        raise error

    command = cli.Command("fail", "always", "softboost._cli", lambda parser: None, fail)
    monkeypatch.setattr(cli, "COMMANDS", (command,))
    assert run("fail") == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_colours_only_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert cli.Console.coloured(Terminal())
    assert not cli.Console.coloured(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not cli.Console.coloured(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not cli.Console.coloured(Terminal())


def test_module_runs_as_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "softboost", "--version"], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout.startswith("softboost ")
    assert done.stderr == ""


# -- demo ----------------------------------------------------------------------------------------------------------


def test_demo_prints_tables_and_writes_the_page(tmp_path, capsys):
    assert run("demo", "--out", tmp_path / "page.html") == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].split() == ["model", "test", "MSE", "relative", "seconds"]
    assert {lines[1].split()[0], lines[2].split()[0]} == {"softboost", "lasso"}  # which differ by a percent
    assert lines[-1] == str(tmp_path / "page.html")
    assert "\033" not in out
    assert "chose" in err
    assert (tmp_path / "page.html").stat().st_size > 20_000


def test_demo_as_json_says_nothing_else(tmp_path, capsys):
    assert run("demo", "--out", tmp_path / "page.html", "--json", "--quiet") == 0
    out, err = capsys.readouterr()
    assert err == ""
    tables = json.loads(out)["tables"]
    assert {row["model"] for rows in tables.values() for row in rows} >= {"softboost", "naive", "lasso"}


def test_demo_that_cannot_write_fails(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run("demo", "--out", tmp_path / "file" / "page.html", "--quiet") == 1
    assert capsys.readouterr().out == ""


# -- commands of other modules -------------------------------------------------------------------------------------


def test_benchmark_as_json_prints_its_tables(tmp_path, capsys):
    wanted = ["--out", tmp_path, "--families", "linear", "--models", "lasso", "ridge", "--seeds", "1"]
    assert run("benchmark", "accuracy", *wanted, "--json", "--quiet") == 0
    out, err = capsys.readouterr()
    assert err == ""
    (row,) = json.loads(out)["table"]
    assert row["family"] == "linear"
    assert 0 < row["lasso"] < row["ridge"] < 0.1


def test_benchmark_prints_a_table(tmp_path, capsys):
    wanted = ["--out", tmp_path, "--families", "linear", "--models", "lasso", "--seeds", "1"]
    assert run("benchmark", "accuracy", *wanted) == 0
    assert "| linear |" in capsys.readouterr().out


def test_benchmark_without_a_name_runs_the_main_ones(tmp_path, monkeypatch, capsys):
    class Quick:
        @staticmethod
        def add_arguments(parser):
            parser.add_argument("--out", default=tmp_path)

        @staticmethod
        def run_from_args(args):
            print("a table")
            print("a remark", file=sys.stderr)
            (tmp_path / "table.csv").write_text("model,mse\nlasso,0.5\n")
            return 0

    monkeypatch.setattr(cli, "_benchmark_modules", lambda: {"accuracy": Quick, "other": Quick})
    assert run("benchmark") == 0
    out, err = capsys.readouterr()
    assert out == "a table\n"
    assert err == "softboost benchmark accuracy\na remark\n"
    assert run("benchmark", "--json", "--quiet") == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"accuracy": {"table": [{"model": "lasso", "mse": 0.5}]}}
    assert err == ""


def test_quiet_does_not_hide_a_failure(tmp_path, capsys):
    assert run("benchmark", "accuracy", "--out", tmp_path, "--families", "nonsense", "--quiet") == 2
    assert "nonsense" in capsys.readouterr().err


@pytest.mark.parametrize("name", cli._benchmark_modules())
def test_every_benchmark_has_help(name, capsys):
    assert run("benchmark", name, "--help") == 0
    out = capsys.readouterr().out
    for words in (f"usage: softboost benchmark {name}", "--json", "--quiet", "examples:"):
        assert words in out


# -- forecast and backtest -----------------------------------------------------------------------------------------


def test_forecast_prints_a_table_and_says_what_it_guessed(sales, capsys):
    assert run("forecast", sales, "--h", 3, "--level", 80) == 0
    out, err = capsys.readouterr()
    table = pd.read_csv(io.StringIO(out), parse_dates=["ds"])
    assert list(table.columns) == ["unique_id", "ds", "forecast", "lo-80", "hi-80"]
    assert table["unique_id"].tolist() == ["north"] * 3 + ["south"] * 3
    assert table["ds"].tolist()[:3] == list(pd.date_range("2024-01-01", periods=3, freq="MS"))
    truth = 100 + np.arange(60, 63) + 10 * np.sin(np.arange(60, 63) * np.pi / 6)
    np.testing.assert_allclose(table["forecast"], np.tile(truth, 2), atol=4)
    assert (table["lo-80"] < table["forecast"]).all()
    assert (table["forecast"] < table["hi-80"]).all()
    for words in (
        "time: column 'month'",
        "series: column 'store'",
        "target: column 'sales'",
        "ignored: promo",
        "'MS'",
    ):
        assert words in err


@pytest.mark.parametrize("suffix", [".csv", ".json", ".parquet"])
def test_forecast_writes_files(sales, tmp_path, capsys, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    out = tmp_path / f"forecast{suffix}"
    assert run("forecast", sales, "--h", 2, "--out", out, "--quiet") == 0
    assert capsys.readouterr().out.strip() == str(out)
    read = {".csv": pd.read_csv, ".json": pd.read_json, ".parquet": pd.read_parquet}[suffix]
    assert len(read(out)) == 4


def test_forecast_reads_parquet_and_draws(sales, tmp_path, capsys):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    path = tmp_path / "sales.parquet"
    pd.read_csv(sales, parse_dates=["month"]).to_parquet(path)
    assert run("forecast", path, "--h", 2, "--plot", tmp_path / "p.html", "--json", "--quiet") == 0
    out, err = capsys.readouterr()
    assert err == ""
    result = json.loads(out)
    assert len(result["rows"]) == 4
    assert result["rows"][0]["ds"].startswith("2024-01-01")
    assert result["files"] == [str(tmp_path / "p.html")]
    assert (tmp_path / "p.html").read_text(encoding="utf-8").count("<svg") == 2


def test_forecast_of_whole_number_times(tmp_path, capsys):
    path = tmp_path / "wave.csv"
    t = np.arange(1900, 1980)
    pd.DataFrame({"year": t, "size": np.sin(t)}).to_csv(path, index=False)
    assert run("forecast", path, "--h", 2, "--freq", 1, "--quiet") == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert table["ds"].tolist() == [1980, 1981]
    assert table["unique_id"].tolist() == ["size", "size"]
    assert run("forecast", path, "--freq", "D", "--quiet") == 1
    assert "are integers; use an integer" in capsys.readouterr().err


def test_backtest_scores_beside_simple_forecasts(sales, tmp_path, capsys):
    out, page = tmp_path / "all.csv", tmp_path / "p.html"
    assert run("backtest", sales, "--h", 2, "--n-windows", 4, "--out", out, "--plot", page, "--json", "--quiet") == 0
    result = json.loads(capsys.readouterr().out)
    scores = {row["model"]: row for row in result["scores"]}
    assert list(scores) == ["softboost", "naive", "seasonal naive", "smoothing"]
    assert scores["softboost"]["mse"] < scores["naive"]["mse"]
    table = pd.read_csv(out)
    assert len(table) == 2 * 4 * 2
    for name, column in [("softboost", "forecast"), ("naive", "naive"), ("seasonal naive", "seasonal_naive")]:
        assert scores[name]["mse"] == pytest.approx(((table[column] - table["y"]) ** 2).mean())
    north = pd.read_csv(sales).query("store == 'north'").set_index("month")["sales"]
    first = table.iloc[0]
    assert first["naive"] == pytest.approx(north[first["cutoff"]])
    inside = ((table["lo-80"] <= table["y"]) & (table["y"] <= table["hi-80"])).mean()
    assert scores["softboost"]["inside 80%"] == pytest.approx(inside)
    assert result["series"][0]["mase"] >= result["series"][1]["mase"]
    assert [row["step"] for row in result["steps"]] == [1, 2]
    html = page.read_text(encoding="utf-8")
    assert html.count("<svg") == 4
    assert f"Coverage: {100 * inside:.0f}% of the values are inside the 80% interval" in html
    worst = result["series"][0]["series"]
    assert html.index(f"<figcaption>{worst}: ") < html.index(f"<figcaption>{result['series'][1]['series']}: ")


def test_backtest_prints_tables(sales, capsys):
    assert run("backtest", sales, "--h", 1, "--n-windows", 3) == 0
    out, err = capsys.readouterr()
    scores, coverage, series, steps = out.split("\n\n")
    assert scores.split()[:5] == ["model", "mse", "mae", "mase", "skill"]
    assert [line.split("  ")[0] for line in scores.splitlines()[1:]] == [
        "softboost", "naive", "seasonal naive", "smoothing",
    ]  # fmt: skip
    assert coverage.startswith("coverage: ")
    assert series.splitlines()[0] == "series, worst first"
    assert steps.splitlines()[0] == "mase by step"
    assert "frequency: 'MS'" in err
    assert "weights at the first origin: " in err


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (["--level", "80", "95", "FILE"], "'FILE' is not a number; put FILE before --level"),
        (["FILE", "--level", "120"], "120 is not between 0 and 100"),
        (["FILE", "--h", "0"], "0 is less than 1"),
        (["FILE", "--h", "abc"], "argument --h: 'abc' is not a whole number"),
        (["FILE", "--n-jobs", "two"], "argument --n-jobs"),
        (["FILE", "--sep", "ab"], "argument --sep: 'ab' is not a single character"),
        (["FILE", "--decimal", "'"], "argument --decimal"),
        (["FILE", "--plot", "x.png"], "'x.png' does not end in .html"),
        (["FILE", "--out", "x.xls"], "'x.xls' does not end in .csv"),
    ],
)
def test_options_that_cannot_be_are_wrong_usage(wrong, says, capsys):
    assert run("forecast", *wrong) == 2
    assert says in capsys.readouterr().err


def test_what_was_guessed_is_said_before_a_complaint(tmp_path, capsys):
    path = tmp_path / "x.csv"
    path.write_text("year,value,invest\n1935,1,2\n1935,3,4\n")
    assert run("forecast", path) == 1
    err = capsys.readouterr().err
    assert err.index("target: column 'value'") < err.index("has 1935 already in line 2")
    assert "name them with --id" in err


def test_target_transforms_are_said_in_words(sales, capsys):
    assert run("forecast", sales, "--h", 2) == 0
    err = capsys.readouterr().err
    assert "Differences(" not in err
    assert "Log(" not in err


def test_large_errors_are_printed_without_an_exponent(tmp_path, capsys):
    path = tmp_path / "x.csv"
    rng = np.random.default_rng(0)
    pd.DataFrame({"year": np.arange(60), "size": 1000 * rng.normal(size=60)}).to_csv(path, index=False)
    assert run("backtest", path, "--h", 1, "--n-windows", 3, "--quiet") == 0
    assert "e+" not in capsys.readouterr().out


def test_series_too_short_are_remarked(tmp_path, capsys):
    path = tmp_path / "short.csv"
    path.write_text("ds,y\n2024-01-01,1\n2024-01-02,2\n2024-01-03,3\n")
    assert run("forecast", path, "--h", 1) == 0
    assert "weights: 100% smoothing" in capsys.readouterr().err
    assert run("forecast", path, "--h", 1, "--scope", "local") == 0
    err = capsys.readouterr().err
    assert "too short" in err
    assert "fallback_" not in err


# -- bad files -----------------------------------------------------------------------------------------------------

BAD = {
    "not a number": ("ds,y\n2024-01-01,3\n2024-01-02,abc\n", "line 3, column 'y': 'abc' is not a number"),
    "empty value": ("ds,y\n2024-01-01,3\n2024-01-02,\n", "line 3, column 'y': is empty"),
    "not a date": ("ds,y\n2024-01-01,3\n2024-13-02,4\n", "line 3, column 'ds': '2024-13-02' is not a date"),
    "twice": ("ds,y\n2024-01-01,3\n\n2024-01-01,4\n", "line 4: series 'y' has 2024-01-01 already in line 2"),
    "short line": ("ds,y\n2024-01-01,3\n2024-01-02\n", "line 3: 1 cells, but the header has 2"),
    "no dates": ("a,b\n1,2\n", "no column of dates among a, b"),
    "no numbers": ("ds,b\n2024-01-01,u\n", "no column of numbers among ds, b"),
    "one cell in words": ("month,v\n2024-01,x\n2024-02,3\n", "line 2, column 'v': 'x' is not a number"),
    "one column": ("1\n2\n3\n", "a single column, '1'; a column of times and one of values are needed"),
    "no rows": ("ds,y\n", "no rows below the header"),
    "nothing": ("", "the file is empty"),
    "same names": ("ds,y,y\n2024-01-01,1,2\n", "two columns are named 'y'"),
    "gap": (
        "ds,y\n2024-01-01,1\n2024-01-02,1\n2024-01-03,1\n2024-01-04,1\n2024-01-06,1\n",
        "has a gap: it goes from 2024-01-04 (line 5) to 2024-01-06 (line 6), but --freq D expects 2024-01-05",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_told_by_line_and_column(name, tmp_path, capsys):
    text, message = BAD[name]
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert run("forecast", path, "--h", 1) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert str(path) in err


def test_absent_file_and_column_are_named(tmp_path, sales, capsys):
    assert run("forecast", tmp_path / "no.csv") == 1
    assert "no such file" in capsys.readouterr().err
    assert run("forecast", tmp_path) == 1
    assert "is a folder" in capsys.readouterr().err
    assert run("forecast", sales, "--target", "units") == 1
    assert "no column 'units' for the target; there are store, month, promo, sales" in capsys.readouterr().err


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "b.csv").write_bytes(b"ds,y\n\xff\x00\x01")
    with pytest.raises(TableError, match="not a text file in UTF-8"):
        read_series(tmp_path / "b.csv")


def test_gaps_are_filled_on_request(tmp_path, capsys):
    days = pd.date_range("2024-01-01", periods=50).delete(20)
    values = np.arange(50.0)[np.arange(50) != 20].astype(object)
    values[30] = ""
    path = tmp_path / "gap.csv"
    pd.DataFrame({"ds": days, "y": values}).to_csv(path, index=False)
    assert run("forecast", path, "--h", 1, "--quiet") == 1
    capsys.readouterr()
    assert run("forecast", path, "--h", 1, "--gaps", "interpolate", "--quiet") == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert table["forecast"][0] == pytest.approx(50, abs=1)


# -- reading -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "times", "values"),
    [
        ("Datum;Umsatz\n01.02.2024;3,5\n02.02.2024;1.000,25\n", ["2024-02-01", "2024-02-02"], [3.5, 1000.25]),
        ("when\tx\n2024-01-01T05:00\t1\n2024-01-01T06:00\t2\n", ["2024-01-01 05:00", "2024-01-01 06:00"], [1, 2]),
        ("quarter,gdp\n2020Q1,1\n2020Q2,2\n", ["2020-01-01", "2020-04-01"], [1, 2]),
        ("date,price\n12/30/2023,1\n12/31/2023,2\n", ["2023-12-30", "2023-12-31"], [1, 2]),
        ("date,price\n30/12/2023,1\n31/12/2023,2\n", ["2023-12-30", "2023-12-31"], [1, 2]),
        ("year,quarter,gdp\n2020.0,2.0,1\n2020.0,3.0,2\n", ["2020-04-01", "2020-07-01"], [1, 2]),
        ("Year,Month,Sales\n2020,11,1\n2020,12,2\n", ["2020-11-01", "2020-12-01"], [1, 2]),
        ('\ufeffds,y\n2024-01-02,"1,234.5"\n2024-01-01,-2e3\n', ["2024-01-01", "2024-01-02"], [-2000, 1234.5]),
    ],
)
def test_files_of_many_kinds_are_read(tmp_path, text, times, values):
    path = tmp_path / "x.csv"
    path.write_text(text, encoding="utf-8")
    frame = read_series(path).frame
    assert frame["ds"].tolist() == [pd.Timestamp(t) for t in times]
    assert frame["y"].tolist() == values


def test_packed_files_are_read(tmp_path):
    pd.DataFrame({"ds": ["2024-01-01"], "y": [1]}).to_csv(tmp_path / "x.csv.gz", index=False)
    assert len(read_series(tmp_path / "x.csv.gz").frame) == 1


def test_series_are_told_apart_by_the_column_that_does(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("y,unit,firm,year\n1,usd,A,1935\n2,usd,A,1936\n3,usd,B,1935\n4,usd,B,1936\n")
    file = read_series(path)
    assert file.frame["unique_id"].tolist() == ["A", "A", "B", "B"]
    assert "series: column 'firm'" in file.remarks


def test_names_of_columns_do_not_depend_on_case(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("Date,Ticker,Close,Volume\n2024-01-01,A,1,5\n2024-01-01,B,2,6\n")
    file = read_series(path)
    assert file.frame["unique_id"].tolist() == ["A", "B"]
    assert file.frame["y"].tolist() == [1, 2]
    assert "ignored: Volume" in file.remarks


# -- completion ----------------------------------------------------------------------------------------------------


def complete(tmp_path, *words):
    """Completions of bash for the last word."""
    assert run("completion", "bash") == 0
    quoted = " ".join(f"'{word}'" for word in words)
    return (
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _softboost_complete; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )


@pytest.mark.skipif(shutil.which("bash") is None or os.name == "nt", reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["softboost", "de"], ["demo"]),
        (["softboost", "demo", "--o"], ["--out"]),
        (["softboost", "completion", ""], ["bash", "zsh", "fish"]),
        (["softboost", "forecast", "--scope", ""], ["local", "global"]),
        (["softboost", "forecast", "sal"], ["sales.csv"]),
        (["softboost", "benchmark", "accu"], ["accuracy"]),
    ],
)
def test_bash_completes(tmp_path, capsys, words, offered):
    (tmp_path / "sales.csv").write_text("")
    call = complete(tmp_path, *words)
    script = capsys.readouterr().out
    done = subprocess.run(
        ["bash", "-c", script + call], capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE, check=True
    )
    assert done.stdout.split() == offered


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("softboost de", ["demo"]),
        ("softboost completion ", ["bash", "fish", "zsh"]),
        ("softboost forecast --scope ", ["global", "local"]),
        ("softboost forecast --plot sal", ["sales.csv"]),
        ("softboost forecast sal", ["sales.csv"]),
    ],
)
def test_fish_completes(tmp_path, capsys, line, offered):
    (tmp_path / "sales.csv").write_text("")
    assert run("completion", "fish") == 0
    (tmp_path / "script.fish").write_text(capsys.readouterr().out)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source script.fish; complete -C '{line}'"],
        capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE, check=True,
    )  # fmt: skip
    assert [answer.split("\t")[0] for answer in done.stdout.splitlines()] == offered


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_the_script(tmp_path, capsys):
    assert run("completion", "zsh") == 0
    (tmp_path / "script.zsh").write_text(capsys.readouterr().out)
    command = f"source {tmp_path}/script.zsh && print -r -- $_comps[softboost]"
    environment = {**os.environ, "ZDOTDIR": str(tmp_path)}  # folder of its cache
    done = subprocess.run(
        ["zsh", "-f", "-c", command], capture_output=True, text=True, env=environment, timeout=PATIENCE, check=True
    )
    assert "_softboost_complete" in done.stdout


def test_other_shells_get_every_command(capsys):
    for shell in ("zsh", "fish"):
        assert run("completion", shell) == 0
        out = capsys.readouterr().out
        for command in cli.COMMANDS:
            assert (command.name in out) == command.available()
