"""The outcome of a run of the experiments."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from .results import Record


@dataclass
class Outcome:
    """Data frames, figures and remarks of a run, for the report and the caller.

    ``earlier`` names the tables and figures that an earlier run left in the folder.
    """

    out: Path
    quick: bool
    tables: "dict[str, pd.DataFrame]" = field(default_factory=dict)
    figures: dict[str, Path] = field(default_factory=dict)
    records: "dict[str, list[Record]]" = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    earlier: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    seconds: float = 0.0
