"""Feature transforms in PyTorch: any module, with or without memory.

theta is the flat vector of the module's parameters, and autograd pulls the gradient with respect to z back to theta.
Modules are only called, never trained in place. By default z holds the columns of X and, beside them, the output of a
linear layer after the module. This layer starts at zero, so that the model starts as without a transform.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor, nn
from torch.func import functional_call

from . import Transform, _name
from ._torch_modules import NETWORKS, Cnn, Mlp, Network, Recurrent, standardise_output, zero_output

__all__ = ["TorchTransform", "cnn", "lstm", "mlp", "rnn"]

Array = NDArray[Any]
Windows = Mapping[str, Sequence[int | str]] | Sequence[Sequence[int | str]]
# A call writes theta into the module, and dropout uses a global generator, so only one call may run at a time.
_ONE_CALL = threading.RLock()
N_REFERENCE_ROWS = 256
VALIDATED_STEPS, STEPS = 120, 40  # defaults: held rows end the former earlier
HEAD = "softboost.head"  # name of A among the tensors; no module has a parameter of this name


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let PyTorch use one thread: the networks are small, and beside other work its threads mostly wait for each other.

    The number is global, so that only one call may change it at a time.
    """
    with _ONE_CALL:
        n_threads = torch.get_num_threads()
        if n_threads > 1:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if n_threads > 1:
                torch.set_num_threads(n_threads)


