"""The settings of the experiments, read from JSON files of the package."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

NAMES = ("table1", "table2", "figures", "overhead", "paper")

Settings = dict[str, Any]


def load_settings(name: str, quick: bool = False, folder: Path | None = None) -> Settings:
    """Settings of one experiment.

    Parameters
    ----------
    name : str
        One of ``NAMES``.
    quick : bool, default=False
        Apply the entry ``quick``, which reduces the size of the experiment.
    folder : Path or None, default=None
        Folder whose ``<name>.json``, if it exists, replaces that of the package.

    Returns
    -------
    dict

    Examples
    --------
    >>> load_settings("table1")["n_runs"], load_settings("table1", quick=True)["n_runs"]
    (100, 20)
    """
    own = folder / f"{name}.json" if folder is not None else None
    resource = files("softboost._paper") / "config" / f"{name}.json"
    text = own.read_text() if own is not None and own.is_file() else resource.read_text()
    settings: Settings = json.loads(text)
    smaller = settings.pop("quick", {})
    return overlaid(settings, smaller) if quick else settings


def overlaid(settings: Settings, other: Settings) -> Settings:
    """``settings`` updated with the entries of ``other``, recursively in nested dictionaries.

    Examples
    --------
    >>> overlaid({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}})
    {'a': {'b': 3, 'c': 2}}
    """
    merged = dict(settings)
    for key, value in other.items():
        old = merged.get(key)
        merged[key] = overlaid(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
