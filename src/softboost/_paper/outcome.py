"""What a run of the experiments gave."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from .results import Record


@dataclass
class Outcome:
    """What a run gave: frames, figures and remarks, for the report and for whoever called."""

    out: Path
    quick: bool
    tables: "dict[str, pd.DataFrame]" = field(default_factory=dict)
    figures: dict[str, Path] = field(default_factory=dict)
    records: "dict[str, list[Record]]" = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    seconds: float = 0.0