class TorchTransform(Transform):
    """z = (x, A module(x)) with A starting at zero, for any differentiable :class:`torch.nn.Module`.

    At the start, z holds the columns of X only, as Q starts at the identity. Gradient steps then learn A and the
    weights of the module. Rows that take no part in the steps decide when they stop and whether they are kept; see
    ``docs/transforms.md``.

    Parameters
    ----------
    module : torch.nn.Module, recipe or callable
        Maps (n_samples, n_features) to (n_samples, n_components); with ``windows``, its input has shape (n_samples,
        n_steps, n_channels). A module starts from its own weights. A callable receives the size of the last axis of
        the input and returns the module; its weights are initialised with the ``random_state`` of the model. In the
        networks of softboost, A is their last layer. Batch normalisation is not supported, because its statistics are
        not weights; use layer normalisation.
    windows : dict or list of lists, default=None
        For modules with memory: the lag columns of each variable, oldest first, such as
        ``{"y": ["lag3", "lag2", "lag1"], "load": [...]}`` or ``[[2, 1, 0], [...]]``. Each variable is one channel, and
        all have the same length. Integers are column indices of X.
    rest : {"keep", "append", "drop"}, default="keep"
        The columns that z holds beside the learned part: all of them, those outside all windows, or none. Without
        ``"keep"``, z = module(x) without A, and the steps are not validated.
    weight_decay : float, default=0.01
        L2 penalty on the weights. Larger values give a simpler transform.
    learning_rate : float, default=0.03
        Learning rate of Adam for the weights.
    n_steps : int or None, default=None
        Maximum number of gradient steps per boosting round. None allows 120 with ``rest="keep"``, where held rows end
        them earlier, and takes 40 otherwise.
    batch_size : int or None, default=128
        Number of random rows of each gradient step; None uses all rows. Only with ``rest="keep"``.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from softboost import SoftBoostRegressor
    >>> X = np.random.default_rng(0).normal(size=(80, 3))
    >>> module = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> transform = TorchTransform(module, weight_decay=0.01)
    >>> SoftBoostRegressor(5, 0.5, feature_transform=transform).fit(X, X[:, 0]).predict(X).shape
    (80,)
    """

    def __init__(
        self,
        module: Any,
        windows: Windows | None = None,
        rest: str = "keep",
        weight_decay: float = 0.01,
        learning_rate: float = 0.03,
        n_steps: int | None = None,
        batch_size: int | None = 128,
    ) -> None:
        super().__init__(learning_rate, n_steps)
        self.module = module
        self.windows = windows
        self.rest = rest
        self.weight_decay = weight_decay
        self.batch_size = batch_size

    # -- the contract of a transform -----------------------------------------------------------------------------

    def start(self, X: Array, target: Array, rng: np.random.Generator) -> Array:
        seed = int(rng.integers(2**31))
        with _ONE_CALL, _seeded(seed):
            module = self._fresh(X.shape[1])
            if isinstance(self.module, Network) and self.rest == "keep":
                zero_output(module)
            elif isinstance(self.module, Network):
                standardise_output(module, self._inputs(rng.normal(size=(N_REFERENCE_ROWS, X.shape[1]))))
        parts = [np.zeros(self._head_size(X.shape[1])), *[p.detach().numpy().ravel() for p in module.parameters()]]
        return np.concatenate(parts).astype(X.dtype)

    @_one_thread()
    def apply(self, theta: Array, X: Array) -> Array:
        with torch.no_grad():
            z = self._forward(self._tensors(theta, X.shape[1], learn=False), X)
        return self._with_rest(z.numpy(), X)

    @_one_thread()
    def pullback(self, theta: Array, X: Array, grad_z: Array) -> Array:
        tensors = self._tensors(theta, X.shape[1], learn=True)
        z = self._forward(tensors, X)
        return _gradient(z, list(tensors.values()), self._of_output(grad_z, z, X.shape[1]))

    def starts_at_identity(self, n_features: int) -> bool:
        return self.rest == "keep"

    def step_limit(self, validated: bool = False) -> int:
        if self.n_steps is None:
            return VALIDATED_STEPS if validated else STEPS
        return self.n_steps

    def project(self, theta: Array, step: float) -> Array:
        return theta * (1.0 - step * self.weight_decay) if self.weight_decay > 0 else theta

    def training(self, rng: np.random.Generator) -> Transform:
        return _Training(self, rng)

    def with_columns(self, names: Sequence[str] | None) -> TorchTransform:
        if self.windows is None:
            return self
        counted = [[self._number(column, names) for column in window] for window in self._window_lists()]
        return clone(self).set_params(windows=counted)

    def with_lags(self, columns: Sequence[int]) -> TorchTransform:
        if self.windows is not None or not getattr(self.module, "has_memory", False) or not columns:
            return self
        return clone(self).set_params(windows=[list(columns)])

    def _check_steps(self) -> None:
        if self.n_steps is not None:
            super()._check_steps()

    def check(self, n_features: int) -> None:
        super().check(n_features)
        if not self.weight_decay >= 0:
            raise ValueError(f"{_name(self)}: weight_decay must not be negative, got {self.weight_decay!r}")
        if self.rest not in ("keep", "append", "drop"):
            raise ValueError(f"{_name(self)}: rest must be 'keep', 'append' or 'drop', got {self.rest!r}")
        n = self.batch_size
        if n is not None and not (isinstance(n, (int, np.integer)) and n >= 1):
            raise ValueError(f"{_name(self)}: batch_size must be None or an integer of at least 1, got {n!r}")
        if not (isinstance(self.module, (nn.Module, Network)) or callable(self.module)):
            raise ValueError(f"{_name(self)}: module must be a torch.nn.Module or build one, got {self.module!r}")
        self._check_windows(n_features)
        self._check_module(n_features)

    # -- files -----------------------------------------------------------------------------------------------------

    def saved_params(self) -> dict[str, Any]:
        """Parameters in values of JSON, for a model file; a module of the user's own as None."""
        params = {**self.get_params(deep=False), "module": None}
        if isinstance(self.windows, Mapping):
            params["windows"] = self._window_lists()
        params = {name: _plain(value) for name, value in params.items()}
        if isinstance(self.module, Network):
            params["module"] = {"recipe": type(self.module).__name__, **self.module.get_params(deep=False)}
        return params

    @classmethod
    def from_saved_params(cls, params: dict[str, Any]) -> TorchTransform:
        """Create a transform with a network of softboost from its :meth:`saved_params`."""
        recipe = dict(params["module"])
        network = NETWORKS[recipe.pop("recipe")]
        if network is Recurrent:
            recipe.setdefault("pooling", "last")  # as in version 0.1.0
        return cls(**{**params, "module": network(**recipe)})

    # -- columns and windows ---------------------------------------------------------------------------------------

    def _window_lists(self) -> list[list[Any]]:
        assert self.windows is not None
        windows = self.windows.values() if isinstance(self.windows, Mapping) else self.windows
        return [list(window) for window in windows]

    def _number(self, column: int | str, names: Sequence[str] | None) -> int:
        if not isinstance(column, str):
            return int(column)
        if names is None or column not in list(names):
            where = "X has no column names" if names is None else f"X has {list(names)}"
            raise ValueError(f"{_name(self)}: windows contains the column {column!r}, but {where}")
        return list(names).index(column)

    def _check_windows(self, n_features: int) -> None:
        if self.windows is None:
            return
        windows = self._window_lists()
        if not windows or not windows[0] or len({len(window) for window in windows}) > 1:
            raise ValueError(
                f"{_name(self)}: windows must list the same number of columns for each variable, got {self.windows!r}"
            )
        for column in np.ravel(windows):
            if not isinstance(column, (int, np.integer)) or not 0 <= column < n_features:
                raise ValueError(
                    f"{_name(self)}: windows contains {column!r}; use column indices from 0 to {n_features - 1}"
                )

    def _inputs(self, X: Array) -> Tensor:
        """Input of the module: the columns, or the windows as (n_samples, n_steps, n_channels)."""
        if self.windows is not None:
            X = X[:, np.array(self._window_lists()).T]
        elif isinstance(self.module, Network) and self.module.has_memory:
            X = X[:, :, None]  # all columns are the lags of one variable, in their order
        return torch.from_numpy(np.ascontiguousarray(X))

    def _with_rest(self, z: Array, X: Array) -> Array:
        if self.rest == "keep":
            return np.hstack([X, z])
        if self.rest == "drop" or self.windows is None:
            return z
        others = np.setdiff1d(np.arange(X.shape[1]), np.ravel(self._window_lists()))
        return np.hstack([z, X[:, others]])

    def _of_output(self, grad_z: Array, output: Tensor, n_features: int) -> Array:
        """The part of the gradient of z that belongs to the output of the module."""
        first = n_features if self.rest == "keep" else 0
        return grad_z[:, first : first + output.shape[1]]

    # -- the module ------------------------------------------------------------------------------------------------

    def _fresh(self, n_features: int) -> nn.Module:
        """A copy of the module with initial weights; recipes and callables draw them."""
        if isinstance(self.module, nn.Module):
            module = copy.deepcopy(self.module)
        else:
            shape = self._inputs(np.zeros((1, n_features))).shape[1:]
            build = self.module.build if isinstance(self.module, Network) else lambda shape: self.module(shape[-1])
            module = build(tuple(shape))
        module = module.cpu()
        for p in module.parameters():
            p.requires_grad_(False)
        return module

    def _built(self, n_features: int) -> _Built:
        """The module whose weights a call replaces; cached, because building it is slower than calling it."""
        recipe = list(vars(self.module).values()) if isinstance(self.module, Network) else None
        key = n_features, id(self.module), recipe, None if self.windows is None else self._window_lists()
        kept: tuple[Any, _Built] | None = self.__dict__.get("_kept")
        if kept is None or kept[0] != key:
            with _ONE_CALL, _seeded(0):
                self._kept = kept = key, _Built.of(self._fresh(n_features))
        return kept[1]

    def _head_size(self, n_features: int) -> int:
        """Number of entries of A; 0 if the last layer of the module takes its place, or z does not hold X."""
        if self.rest != "keep" or isinstance(self.module, Network):
            return 0
        with torch.no_grad():
            inputs = self._inputs(np.zeros((1, n_features)))
            z = self._called(self._built(n_features), {}, inputs)
        return int(z.shape[1]) ** 2

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_kept", None)
        return state

    def _tensors(self, theta: Array, n_features: int, learn: bool) -> dict[str, Tensor]:
        """Split theta into the parameters of the module."""
        flat = torch.from_numpy(np.array(theta))
        at = self._head_size(n_features)
        width = math.isqrt(at)
        tensors = {HEAD: flat[:at].view(width, width).requires_grad_(learn)} if at else {}
        for name, shape in self._built(n_features).shapes.items():
            tensors[name] = flat[at : at + shape.numel()].view(shape).requires_grad_(learn)
            at += shape.numel()
        return tensors

    def _forward(self, tensors: dict[str, Tensor], X: Array) -> Tensor:
        """Output of the module in evaluation mode (without dropout)."""
        weights = {name: tensor for name, tensor in tensors.items() if name != HEAD}
        z = self._called(self._built(X.shape[1]), weights, self._inputs(X))
        return z @ tensors[HEAD].T if HEAD in tensors else z

    def _called(self, built: _Built, weights: dict[str, Tensor], inputs: Tensor) -> Tensor:
        with _ONE_CALL:
            inputs = inputs if weights else inputs.to(torch.float32)
            buffers = {n: b.to(inputs.dtype) if b.is_floating_point() else b for n, b in built.buffers.items()}
            return functional_call(built.module, {**weights, **buffers}, (inputs,), tie_weights=built.has_ties)

    @property
    def _is_random(self) -> bool:
        """Whether the module may draw random numbers in training."""
        return not isinstance(self.module, Network) or self.module.dropout > 0

    def _check_module(self, n_features: int) -> None:
        built = self._built(n_features)
        for part in built.module.modules():
            if getattr(part, "track_running_stats", False):
                raise ValueError(
                    f"{_name(self)}: {type(part).__name__} has statistics that are not weights; "
                    "use torch.nn.LayerNorm or track_running_stats=False"
                )
        X = np.zeros((2, n_features))
        weights = {name: p.to(torch.float64) for name, p in built.module.named_parameters()}
        try:
            with torch.no_grad():
                z = self._called(built, weights, self._inputs(X))
        except RuntimeError as error:
            shape = tuple(self._inputs(X).shape[1:])
            raise ValueError(f"{_name(self)}: module fails on input of shape (n_samples, *{shape}): {error}") from error
        if not isinstance(z, Tensor) or z.ndim != 2 or len(z) != 2:
            found = tuple(z.shape) if isinstance(z, Tensor) else type(z).__name__
            raise ValueError(
                f"{_name(self)}: module must return a tensor (n_samples, n_components), got {found} for 2 rows"
            )


