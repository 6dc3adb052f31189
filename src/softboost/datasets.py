"""The data sets of the paper: four real collections of time series and two synthetic ones.

All are data frames in long format with the columns ``unique_id``, ``ds`` and ``y``. Files are read from ``data_dir`` or
from the folder in the environment variable ``SOFTBOOST_DATA``. If neither has a file, it is downloaded once from its
source to the user's cache, and its checksum is verified. Nothing is read or downloaded on import.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = [
    "SOURCES",
    "DataUnavailableError",
    "Source",
    "find_file",
    "load_etth2",
    "load_exchange",
    "load_m4_quarterly",
    "load_weather",
    "make_feature_recovery",
    "make_synthetic",
]

DATA_VARIABLE = "SOFTBOOST_DATA"
LOCAL_FOLDERS = (Path("data"), Path("../shared/data"))
FEATURE_RECOVERY_WEIGHTS = (10 / 21, 7 / 21, 4 / 21)  # Table I: 0.476, 0.333, 0.190
EXCHANGE_NAMES = (
    "Australia", "United Kingdom", "Canada", "Switzerland", "China", "Japan", "New Zealand", "Singapore",
)  # fmt: skip


class DataUnavailableError(OSError):
    """Raised if a file is in none of the folders and cannot be downloaded.

    Examples
    --------
    >>> try:
    ...     find_file("weather.csv", data_dir="no/such/folder", download=False)
    ... except DataUnavailableError as error:
    ...     print(error)
    weather.csv is not in no/such/folder; put it, plain or as .gz, into a folder and pass data_dir or set SOFTBOOST_DATA
    """


@dataclass(frozen=True)
class Source:
    """Source, checksum and licence of a data file.

    Attributes
    ----------
    file : str
        Name of the file in a data folder, without the extension ``.gz``.
    url : str
        Address to download from.
    sha256 : str
        Checksum of the uncompressed content.
    download_sha256 : str
        Checksum of the downloaded file, which may be compressed.
    licence : str
        Licence and author.

    Examples
    --------
    >>> SOURCES["ETTh2.csv"].licence
    'CC BY-ND 4.0 (Zhou et al., 2021)'
    """

    file: str
    url: str
    sha256: str
    download_sha256: str
    licence: str


_M4 = "https://raw.githubusercontent.com/Mcompetitions/M4-methods/master/Dataset"
_ROWS = (
    Source(
        "exchange_rate.txt",
        "https://raw.githubusercontent.com/laiguokun/multivariate-time-series-data/master/exchange_rate/"
        "exchange_rate.txt.gz",
        "0127465b51e3cd3c360f8eb2be30cfd294689a2a55903eb8245aafc396626c7f",
        "6a4fbb561dcdee43f071a83badbeec9223a335552278348656738b556f1c2e9d",
        "none stated in its repository (Lai et al., 2018)",
    ),
    Source(
        "ETTh2.csv",
        "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small/ETTh2.csv",
        "a3dc2c597b9218c7ce1cd55eb77b283fd459a1d09d753063f944967dd6b9218b",
        "a3dc2c597b9218c7ce1cd55eb77b283fd459a1d09d753063f944967dd6b9218b",
        "CC BY-ND 4.0 (Zhou et al., 2021)",
    ),
    Source(
        "weather.csv",
        "https://huggingface.co/datasets/thuml/Time-Series-Library/resolve/main/weather/weather.csv",
        "34ee981d07313e51da2a50bb600072c8ae4a69cb4b0651f4cb93a069d7a2ba63",
        "34ee981d07313e51da2a50bb600072c8ae4a69cb4b0651f4cb93a069d7a2ba63",
        "measurements of the Max Planck Institute for Biogeochemistry, Jena; file of Wu et al. (2021), CC BY 4.0",
    ),
    Source(
        "M4-Quarterly-train.csv",
        f"{_M4}/Train/Quarterly-train.csv",
        "4450678cd493aa965c14bde984a5b62a66d8c3b2f7af1e53779bc91ff008ccdc",
        "4450678cd493aa965c14bde984a5b62a66d8c3b2f7af1e53779bc91ff008ccdc",
        "none stated in its repository; published for research (Makridakis et al., 2020)",
    ),
    Source(
        "M4-Quarterly-test.csv",
        f"{_M4}/Test/Quarterly-test.csv",
        "bf1cab3b969a744c220cdc148e3829803eaa5da2754270fc4f376e775cd7d0ae",
        "bf1cab3b969a744c220cdc148e3829803eaa5da2754270fc4f376e775cd7d0ae",
        "none stated in its repository; published for research (Makridakis et al., 2020)",
    ),
)
SOURCES: dict[str, Source] = {source.file: source for source in _ROWS}


def find_file(name: str, data_dir: str | Path | None = None, download: bool = True) -> Path:
    """Path of a data file, plain or gzipped; the file is downloaded if it is not found.

    Parameters
    ----------
    name : str
        A key of ``SOURCES``.
    data_dir : str, Path or None, default=None
        Folder to search. None uses ``SOFTBOOST_DATA`` or, if that is not set, the folders ``data`` and
        ``../shared/data`` relative to the working directory.
    download : bool, default=True
        Download the file to the user's cache if it is in none of the folders. This needs the package pooch.

    Returns
    -------
    Path

    Raises
    ------
    DataUnavailableError
        If the file is not available; the message lists the folders and the fix.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "ETTh2.csv").write_text("date,OT")
    ...     find_file("ETTh2.csv", folder).name
    'ETTh2.csv'
    """
    source = SOURCES[name]
    named = data_dir if data_dir is not None else os.environ.get(DATA_VARIABLE)
    folders = (Path(named),) if named else LOCAL_FOLDERS
    for folder in folders:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    looked = " or ".join(str(folder) for folder in folders)
    advice = f"put it, plain or as .gz, into a folder and pass data_dir or set {DATA_VARIABLE}"
    if not download:
        raise DataUnavailableError(f"{name} is not in {looked}; {advice}")
    return _downloaded(source, looked, advice)


def _downloaded(source: Source, looked: str, advice: str) -> Path:
    try:
        import pooch
    except ImportError:
        raise DataUnavailableError(
            f"{source.file} is not in {looked}; to download it, pip install 'softboost[paper]', or {advice}"
        ) from None
    packed = source.sha256 != source.download_sha256
    try:
        path = pooch.retrieve(
            source.url,
            known_hash=f"sha256:{source.download_sha256}",
            fname=f"{source.file}.gz" if packed else source.file,
            path=pooch.os_cache("softboost"),
            progressbar=True,
        )
    except (OSError, ValueError) as error:  # no network, or a different checksum
        raise DataUnavailableError(
            f"{source.file} is not in {looked} and could not be downloaded from {source.url} "
            f"({type(error).__name__}); {advice}"
        ) from error
    return Path(path)


def _read(name: str, data_dir: str | Path | None) -> bytes:
    path = find_file(name, data_dir)
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content


def is_original(name: str, data_dir: str | Path | None = None) -> bool:
    """Whether the uncompressed content of the file has the checksum of the original."""
    return hashlib.sha256(_read(name, data_dir)).hexdigest() == SOURCES[name].sha256


def _read_csv(name: str, data_dir: str | Path | None, **options: Any) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(_read(name, data_dir)), encoding="latin-1", **options)


def _long(names: Any, times: Any, values: NDArray[np.float64]) -> pd.DataFrame:
    """Data frame in long format from series with common times; values (n_times, n_series)."""
    n_times, n_series = values.shape
    return pd.DataFrame(
        {
            "unique_id": np.repeat(np.asarray(names, dtype=object), n_times),
            "ds": pd.concat([pd.Series(times)] * n_series, ignore_index=True),
            "y": values.T.ravel(),
        }
    )


def load_exchange(data_dir: str | Path | None = None) -> pd.DataFrame:
    """Daily exchange rates of eight countries against the US dollar, 1990 to 2016.

    Parameters
    ----------
    data_dir : str, Path or None, default=None
        As in :func:`find_file`.

    Returns
    -------
    DataFrame
        ``unique_id`` (country), ``ds``, ``y``; 8 series of 7,588 days, in the order of the file. The file has no
        dates, so ``ds`` counts days from 0.

    Notes
    -----
    From G. Lai et al., "Modeling long- and short-term temporal patterns with deep neural networks", SIGIR 2018
    (``exchange_rate.txt``). Its repository states no licence.

    Examples
    --------
    >>> load_exchange().head(2)  # doctest: +SKIP
       unique_id  ds       y
    0  Australia   0  0.7855
    1  Australia   1  0.7818
    """
    values = _read_csv("exchange_rate.txt", data_dir, header=None).to_numpy(dtype=np.float64)
    return _long(EXCHANGE_NAMES, np.arange(len(values)), values)


def load_etth2(data_dir: str | Path | None = None) -> pd.DataFrame:
    """Hourly load and oil temperature of an electricity transformer, July 2016 to June 2018.

    Parameters
    ----------
    data_dir : str, Path or None, default=None
        As in :func:`find_file`.

    Returns
    -------
    DataFrame
        ``unique_id`` (six loads and ``OT``, oil temperature), ``ds`` (time stamps), ``y``; 7 series of 17,420 hours.

    Notes
    -----
    From H. Zhou et al., "Informer: beyond efficient transformer for long sequence time-series forecasting", AAAI 2021
    (``ETTh2.csv``), licence CC BY-ND 4.0.

    Examples
    --------
    >>> load_etth2()["unique_id"].unique().tolist()  # doctest: +SKIP
    ['HUFL', 'HULL', 'MUFL', 'MULL', 'LUFL', 'LULL', 'OT']
    """
    return _long_with_dates("ETTh2.csv", data_dir)


def load_weather(data_dir: str | Path | None = None) -> pd.DataFrame:
    """21 weather variables measured in Jena every 10 minutes of the year 2020.

    Parameters
    ----------
    data_dir : str, Path or None, default=None
        As in :func:`find_file`.

    Returns
    -------
    DataFrame
        ``unique_id`` (the paper forecasts ``T (degC)``), ``ds`` (time stamps), ``y``; 21 series of 52,696 values.

    Notes
    -----
    Measured by the Max Planck Institute for Biogeochemistry; the file is that of H. Wu et al., "Autoformer", NeurIPS
    2021 (``weather.csv``, CC BY 4.0).

    Examples
    --------
    >>> df = load_weather()  # doctest: +SKIP
    >>> temperature = df[df["unique_id"] == "T (degC)"]  # doctest: +SKIP
    >>> len(temperature), len(df["unique_id"].unique())  # doctest: +SKIP
    (52696, 21)
    """
    return _long_with_dates("weather.csv", data_dir)


def _long_with_dates(name: str, data_dir: str | Path | None) -> pd.DataFrame:
    wide = _read_csv(name, data_dir, parse_dates=["date"])
    return _long(list(wide.columns[1:]), wide["date"], wide.iloc[:, 1:].to_numpy(dtype=np.float64))


def load_m4_quarterly(
    data_dir: str | Path | None = None, part: Literal["all", "train", "test"] = "all"
) -> pd.DataFrame:
    """The 24,000 quarterly series of the M4 competition.

    Parameters
    ----------
    data_dir : str, Path or None, default=None
        As in :func:`find_file`.
    part : {"all", "train", "test"}, default="all"
        The whole series, the part given to the competitors, or the 8 values that they had to forecast.

    Returns
    -------
    DataFrame
        ``unique_id`` (``Q1`` to ``Q24000``), ``ds``, ``y``. ``ds`` counts quarters from 1 in every series and continues
        in the test part.

    Notes
    -----
    From S. Makridakis et al., "The M4 competition: 100,000 time series and 61 forecasting methods", International
    Journal of Forecasting, 2020. The repository states no licence; the data are published for research.

    Examples
    --------
    >>> len(load_m4_quarterly(part="test"))  # doctest: +SKIP
    192000
    """
    if part not in ("all", "train", "test"):
        raise ValueError(f"part must be 'all', 'train' or 'test', got {part!r}")
    train = _read_csv("M4-Quarterly-train.csv", data_dir)
    names, given = train.iloc[:, 0].to_numpy(dtype=object), train.iloc[:, 1:].to_numpy(dtype=np.float64)
    present = np.isfinite(given)
    frames = []
    if part != "test":
        rows, columns = np.nonzero(present)
        frames.append(pd.DataFrame({"unique_id": names[rows], "ds": columns + 1, "y": given[present]}))
    if part != "train":
        test = _read_csv("M4-Quarterly-test.csv", data_dir)
        ahead = test.iloc[:, 1:].to_numpy(dtype=np.float64)
        first = pd.Series(present.sum(axis=1), index=names).loc[test.iloc[:, 0]].to_numpy()
        rows, columns = np.nonzero(np.isfinite(ahead))
        tail = {"unique_id": test.iloc[:, 0].to_numpy(dtype=object)[rows], "ds": first[rows] + columns + 1}
        frames.append(pd.DataFrame({**tail, "y": ahead[np.isfinite(ahead)]}))
    if len(frames) == 1:
        return frames[0]
    place = pd.Series(np.arange(len(names)), index=names)
    both = pd.concat(frames, ignore_index=True)
    order = np.lexsort((both["ds"].to_numpy(), place.loc[both["unique_id"]].to_numpy()))
    return both.iloc[order].reset_index(drop=True)


def make_synthetic(
    n_series: int = 50,
    n_steps: int = 196,
    n_relevant: int = 5,
    n_features: int = 50,
    noise: float = 0.1,
    random_state: int | np.random.Generator | None = None,
    return_weights: bool = False,
) -> Any:
    r"""Series of eq. (1) of the paper: a few relevant columns among many irrelevant ones.

    .. math:: y_{s,t} = \sum_i w_i x_{s,t,i} + \varepsilon_{s,t}, \qquad
              x \sim N(0, 1),\ w_i \sim U(0.5, 1.5),\ \varepsilon \sim N(0, 0.1^2)

    Parameters
    ----------
    n_series, n_steps : int, default=50 and 196
        Number of series and number of rows per series.
    n_relevant, n_features : int, default=5 and 50
        Number of relevant columns, whose weights are common to all series, and number of columns.
    noise : float, default=0.1
        Standard deviation of epsilon.
    random_state : int, Generator or None, default=None
        Seed; the same seed gives the same data.
    return_weights : bool, default=False
        Also return w.

    Returns
    -------
    DataFrame, or (DataFrame, ndarray of shape (n_features,)) if ``return_weights``
        ``unique_id``, ``ds``, ``y``, ``relevant_1``, ..., ``irrelevant_1``, ...; ``ds`` counts from 1.

    Examples
    --------
    >>> make_synthetic(random_state=0).shape
    (9800, 53)
    """
    if not 0 <= n_relevant <= n_features:
        raise ValueError(f"n_relevant must be between 0 and n_features={n_features}, got {n_relevant!r}")
    rng = np.random.default_rng(random_state)
    weights = np.concatenate([rng.uniform(0.5, 1.5, n_relevant), np.zeros(n_features - n_relevant)])
    frame = _linear_panel(weights, n_relevant, n_series, n_steps, noise, rng)
    return (frame, weights) if return_weights else frame


def make_feature_recovery(
    n_series: int = 50,
    n_steps: int = 196,
    noise: float = 0.1,
    random_state: int | np.random.Generator | None = None,
    return_weights: bool = False,
) -> Any:
    """Series of Table I of the paper, with weights 10/21, 7/21 and 4/21 and two irrelevant columns.

    Parameters
    ----------
    n_series, n_steps, noise, random_state, return_weights
        As in :func:`make_synthetic`.

    Returns
    -------
    DataFrame, or (DataFrame, ndarray of shape (5,)) if ``return_weights``
        ``unique_id``, ``ds``, ``y``, ``relevant_1`` to ``relevant_3``, ``irrelevant_1`` and ``irrelevant_2``.

    Examples
    --------
    >>> frame, weights = make_feature_recovery(random_state=0, return_weights=True)
    >>> weights.round(3)
    array([0.476, 0.333, 0.19 , 0.   , 0.   ])
    """
    rng = np.random.default_rng(random_state)
    weights = np.array([*FEATURE_RECOVERY_WEIGHTS, 0.0, 0.0])
    frame = _linear_panel(weights, 3, n_series, n_steps, noise, rng)
    return (frame, weights) if return_weights else frame


def _linear_panel(
    weights: NDArray[np.float64], n_relevant: int, n_series: int, n_steps: int, noise: float, rng: np.random.Generator
) -> pd.DataFrame:
    """Independent normal columns and a linear target; the names of the columns tell which are relevant."""
    X = rng.normal(size=(n_series * n_steps, len(weights)))
    y = X @ weights + rng.normal(scale=noise, size=n_series * n_steps)
    names = [f"relevant_{j + 1}" for j in range(n_relevant)]
    names += [f"irrelevant_{j + 1}" for j in range(len(weights) - n_relevant)]
    width = len(str(n_series))
    head = {
        "unique_id": np.repeat([f"s{s + 1:0{width}d}" for s in range(n_series)], n_steps).astype(object),
        "ds": np.tile(np.arange(1, n_steps + 1), n_series),
        "y": y,
    }
    return pd.concat([pd.DataFrame(head), pd.DataFrame(X, columns=names)], axis=1)
