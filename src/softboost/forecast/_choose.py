"""Selection of scope and target transforms by a back-test on a sample of the series."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ._fitted import Fitted
from ._panel import Panel, spread
from ._rolling import own_origins, roll, scaled_errors
from .target_transforms import Chain, Differences, LocalStandardScaler, Log

__all__ = ["candidate_transforms", "choose", "few_transforms"]

MAX_POOLED = 500  # series that a global model is fitted to
MAX_JUDGED = 40  # series on which both scopes are compared
N_WINDOWS = 3

Option = tuple[str, Chain]


def candidate_transforms(scope: str, panel: Panel) -> list[Chain]:
    """Target transforms to compare: none, differences and, if all values are positive, differences of logarithms.

    Pooled series are scaled.
    """
    scaled = [LocalStandardScaler()] if scope == "global" else []
    options = [Chain([*scaled]), Chain([Differences([1]), *scaled])]
    if np.nanmin(panel.y) > 0 and np.nanmax(panel.y) > 2 * np.nanmin(panel.y):
        options.append(Chain([Log(), Differences([1]), *scaled]))
    return options


def few_transforms(scope: str, panel: Panel, season: int, whole: Panel) -> list[Chain]:
    """Target transforms of a regression among other candidates; fewer, because each needs a fit.

    None (local only), differences and seasonal differences, of logarithms if all values of the ``whole`` panel are
    positive; ``panel`` is the part of it that the regression is compared on.
    """
    log = [Log()] if np.nanmin(whole.y) > 0 else []
    scaled = [LocalStandardScaler()] if scope == "global" else []
    options = [Chain([*log, Differences([1]), *scaled])]
    if scope == "local":
        options.insert(0, Chain([]))
    if season > 1 and np.max(panel.sizes) >= 3 * season:
        options.append(Chain([*log, Differences([season]), *scaled]))
    return options


def choose(
    options: Sequence[Option],
    make_fit: Callable[[str, Chain, int], Callable[[Panel], Fitted]],
    panel: Panel,
    h: int,
) -> tuple[Option, dict[str, float]]:
    """The option with the lowest back-test error, and the errors of all options.

    The error is the root mean squared error of each series divided by its one-step changes, averaged over the series,
    at three origins that are h rows apart, or fewer if series are short. The first of equal options wins.
    """
    pooled = panel.take(spread(np.arange(panel.n_series), MAX_POOLED))
    judged = spread(np.arange(pooled.n_series), MAX_JUDGED)
    longest = int(np.max(panel.sizes))
    n_windows = int(np.clip((longest // 2) // h, 1, N_WINDOWS))
    errors = {}
    for scope, chain in options:
        sample = pooled if scope == "global" else pooled.take(judged)
        y, forecast = roll(make_fit(scope, chain, h), sample, own_origins(sample, h, n_windows, h), h, False)
        each = scaled_errors(y, forecast, sample)
        each = each[judged] if scope == "global" else each
        known = each[~np.isnan(each)]
        errors[_describe(scope, chain)] = float(np.mean(known)) if len(known) else np.inf
    best = min(range(len(options)), key=lambda i: list(errors.values())[i])
    return options[best], errors


def _describe(scope: str, chain: Chain) -> str:
    names = " + ".join(repr(step) for step in chain.steps)
    return f"{scope}: {names or 'no transform'}"
