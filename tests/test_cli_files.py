"""Files that the command line reads: text, stdin, wide files, Parquet, and columns known ahead."""

from __future__ import annotations

import io
import json
import sys

import numpy as np
import pandas as pd
import pytest

from softboost._cli import main as cli
from softboost._cli.series_file import read_series
from softboost._cli.table_file import Format, TableError, numbers_of

N = 48
MONTHS = pd.date_range("2019-01-01", periods=N, freq="MS")


def run(*args):
    return cli.main([str(arg) for arg in args])


def read(tmp_path, text, **options):
    path = tmp_path / "x.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return read_series(path, **options)


def table(out):
    return pd.read_csv(io.StringIO(out))


# -- text --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "target", "values"),
    [
        ("date;sales, net\n2024-01-01;3,5\n2024-01-02;4,25\n", "sales, net", [3.5, 4.25]),
        ("date;sales, net\n2024-01-01;1,500\n2024-01-02;3,5\n", "sales, net", [1.5, 3.5]),
        ("date,sales\n2024-01-01,1500\n2024-01-02,3.5\n", "sales", [1500, 3.5]),
        ('date,sales\n2024-01-01,"1,500"\n2024-01-02,"2,250.75"\n', "sales", [1500, 2250.75]),
        ("date|a, b; c\n2024-01-01|1\n2024-01-02|2\n", "a, b; c", [1, 2]),
        ("date\tsales;net\n2024-01-01\t1\n2024-01-02\t2\n", "sales;net", [1, 2]),
    ],
)
def test_separator_and_decimal_mark_are_inferred(tmp_path, text, target, values):
    file = read(tmp_path, text)
    assert f"target: column {target!r}" in file.remarks
    assert file.frame["y"].tolist() == values


def test_separator_and_decimal_mark_can_be_set(tmp_path):
    thousands = "date;v\n2024-01-01;1,500\n2024-01-02;2,250\n"
    assert read(tmp_path, thousands).frame["y"].tolist() == [1500, 2250]
    assert read(tmp_path, thousands, form=Format(decimal=",")).frame["y"].tolist() == [1.5, 2.25]
    points = "date;v\n2024-01-01;1.500\n2024-01-02;2.250\n"
    assert read(tmp_path, points).frame["y"].tolist() == [1.5, 2.25]
    assert read(tmp_path, points, form=Format(decimal=",")).frame["y"].tolist() == [1500, 2250]
    odd = "date:v\n2024-01-01:1\n2024-01-02:2\n"
    assert read(tmp_path, odd, form=Format(separator=":")).frame["y"].tolist() == [1, 2]


def test_options_of_text_files_reach_the_reader(tmp_path, capsys):
    rows = "\n".join(f"{t:%Y-%m-%d}*{10 + i % 3},5*é" for i, t in enumerate(MONTHS))
    path = tmp_path / "x.txt"
    path.write_bytes(f"date*größe*note\n{rows}\n".encode("latin-1"))
    options = ("--sep", "*", "--decimal", ",", "--encoding", "latin-1", "--target", "größe", "--h", 1, "--quiet")
    assert run("forecast", path, *options) == 0
    assert table(capsys.readouterr().out)["unique_id"].tolist() == ["größe"]
    tabs = tmp_path / "y.tsv"
    tabs.write_text("date\ty\n" + "\n".join(f"{t:%Y-%m-%d}\t{i % 4}" for i, t in enumerate(MONTHS)))
    assert run("backtest", tabs, "--sep", "tab", "--h", 1, "--n-windows", 2, "--quiet") == 0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings_are_inferred(tmp_path, encoding):
    file = read(tmp_path, "Datum;Erlös €\n01.02.2024;3,5\n02.02.2024;4,5\n".encode(encoding))
    assert "target: column 'Erlös €'" in file.remarks
    assert ("encoding: cp1252, because the file is not in UTF-8" in file.remarks) == (encoding == "cp1252")


def test_encodings_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(TableError, match="--encoding klingon: unknown; use e"):
        read(tmp_path, "ds,y\n2024-01-01,1\n", form=Format(encoding="klingon"))
    with pytest.raises(TableError, match=r"not in --encoding ascii \(ordinal not in range"):
        read(tmp_path, "ds,größe\n2024-01-01,1\n", form=Format(encoding="ascii"))
    with pytest.raises(TableError, match=r"not a text file in UTF-8 .*; set --encoding"):
        read(tmp_path, b"ds,y\n\x81\x00,1\n")


def test_lines_of_another_length_name_the_separator(tmp_path):
    with pytest.raises(TableError, match=r"line 3: 3 cells, but the header has 2 \(separated by ','; set another"):
        read(tmp_path, "ds,y\n2024-01-01,1\n2024-01-02,2,5\n")


