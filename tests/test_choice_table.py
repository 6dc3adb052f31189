"""The table of candidates and the ladders are what pages and reports say of them.

``python tests/test_choice_table.py`` writes the tables of ``docs/choice.md`` again.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from softboost._choice.candidates import ANCHORED as PREFIX
from softboost._choice.candidates import CANDIDATES, OF_CHANGES, about
from softboost._choice.columns import Needed
from softboost._choice.ladder import ALL, AUTOREGRESSION, CONSTANT, LADDERS, LAST, LINEAR, Rung
from softboost._choice.rows import RowsKind

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "choice.md"
KINDS = {
    "table": "table",
    "time": "anchored, not a recognised series",
    "series": "series with other columns",
    "series_alone": "series without other columns",
}
RUNGS = {
    CONSTANT: "`constant`",
    LAST: "`persistence`",
    AUTOREGRESSION: "`autoregression`",
    LINEAR: "linear models",
    ALL: "boosted models",
}


# Rows that differ in what applies: tables with any targets and with positive ones, a stationary series, and rows whose
# changes are modelled.
TABLE, POSITIVE = RowsKind("table"), RowsKind("table", positive=True)
SERIES, ANCHORED = RowsKind("series"), RowsKind("time", anchor=object())
APPLIES_TO = {
    (True, True, True, True): "all rows",
    (True, True, True, False): "not anchored",
    (True, True, False, False): "tables",
    (False, True, False, False): "tables of positive targets",
    (False, False, True, True): "series, anchored",
    (False, False, False, True): "anchored",
}


def candidate_table() -> list[str]:
    """What each name in ``choice_`` is: candidates for tables first, then those for series."""
    lines = ["| name in `choice_` | model | applies to |", "|---|---|---|"]
    for candidate in sorted(CANDIDATES, key=lambda candidate: not candidate.applies(POSITIVE)):
        to = APPLIES_TO[tuple(candidate.applies(kind) for kind in (TABLE, POSITIVE, SERIES, ANCHORED))]
        lines.append(f"| `{candidate.name}` | {candidate.about} | {to} |")
    return [*lines, f"| `{PREFIX}...` | the candidate of that name{OF_CHANGES} | anchored |"]


def ladder_table() -> list[str]:
    """How much evidence each rung needs, one line for each step up."""
    lines = ["| rows | simplest model | then | required | doubt |", "|---|---|---|---|---|"]
    for kind, (first, *others) in LADDERS.items():
        below = RUNGS[first.candidates]
        for i, rung in enumerate(others):
            left = (f" × the weight left on {below}", " × that weight") if rung.fades else ("", "")  # noqa: RUF001
            cells = ("", "") if i else (KINDS[kind], below)
            cells += (RUNGS[rung.candidates], f"{rung.required:g}{left[0]}", f"{rung.doubt:g}{left[1]}")
            lines.append("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|")
    return lines


TABLES = {"| name in `choice_` |": candidate_table, "| rows | simplest model |": ladder_table}


def with_tables(page: str) -> str:
    """The page with the tables of this version."""
    for heading, table in TABLES.items():
        pattern = rf"^{re.escape(heading)}.*\n(?:\|.*\n)*"
        assert re.search(pattern, page, re.M), heading
        page = re.sub(pattern, lambda _, table=table: "\n".join(table()) + "\n", page, flags=re.M)
    return page


def test_page_shows_the_tables_of_this_version():
    if not PAGE.exists():
        pytest.skip("the pages are not part of this source tree")
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_tables(page), "run python tests/test_choice_table.py"


def test_every_name_of_a_choice_is_explained_in_one_line():
    names = [candidate.name for candidate in CANDIDATES]
    assert len(set(names)) == len(names)
    for candidate in CANDIDATES:
        for view in (candidate.name, PREFIX + candidate.name):
            text = about(view)
            assert text is not None
            assert text.startswith(candidate.about)
            assert "\n" not in text
    assert about("something else") is None


def test_every_candidate_stands_on_a_rung_wherever_it_applies():
    """Else it would be judged for nothing."""
    for kind, ladder in LADDERS.items():
        rows = RowsKind(kind)
        on_rungs = {level for rung in ladder for level in rung.candidates}
        assert {candidate.level for candidate in CANDIDATES if candidate.applies(rows)} <= on_rungs
        assert ladder[0] == Rung(ladder[0].candidates), "the first rung needs no evidence"


def test_needed_columns_are_those_of_a_candidate_of_the_table():
    boosted = {candidate.name for candidate in CANDIDATES if candidate.is_boosted}
    needed = [candidate.columns.of for candidate in CANDIDATES if isinstance(candidate.columns, Needed)]
    assert needed
    assert set(needed) <= boosted


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