@dataclass(frozen=True)
class _Built:
    """A module and what is known about it; looking this up takes as long as a call.

    Attributes
    ----------
    shapes, buffers : dict
        Shapes of the parameters, and the buffers, by name.
    has_ties : bool
        Whether a parameter or buffer has several names.
    """

    module: nn.Module
    shapes: dict[str, torch.Size]
    buffers: dict[str, Tensor]
    has_ties: bool

    @classmethod
    def of(cls, module: nn.Module) -> _Built:
        module.eval()
        shapes = {name: p.shape for name, p in module.named_parameters()}
        buffers = dict(module.named_buffers())
        named = (module.named_parameters, module.named_buffers)
        has_ties = sum(len(list(names(remove_duplicate=False))) for names in named) > len(shapes) + len(buffers)
        return cls(module, shapes, buffers, has_ties)


def _plain(value: Any) -> Any:
    """Convert to the numbers, strings and lists of JSON."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(f"a transform with the parameter {value!r} cannot be saved; use numbers, strings or lists")


class _Training(Transform):
    """A TorchTransform during the steps of a round, with dropout; ``pullback`` uses the graph of ``apply``.

    A copy of the module whose parameters are views of one vector takes the steps: to write theta is one assignment.
    """

    def __init__(self, of: TorchTransform, rng: np.random.Generator) -> None:
        super().__init__(of.learning_rate, of.step_limit())
        self.of = of
        self.seed = int(rng.integers(2**31))
        self.module: nn.Module | None = None
        self.flat, self.tensors = torch.zeros(0), list[Tensor]()
        self.last: Tensor | None = None

    @_one_thread()
    def apply(self, theta: Array, X: Array) -> Array:
        self.seed += 1
        # held rows judge the steps in double precision
        inputs = X.astype(np.float32) if self.of.rest == "keep" else np.asarray(X)
        if self.module is None:
            self._prepare(X.shape[1], len(theta), torch.from_numpy(inputs).dtype)
        assert self.module is not None
        with torch.no_grad():
            self.flat.copy_(torch.from_numpy(np.asarray(theta)))
        with _ONE_CALL, _seeded(self.seed) if self.of._is_random else nullcontext():
            z = self.module(self.of._inputs(inputs))
        self.last = z if self.head is None else z @ self.head.T
        return self.of._with_rest(self.last.detach().numpy(), X)

    def _prepare(self, n_features: int, n_weights: int, dtype: torch.dtype) -> None:
        """Copy the module and make its parameters views of ``flat``."""
        self.module = copy.deepcopy(self.of._built(n_features).module).to(dtype)
        self.module.train()
        self.flat = torch.zeros(n_weights, dtype=dtype)
        at = self.of._head_size(n_features)
        width = math.isqrt(at)
        self.head = self.flat[:at].view(width, width).requires_grad_() if at else None
        self.tensors = [] if self.head is None else [self.head]
        for p in self.module.parameters():
            p.data = self.flat[at : at + p.numel()].view(p.shape)
            self.tensors.append(p.requires_grad_())
            at += p.numel()

    @_one_thread()
    def pullback(self, theta: Array, X: Array, grad_z: Array) -> Array:
        assert self.last is not None
        return _gradient(self.last, self.tensors, self.of._of_output(grad_z, self.last, X.shape[1]))

    def project(self, theta: Array, step: float) -> Array:
        return self.of.project(theta, step)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed PyTorch's generator and restore its state afterwards."""
    generator = torch.default_generator  # torch.manual_seed would also initialise accelerators
    before = generator.get_state()
    generator.manual_seed(seed)
    try:
        yield
    finally:
        generator.set_state(before)


