"""The registry of benchmark families; each row adds a family to the arena and to its tests."""

from . import series, synthetic, tabular
from .task import Family

_ROWS = (
    # The nine families of the design.
    Family("linear", synthetic.linear, (100, 100), 50, "dev", "5 of 50 columns, linear", core=True),
    Family("friedman", synthetic.friedman1, (100, 100), 50, "dev", "Friedman 1, 5 of 50 columns", core=True),
    Family("index1", synthetic.index1, (100, 100), 50, "dev", "one direction of 5 columns", core=True),
    Family("index2", synthetic.index2, (100, 100), 50, "dev", "two directions of 6 columns", core=True),
    Family("dense1", synthetic.dense1, (100, 100), 50, "dev", "one direction of all columns", core=True),
    Family("setar", synthetic.threshold_autoregression, (100, 100), 50, "dev", "threshold AR, lags", core=True),
    Family("exchange", series.exchange, (100, 100), 59, "dev", "daily exchange rates", core=True, draws=2),
    Family("etth2", series.etth2, (100, 100), 59, "dev", "hourly transformer loads", core=True, draws=2),
    Family("weather", series.weather, (100, 100), 35, "dev", "temperature, every 10 minutes", core=True),
    # Other development families.
    Family("steps", synthetic.piecewise_constant, (150, 150), 50, "dev", "axis-aligned steps and a box"),
    Family("noise", synthetic.noise_only, (100, 100), 50, "dev", "nothing to learn"),
    Family("inter_hier", synthetic.inter_hier, (100, 100), 50, "dev", "x1 + x2 + 1.5 x1 x2"),
    Family("m1_quarterly", series.m1_quarterly, (20, 94), 12, "dev", "M1 quarterly series, lags", draws=3),
    Family("sunspots", series.sunspots, (100, 100), 40, "dev", "yearly sunspots, lags"),
    Family("diabetes", tabular.diabetes, (100, 100), 10, "dev", "diabetes progression"),
    # Held out. Eight of these were consulted for a decision: taylor, crime, macro_levels, and the five M3 and Tourism
    # families; docs/benchmarks.md lists the decisions.
    Family("tlin", synthetic.tlin3, (60, 60), 100, "heldout", "sparse linear, t noise, 3 degrees"),
    Family("tlin2", synthetic.tlin2, (60, 60), 100, "heldout", "sparse linear, t noise, 2 degrees"),
    Family("cosadd", synthetic.cosadd, (100, 100), 80, "heldout", "three cosines"),
    Family("net3", synthetic.net3, (150, 150), 60, "heldout", "random network, 3 hidden units"),
    Family("linthr", synthetic.linthr, (100, 100), 50, "heldout", "linear with a jump"),
    Family("dense_add", synthetic.dense_add, (200, 200), 30, "heldout", "all columns, additive"),
    Family("sine", synthetic.sine, (100, 100), 50, "heldout", "sine of one direction"),
    Family("inter_pure", synthetic.inter_pure, (100, 100), 50, "heldout", "x1 x2 alone"),
    Family("ar3", synthetic.autoregression, (100, 100), 50, "heldout", "linear AR of order 3, lags"),
    Family("friedman1000", synthetic.friedman1000, (1000, 1000), 50, "heldout", "Friedman 1, more rows"),
    Family("m3_monthly", series.m3_monthly, (60, 102), 24, "heldout", "M3 monthly series, lags", draws=3),
    Family("m3_quarterly", series.m3_quarterly, (24, 52), 12, "heldout", "M3 quarterly, lags", draws=3),
    Family("m3_yearly", series.m3_yearly, (20, 35), 6, "heldout", "M3 yearly series, lags", draws=3),
    Family("tourism_monthly", series.tourism_monthly, (60, 285), 24, "heldout", "Tourism monthly", draws=2),
    Family("tourism_quarterly", series.tourism_quarterly, (24, 110), 12, "heldout", "Tourism quarterly", draws=3),
    Family("elnino", series.elnino, (100, 100), 36, "heldout", "monthly sea temperature, lags"),
    Family("co2", series.co2, (100, 100), 52, "heldout", "weekly carbon dioxide, lags"),
    Family("taylor", series.taylor, (100, 100), 48, "heldout", "half-hourly power demand, lags"),
    Family("macro_changes", series.macro_changes, (100, 100), 48, "heldout", "US macro, changes", draws=2),
    Family("macro_levels", series.macro_levels, (100, 100), 48, "heldout", "US macro, levels", draws=2),
    Family("diabetes_noise", tabular.diabetes_noise, (100, 100), 50, "heldout", "diabetes, 40 noise columns"),
    Family("wine", tabular.wine, (100, 100), 90, "heldout", "alcohol of wines, with products"),
    Family("cells", tabular.cells, (100, 100), 20, "heldout", "shape of cell nuclei"),
    Family("schools", tabular.schools, (100, 100), 20, "heldout", "star98 school districts"),
    Family("fertility", tabular.fertility, (60, 60), 36, "heldout", "fertility of countries, 36 years"),
    Family("crime", tabular.crime, (35, 35), 27, "heldout", "US states, with products"),
    Family("marriage", tabular.marriage, (100, 100), 44, "heldout", "survey on marriages, with products"),
    Family("party", tabular.party, (100, 100), 44, "heldout", "party of voters, with products"),
)

FAMILIES: dict[str, Family] = {family.name: family for family in _ROWS}
SPLITS = ("dev", "heldout", "all")


def select_families(split: str = "dev", names: list[str] | None = None) -> list[Family]:
    """Families of a split, or the named ones, in the order of the registry.

    Raises
    ------
    ValueError
        If a name or the split is unknown.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
    unknown = sorted(set(names or ()) - set(FAMILIES))
    if unknown:
        raise ValueError(f"unknown families: {', '.join(unknown)}; known: {', '.join(FAMILIES)}")
    if names:
        return [family for family in FAMILIES.values() if family.name in names]
    return [family for family in FAMILIES.values() if split in ("all", family.split)]