def test_numbers_show_their_decimal_mark():
    def numbers(*cells, **options):
        return numbers_of(pd.Series(cells, dtype=object), **options).tolist()

    assert numbers("1,5", "-2", "1e3") == [1.5, -2, 1000]
    assert numbers("1,500.25", "1,500") == [1500.25, 1500]
    assert numbers("1,500", "2,5") == [1.5, 2.5]
    assert numbers("1,5", "1,500.25") == [1.5, 1500.25]  # both marks: every cell for itself
    assert numbers("1.234.567,8", "\N{MINUS SIGN}3,5") == [1234567.8, -3.5]
    assert np.isnan(numbers("", "x", "inf", "1,2,3x")).all()


# -- times -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["period", "yyyymm", "month"])
def test_numbers_of_year_and_month_are_months(tmp_path, capsys, name):
    path = tmp_path / "x.csv"
    pd.DataFrame({name: MONTHS.strftime("%Y%m"), "sold": np.arange(N) % 12}).to_csv(path, index=False)
    assert run("forecast", path, "--h", 3, "--quiet") == 0
    assert table(capsys.readouterr().out)["ds"].tolist() == ["2023-01-01", "2023-02-01", "2023-03-01"]


def test_numbers_of_year_month_and_day_are_dates_and_others_are_not(tmp_path):
    assert read(tmp_path, "t,y\n20240131,1\n20240201,2\n").frame["ds"].tolist() == [
        pd.Timestamp("2024-01-31"), pd.Timestamp("2024-02-01"),
    ]  # fmt: skip
    for numbers in ([201511, 201512, 201513], [100, 101], [1999, 2000], [20240230, 20240301]):
        text = "t,y\n" + "".join(f"{t},1\n" for t in numbers)
        assert read(tmp_path, text).frame["ds"].tolist() == numbers


# -- stdin -------------------------------------------------------------------------------------------------------------