def _gradient(z: Tensor, tensors: Sequence[Tensor], grad_z: Array) -> Array:
    grad = torch.from_numpy(np.ascontiguousarray(grad_z, dtype=z.detach().numpy().dtype))
    grads = torch.autograd.grad(z, tensors, grad, allow_unused=True)
    parts = [(torch.zeros_like(t) if g is None else g).numpy().ravel() for g, t in zip(grads, tensors, strict=True)]
    return np.concatenate(parts)


def mlp(
    n_components: int = 4,
    hidden: Sequence[int] = (16,),
    activation: str = "tanh",
    dropout: float = 0.0,
    **params: Any,
) -> TorchTransform:
    """A transform by a multi-layer perceptron.

    Parameters
    ----------
    n_components : int, default=4
        Number of learned components of z.
    hidden : sequence of int, default=(16,)
        Number of units of each hidden layer. More units represent more shapes and need more rows.
    activation : {"tanh", "relu", "gelu"}, default="tanh"
        Activation function; "tanh" is smooth and bounded, "relu" and "gelu" are unbounded.
    dropout : float, default=0.0
        Share of hidden units dropped in every training step.
    **params
        ``windows`` (flattened), ``rest``, ``weight_decay``, ``learning_rate``, ``n_steps`` and ``batch_size`` of
        :class:`TorchTransform`.

    Examples
    --------
    >>> import numpy as np
    >>> transform = mlp(n_components=2, hidden=(8,), dropout=0.1)
    >>> theta = transform.start(np.eye(5), np.zeros((5, 1)), np.random.default_rng(0))
    >>> transform.apply(theta, np.eye(5)).shape
    (5, 7)
    """
    return TorchTransform(Mlp(n_components, hidden, activation, dropout), **params)


