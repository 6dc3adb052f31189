"""Small networks: perceptrons, recurrent networks, and convolutions on a window of lags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from ._torch_recurrence import Recurrence

__all__ = ["NETWORKS", "Cnn", "Mlp", "Network", "Recurrent", "standardise_output", "zero_output"]

MAXIMUM_SCALE = 0.25  # brings the maximum over a window to the scale of the mean, so that Adam learns both
ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "gelu": nn.GELU}


class Network(BaseEstimator):
    """Parameters of a module that is built once the columns are known; supports clone, grid search and saving.

    ``build`` receives the shape of an input row and returns a module whose last layer is ``out``, a torch.nn.Linear.
    """

    has_memory = False

    def build(self, shape: tuple[int, ...]) -> nn.Module:
        raise NotImplementedError


class Mlp(Network):
    """Network of :func:`mlp`."""

    def __init__(
        self, n_components: int = 4, hidden: Sequence[int] = (16,), activation: str = "tanh", dropout: float = 0.0
    ) -> None:
        self.n_components = n_components
        self.hidden = hidden
        self.activation = activation
        self.dropout = dropout

    def build(self, shape: tuple[int, ...]) -> nn.Module:
        layers: list[nn.Module] = [nn.Flatten()]
        width = int(np.prod(shape))
        for size in self.hidden:
            layers += [nn.Linear(width, size), _activation(self.activation), nn.Dropout(self.dropout)]
            width = size
        return _Headed(nn.Sequential(*layers), width, self.n_components)


class Recurrent(Network):
    """Network of :func:`rnn` and :func:`lstm`.

    ``pooling="last"``, the only one of version 0.1.0, computes the output from the last state only.
    """

    has_memory = True

    def __init__(
        self,
        kind: str = "lstm",
        n_components: int = 4,
        n_hidden: int = 8,
        n_layers: int = 1,
        dropout: float = 0.0,
        pooling: str = "mean and last",
    ) -> None:
        self.kind = kind
        self.n_components = n_components
        self.n_hidden = n_hidden
        self.n_layers = n_layers
        self.dropout = dropout
        self.pooling = pooling

    def build(self, shape: tuple[int, ...]) -> nn.Module:
        last = self.pooling == "last"
        body = Recurrence(self.kind, shape[-1], self.n_hidden, self.n_layers, self.dropout, last)
        pooled = nn.Sequential(body, nn.Dropout(self.dropout)) if self.dropout else body
        return _Headed(pooled, self.n_hidden if last else 2 * self.n_hidden, self.n_components)


class Cnn(Network):
    """Network of :func:`cnn`."""

    has_memory = True

    def __init__(
        self,
        n_components: int = 4,
        n_channels: int = 8,
        kernel_size: int = 3,
        n_layers: int = 1,
        activation: str = "tanh",
        dropout: float = 0.0,
    ) -> None:
        self.n_components = n_components
        self.n_channels = n_channels
        self.kernel_size = kernel_size
        self.n_layers = n_layers
        self.activation = activation
        self.dropout = dropout

    def build(self, shape: tuple[int, ...]) -> nn.Module:
        layers: list[nn.Module] = [_ChannelsFirst()]
        width = shape[-1]
        for layer in range(self.n_layers):
            reach = 2**layer  # dilation
            layers += [
                nn.ConstantPad1d(((self.kernel_size - 1) * reach, 0), 0.0),  # causal
                nn.Conv1d(width, self.n_channels, self.kernel_size, dilation=reach),
                _activation(self.activation),
            ]
            width = self.n_channels
        body = nn.Sequential(*layers, _Pooled(), nn.Dropout(self.dropout))
        return _Headed(body, 3 * width, self.n_components)


class _Headed(nn.Module):
    """A body and a linear layer that computes z from its output."""

    def __init__(self, body: nn.Module, width: int, n_components: int) -> None:
        super().__init__()
        self.body = body
        self.out = nn.Linear(width, n_components)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.out(self.body(x))
        return z


class _ChannelsFirst(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


class _Pooled(nn.Module):
    """Mean, last step, and distance of the maximum from the mean, which shows whether a shape occurs anywhere."""

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(dim=2)
        return torch.cat([mean, x[:, :, -1], MAXIMUM_SCALE * (x.amax(dim=2) - mean)], dim=1)


def _activation(name: str) -> nn.Module:
    if name not in ACTIVATIONS:
        raise ValueError(f"activation={name!r} is not valid; choose one of {sorted(ACTIVATIONS)}")
    return ACTIVATIONS[name]()


NETWORKS: dict[str, type[Network]] = {"Mlp": Mlp, "Recurrent": Recurrent, "Cnn": Cnn}


def zero_output(module: Any) -> None:
    """Set the last layer to zero, so that the output of the module is zero."""
    module.out.weight.zero_()
    module.out.bias.zero_()


def standardise_output(module: Any, inputs: Tensor) -> None:
    """Scale the last layer so that z initially has mean zero and unit variance, as the trees expect.

    The scale is computed on rows of independent standard normal columns instead of the training rows, so that the
    initial transform depends only on the seed.
    """
    module.eval()
    z = module(inputs.to(torch.float32))
    spread = z.std(dim=0, correction=0).clamp_min(1e-6)
    module.out.weight /= spread[:, None]
    module.out.bias.copy_((module.out.bias - z.mean(dim=0)) / spread)
