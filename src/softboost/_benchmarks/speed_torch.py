"""A straightforward implementation of the paper's algorithm in eager PyTorch, for comparison with the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["fit_eagerly"]

Array = NDArray[Any]


def tree_output(z: Any, tree: list[Any], depth: int) -> Any:
    """Output of one soft tree at z (n_samples, n_components)."""
    import torch

    gate_weights, gate_bias, leaf_values = tree
    right = torch.sigmoid(z @ gate_weights.T + gate_bias)
    reach = torch.ones(len(z), 1, dtype=z.dtype)
    first = 0
    for level in range(depth):
        gates = right[:, first : first + 2**level]
        reach = torch.stack([reach * (1 - gates), reach * gates], dim=2).flatten(1)
        first += 2**level
    return reach @ leaf_values


def fit_eagerly(
    X: Array,
    y: Array,
    n_estimators: int = 20,
    depth: int = 3,
    n_steps: int = 100,
    learning_rate: float = 0.05,
    transform_learning_rate: float = 0.02,
    seed: int = 0,
) -> float:
    """Boost soft trees with a square Q, updating trees and Q jointly by Adam; return the final training error."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rng = torch.Generator().manual_seed(seed)
        inputs, target = torch.from_numpy(np.array(X)), torch.from_numpy(np.array(y, dtype=X.dtype))
        n_features = inputs.shape[1]
        Q = torch.eye(n_features, dtype=inputs.dtype, requires_grad=True)
        prediction = torch.zeros_like(target)
        for _ in range(n_estimators):
            residual = target - prediction
            size = residual.square().mean().sqrt().clamp_min(1e-30)
            bound = n_features**-0.5
            shapes = ((2**depth - 1, n_features), (2**depth - 1,), (2**depth,))
            tree = [
                (torch.rand(shape, generator=rng, dtype=inputs.dtype) * 2 - 1).mul_(scale).requires_grad_()
                for shape, scale in zip(shapes, (bound, bound, 0.1), strict=True)
            ]
            adam = torch.optim.Adam(
                [{"params": tree, "lr": learning_rate}, {"params": [Q], "lr": transform_learning_rate}],
                betas=(0.9, 0.99),
            )
            decay = torch.optim.lr_scheduler.CosineAnnealingLR(adam, n_steps)
            for _ in range(n_steps):
                adam.zero_grad()
                loss = 0.5 * (tree_output(inputs @ Q.T, tree, depth) - residual / size).square().mean()
                loss.backward()
                adam.step()
                decay.step()
            with torch.no_grad():
                prediction += size * tree_output(inputs @ Q.T, tree, depth)
        return float((target - prediction).square().mean())
    finally:
        torch.set_num_threads(threads)