def test_stdin_is_read(monkeypatch, capsys, tmp_path):
    text = "ds,y\n" + "\n".join(f"{t:%Y-%m-%d},{i % 4}" for i, t in enumerate(MONTHS))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    page = tmp_path / "p.html"
    assert run("forecast", "-", "--h", 2, "--plot", page) == 0
    assert len(table(capsys.readouterr().out)) == 2
    assert "Forecasts of stdin" in page.read_text(encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ds,y\n2024-01-01,x\n2024-01-02,3\n")))
    assert run("forecast", "-") == 1
    assert "softboost forecast: stdin, line 2, column 'y': 'x' is not a number" in capsys.readouterr().err


# -- wide files --------------------------------------------------------------------------------------------------------


def test_columns_of_numbers_are_series(tmp_path, capsys):
    path = tmp_path / "wide.csv"
    wide = pd.DataFrame({"date": MONTHS, "north": np.arange(N) % 12, "south": np.arange(N) * 2.0, "east": np.nan})
    wide.loc[5:40, "east"] = np.arange(36) % 5
    wide.to_csv(path, index=False)
    assert run("forecast", path, "--h", 2) == 0
    out, err = capsys.readouterr()
    assert sorted(set(table(out)["unique_id"])) == ["east", "north", "south"]
    assert "wide file: 3 columns are series" in err
    assert table(out).groupby("unique_id")["ds"].first().to_dict() == {
        "east": "2022-06-01", "north": "2023-01-01", "south": "2023-01-01",
    }  # fmt: skip
    holed = wide.copy()
    holed.loc[20, "south"] = np.nan
    holed.to_csv(path, index=False)
    assert run("forecast", path, "--h", 2, "--quiet") == 1
    assert "line 22, column 'value': is empty" in capsys.readouterr().err
    assert run("forecast", path, "--h", 2, "--gaps", "forward", "--quiet") == 0


def test_wide_can_be_asked_for(tmp_path):
    text = "date,sales,price\n2024-01-01,1,5\n2024-01-02,2,6\n"
    assert set(read(tmp_path, text).frame["unique_id"]) == {"sales"}
    assert set(read(tmp_path, text, wide=True).frame["unique_id"]) == {"sales", "price"}
    with pytest.raises(TableError, match="--wide reads all columns as series; omit --id and --target"):
        read(tmp_path, text, wide=True, target="sales")


def test_times_in_the_header_are_read(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    wide = pd.DataFrame([np.arange(N) % 12, np.arange(N) * 2.0], columns=MONTHS.strftime("%Y-%m"))
    wide.insert(0, "shop", ["north", "south"])
    wide.iloc[1, 1:7] = None
    wide.to_csv(path, index=False)
    assert run("forecast", path, "--h", 2) == 0
    out, err = capsys.readouterr()
    assert table(out)["unique_id"].tolist() == ["north", "north", "south", "south"]
    assert table(out)["ds"].tolist()[:2] == ["2023-01-01", "2023-02-01"]
    assert f"wide file: one series per line, {N} times in the header" in err
    frame = read_series(path).frame
    assert frame.groupby("unique_id").size().to_dict() == {"north": N, "south": N - 6}


# -- Parquet -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["dates", "periods", "unnamed dates", "pyarrow", "two levels"])
def test_index_of_a_parquet_file_is_read(tmp_path, form):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    df = pd.DataFrame({"store": "a", "when": MONTHS, "units": np.arange(float(N))})
    if form == "dates":
        df = df.set_index("when")
    elif form == "unnamed dates":
        df = df.set_index("when").rename_axis(None)
    elif form == "periods":
        df = df.assign(when=MONTHS.to_period("M")).set_index("when")
    elif form == "two levels":
        df = df.set_index(["store", "when"])
    else:
        df = df.convert_dtypes(dtype_backend="pyarrow")
    df.to_parquet(tmp_path / "x.parquet")
    frame = read_series(tmp_path / "x.parquet").frame
    assert frame["ds"].tolist() == list(MONTHS)
    assert frame["y"].tolist() == list(range(N))
    assert set(frame["unique_id"]) == {"a"}


# -- columns known ahead -----------------------------------------------------------------------------------------------


@pytest.fixture
def promoted(tmp_path):
    rng = np.random.default_rng(0)
    parts, ahead = [], []
    for shop in ("n", "s"):
        promo = rng.normal(size=N + 2)
        kind = rng.choice(["flyer", "none"], size=N + 2)
        y = 50 + 20 * promo + 5 * (kind == "flyer") + 0.1 * rng.normal(size=N + 2)
        times = pd.date_range("2019-01-01", periods=N + 2, freq="MS")
        df = pd.DataFrame({"store": shop, "month": times, "promo": promo, "kind": kind, "other": 1.5, "sales": y})
        parts.append(df[:N])
        ahead.append(df[N:])
    pd.concat(parts).to_csv(tmp_path / "past.csv", index=False)
    future = pd.concat(ahead)
    future[["store", "month", "promo", "kind"]].to_csv(tmp_path / "ahead.csv", index=False)
    return tmp_path / "past.csv", tmp_path / "ahead.csv", future


def test_columns_known_ahead_carry_the_forecast(promoted, capsys):
    past, ahead, future = promoted
    assert run("forecast", past, "--exog", ahead, "--h", 2, "--scope", "global") == 0
    out, err = capsys.readouterr()
    assert "known ahead: promo, kind" in err
    assert "ignored: other" in err
    with_columns = np.abs(table(out)["forecast"].to_numpy() - future["sales"].to_numpy()).mean()
    assert run("forecast", past, "--h", 2, "--scope", "global", "--quiet") == 0
    without = np.abs(table(capsys.readouterr().out)["forecast"].to_numpy() - future["sales"].to_numpy()).mean()
    assert with_columns < 0.3 * without
    assert run("backtest", past, "--exog", ahead, "--h", 2, "--n-windows", 3, "--scope", "global", "--json") == 0
    assert json.loads(capsys.readouterr().out)["scores"][0]["skill"] > 0.7


def test_what_is_missing_ahead_is_named(promoted, capsys, tmp_path):
    past, ahead, future = promoted
    assert run("forecast", past, "--exog", ahead, "--h", 3, "--quiet") == 1
    err = capsys.readouterr().err
    assert f"{ahead} has no row for series 'n' at 2023-03-01" in err
    assert "X_df" not in err
    future[["store", "month"]].to_csv(tmp_path / "none.csv", index=False)
    assert run("forecast", past, "--exog", tmp_path / "none.csv", "--quiet") == 1
    assert "no column beside those of series and times" in capsys.readouterr().err
    future.assign(weather=1)[["store", "month", "weather"]].to_csv(tmp_path / "new.csv", index=False)
    assert run("forecast", past, "--exog", tmp_path / "new.csv", "--quiet") == 1
    assert "no column 'weather' for the --exog file; there are store, month" in capsys.readouterr().err


def test_columns_ahead_without_series_hold_for_all(promoted, capsys, tmp_path):
    past, _, future = promoted
    future[future["store"] == "n"][["month", "promo"]].to_csv(tmp_path / "all.csv", index=False)
    assert run("forecast", past, "--exog", tmp_path / "all.csv", "--h", 2, "--quiet") == 0
    assert len(table(capsys.readouterr().out)) == 4


# -- outputs and frequencies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["forecast", "backtest"])
@pytest.mark.parametrize("option", ["--out", "--plot"])
def test_folders_that_are_not_there_are_refused_before_work(promoted, capsys, tmp_path, monkeypatch, command, option):
    past, _, _ = promoted
    name = tmp_path / "no" / ("x.csv" if option == "--out" else "x.html")
    assert run(command, past, option, name) == 1
    out, err = capsys.readouterr()
    assert f"{option} {name}: the folder {str(name.parent)!r} does not exist; create it first" in err
    assert out == ""
    assert not name.parent.exists()
    monkeypatch.chdir(tmp_path)
    assert run("forecast", past, "--h", 1, "--out", "here.csv", "--quiet") == 0
    assert (tmp_path / "here.csv").exists()


def test_a_wrong_frequency_is_named_with_the_likely_one(promoted, capsys):
    past, _, _ = promoted
    assert run("forecast", past, "--freq", "D", "--quiet") == 1
    assert "most lines do not follow --freq D" in (err := capsys.readouterr().err)
    assert "its times look like --freq MS" in err
