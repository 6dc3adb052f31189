"""Arithmetic throughput of the kernels, relative to a matrix product on the same machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from softboost import _kernels

__all__ = ["measure_kernels"]

Record = dict[str, Any]
EXP = 30  # operations of one sigmoid and its complement: a polynomial of degree 12, two products, a division


def _seconds(work: Callable[[], Any], least: float) -> float:
    """Median processor time of one call on one thread, over at least ``least`` seconds and five calls."""
    work()
    seconds: list[float] = []
    while len(seconds) < 5 or sum(seconds) < least:
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def _peak(least: float) -> float:
    """Operations per second of a product of 512 x 512 matrices in double precision on one thread."""
    a = np.random.default_rng(0).standard_normal((512, 512))
    return 2 * 512**3 / _seconds(lambda: a @ a, least)


def measure_kernels(quick: bool) -> list[Record]:
    """Operations, bytes and time of one call of each kernel, and its speed relative to a matrix product."""
    least = 0.02 if quick else 0.5
    records = []
    peak = _peak(least)
    for name, operations, n_bytes, work in _cases():
        seconds = _seconds(work, least)
        records.append(
            {
                "measure": f"{name}: share of a matrix product's speed",
                "seconds": seconds,
                "operations": operations,
                "bytes": n_bytes,
                "operations_per_second": operations / seconds,
                "ratio": operations / seconds / peak,
                "target": None,
            }
        )
    return records


def _cases() -> list[tuple[str, float, float, Callable[[], Any]]]:
    rng = np.random.default_rng(0)
    n, d, depth, steps = 100, 50, 3, 100
    nodes, leaves = 2**depth - 1, 2**depth
    x = rng.standard_normal((d, n))
    y = np.ascontiguousarray((x[0] + x[1] * x[2])[None])

    def joint(kind: Any, q: Any) -> Callable[[], Any]:
        settings = _kernels.joint_settings(transform=kind, n_steps=steps, solve_leaves=False)
        start = [0.1 * rng.standard_normal(shape) for shape in ((nodes, d), (nodes,), (leaves, 1))]

        def work() -> Any:
            w, b, v = (part.copy() for part in start)
            return _kernels.fit_joint(x, y, None, settings, depth, q.copy(), w, b, v, None)

        return work

    # two products of the gates with the samples, sigmoids, memberships and their gradients, Adam
    step = 4 * nodes * d * n + nodes * n * (EXP + 6) + leaves * n * 8 + 12 * nodes * d
    with_q = step + 6 * nodes * d * d + 12 * d * d
    touched = 8.0 * (2 * d * n + 8 * leaves * n)  # both layouts of x and the scratch memory of one block, in the cache
    cases = [
        ("100 joint steps on a tree of depth 3, 100 x 50", steps * step, touched, joint("identity", np.zeros(0))),
        (
            "the same with a square Q of 50",
            steps * with_q,
            touched + 8.0 * 4 * d * d,
            joint("linear", np.eye(d)),
        ),
    ]

    big, p = 65_536, 24
    z = rng.standard_normal((d, big))
    r = np.ascontiguousarray((z[0] + z[1] * z[2])[None])
    bins = _kernels.bin_columns(z)
    settings = _kernels.greedy_settings(depth=2, linear_leaves=True, n_extra_columns=2)
    # histograms of two levels, the basis of 24 functions and its Gram matrix, the output
    greedy = 4 * d * big + big * (p * (p + 1) + 3 * EXP + 4 * p)
    cases.append(
        (
            "one greedy tree on 65,536 x 50",
            float(greedy),
            d * big * 2.0 + 8.0 * 6 * big,
            lambda: _kernels.fit_greedy(z, bins, r, None, settings),
        )
    )
    cases.append(
        ("second moments of 65,536 x 50", float(d * d * big), 8.0 * d * big, lambda: _kernels.moments(z, r, None))
    )
    n_trees, per_tree, rows = 100, 4, np.ascontiguousarray(z.T)
    gates = np.zeros((n_trees * 3, per_tree))
    gates[np.arange(n_trees * 3), np.arange(n_trees * 3) % per_tree] = 3.0
    packed = _kernels.pack_ensemble(
        np.float64, offset=np.zeros(d), scale=np.ones(d), intercept=np.zeros(1), coefficients=np.zeros((1, d)),
        depth=np.full(n_trees, 2), linear=np.ones(n_trees), n_columns=np.full(n_trees, per_tree),
        columns=(7 * np.arange(n_trees)[:, None] + 11 * np.arange(per_tree)).ravel() % d, gate_weights=gates.ravel(),
        gate_bias=rng.standard_normal(n_trees * 3), leaf=rng.standard_normal(n_trees * 4 * (1 + per_tree)),
    )  # fmt: skip
    per_row = n_trees * (3 * (EXP + 2) + 4 + 4 * (2 * per_tree + 2))
    cases.append(
        (
            "predictions of 100 trees at 65,536 x 50",
            float(per_row * big),
            8.0 * d * big,
            lambda: packed.predict(rows, 1),
        )
    )
    return cases