def rnn(
    n_components: int = 4, n_hidden: int = 8, n_layers: int = 1, dropout: float = 0.0, **params: Any
) -> TorchTransform:
    """A transform by a recurrent network on a window of lags; its output uses its mean and last state.

    Parameters
    ----------
    n_components : int, default=4
        Number of learned components of z.
    n_hidden, n_layers : int, default=8 and 1
        Size of the state and number of layers.
    dropout : float, default=0.0
        Share of the state dropped in every training step.
    **params
        ``windows``, ``rest``, ``weight_decay``, ``learning_rate``, ``n_steps`` and ``batch_size`` of
        :class:`TorchTransform`. Without ``windows``, all columns are taken as the lags of one variable, oldest first.
        By default ``learning_rate=0.05`` and ``batch_size=256``: the network learns slowly, but its steps are fast.

    Examples
    --------
    >>> import numpy as np
    >>> transform = rnn(n_components=2, windows={"y": [2, 1, 0], "load": [5, 4, 3]})
    >>> theta = transform.start(np.eye(6), np.zeros((6, 1)), np.random.default_rng(0))
    >>> transform.apply(theta, np.eye(6)).shape
    (6, 8)
    """
    params = {"learning_rate": 0.05, "batch_size": 256, **params}
    return TorchTransform(Recurrent("rnn", n_components, n_hidden, n_layers, dropout), **params)


