"""Recurrent layers on short windows, computed by the kernel.

The layers of PyTorch start several operations for each step of the window, which take longer than the arithmetic of a
small state. Here a layer is one call forwards and one call backwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from softboost import _kernels

__all__ = ["Recurrence"]

CELLS: dict[str, Callable[..., nn.Module]] = {"rnn": nn.RNN, "lstm": nn.LSTM}


class Recurrence(nn.Module):
    """:class:`torch.nn.RNN` or :class:`torch.nn.LSTM`, with their parameters.

    Maps (n_samples, n_steps, n_channels) to the mean and the last state of the last layer, (n_samples, 2 * n_hidden),
    or with ``last_only`` to the last state, (n_samples, n_hidden).
    """

    def __init__(
        self, kind: str, n_inputs: int, n_hidden: int, n_layers: int, dropout: float, last_only: bool = False
    ) -> None:
        super().__init__()
        self.is_lstm = kind == "lstm"
        self.n_layers = n_layers
        self.dropout = dropout
        self.last_only = last_only
        self.cell = CELLS[kind](n_inputs, n_hidden, n_layers)
        if kind == "rnn":
            _widen(self.cell)

    def forward(self, x: Tensor) -> Tensor:
        values = x.permute(1, 2, 0)
        for layer in range(self.n_layers):
            if layer > 0:
                values = nn.functional.dropout(values, self.dropout, self.training)
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            to_gates, to_state, *biases = (getattr(self.cell, f"{name}_l{layer}") for name in names)
            inner = layer + 1 < self.n_layers
            pooling = "none" if inner else "last" if self.last_only else "mean and last"
            values = _Layer.apply(values, to_gates, to_state, biases[0] + biases[1], self.is_lstm, pooling)
        return values.T


def _widen(cell: nn.Module) -> None:
    """Enlarge the initial weights of a plain recurrent layer, whose states are almost linear in the window otherwise.

    A linear state has nothing to add to x, and the steps that would make it bend are many.
    """
    for name, p in cell.named_parameters():
        p.data *= 2.0 if name.startswith("weight_hh") else 3.0


class _Layer(torch.autograd.Function):
    """States (n_steps, n_hidden, n_samples) of inputs (n_steps, n_inputs, n_samples), or the last and their mean."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Any:
        *tensors, is_lstm, pooling = inputs
        arrays = [np.ascontiguousarray(tensor.detach().numpy()) for tensor in tensors]
        store = any(ctx.needs_input_grad)
        found = _kernels.recurrent_states(*arrays, is_lstm=is_lstm, store=store, n_threads=torch.get_num_threads())
        ctx.is_lstm, ctx.pooling, ctx.arrays, ctx.found = is_lstm, pooling, arrays, found
        states = found.states
        if pooling == "none":
            return torch.from_numpy(states)
        mean = [] if pooling == "last" else [states.mean(axis=0)]
        return torch.from_numpy(np.concatenate([*mean, states[-1]]))

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *gradients: Any) -> Any:
        of_x, states = ctx.needs_input_grad[0], ctx.found.states
        upstream = gradients[0].numpy()
        if ctx.pooling != "none":
            last, mean = upstream[-states.shape[1] :], upstream[: -states.shape[1]]
            upstream = np.zeros_like(states)
            if ctx.pooling != "last":
                upstream[:] = mean / states.dtype.type(len(states))
            upstream[-1] += last
        x, to_gates, to_state, bias = ctx.arrays
        options = {"is_lstm": ctx.is_lstm, "of_x": of_x, "n_threads": torch.get_num_threads()}
        *weights, grad_x = _kernels.recurrent_gradients(
            x, to_gates, to_state, bias, ctx.found, np.ascontiguousarray(upstream), **options
        )
        return torch.from_numpy(grad_x) if of_x else None, *(torch.from_numpy(g) for g in weights), None, None