def lstm(
    n_components: int = 4, n_hidden: int = 8, n_layers: int = 1, dropout: float = 0.0, **params: Any
) -> TorchTransform:
    """A transform by a long short-term memory network on a window of lags; its output uses its mean and last state.

    Parameters
    ----------
    n_components : int, default=4
        Number of learned components of z.
    n_hidden, n_layers : int, default=8 and 1
        Size of the state and number of layers.
    dropout : float, default=0.0
        Share of the state dropped in every training step.
    **params
        ``windows``, ``rest``, ``weight_decay``, ``learning_rate``, ``n_steps`` and ``batch_size`` of
        :class:`TorchTransform`. Without ``windows``, all columns are taken as the lags of one variable, oldest first.

    Examples
    --------
    >>> lstm(n_hidden=4).module
    Recurrent(n_hidden=4)
    """
    return TorchTransform(Recurrent("lstm", n_components, n_hidden, n_layers, dropout), **params)


def cnn(
    n_components: int = 4,
    n_channels: int = 8,
    kernel_size: int = 3,
    n_layers: int = 1,
    activation: str = "tanh",
    dropout: float = 0.0,
    **params: Any,
) -> TorchTransform:
    """A transform by causal convolutions on a window of lags; its output uses their mean, last step and maximum.

    Parameters
    ----------
    n_components : int, default=4
        Number of learned components of z.
    n_channels, kernel_size, n_layers : int, default=8, 3 and 1
        Number of filters, length of each filter, and number of layers; the dilation doubles with each layer.
    activation : {"tanh", "relu", "gelu"}, default="tanh"
        Activation function; "tanh" is smooth and bounded, "relu" and "gelu" are unbounded.
    dropout : float, default=0.0
        Share of channels dropped in every training step.
    **params
        ``windows``, ``rest``, ``weight_decay``, ``learning_rate``, ``n_steps`` and ``batch_size`` of
        :class:`TorchTransform`. Without ``windows``, all columns are taken as the lags of one variable, oldest first.

    Examples
    --------
    >>> import numpy as np
    >>> transform = cnn(n_components=2, windows=[[3, 2, 1, 0]])
    >>> theta = transform.start(np.eye(4), np.zeros((4, 1)), np.random.default_rng(0))
    >>> transform.apply(theta, np.eye(4)).shape
    (4, 6)
    """
    return TorchTransform(Cnn(n_components, n_channels, kernel_size, n_layers, activation, dropout), **params)
