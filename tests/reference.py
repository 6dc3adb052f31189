"""Reference implementations of the compiled kernels, one sample and one node at a time, in double precision.

They are the oracle of the kernel tests, so they share no code with the package and prefer clarity to speed. Arrays are
feature-major, as in the kernels: z (n_components, n_samples), target (n_outputs, n_samples).
"""

from __future__ import annotations

import itertools
import math

import numpy as np

CLOSED_GATE = -64.0


def sigmoid(t):
    """Logistic function without overflow and with full relative precision."""
    return 1.0 / (1.0 + math.exp(-t)) if t >= 0 else math.exp(t) / (1.0 + math.exp(t))


def _path(leaf, depth):
    """Nodes on the path to a leaf, and whether the path turns right; the children of node k are 2k + 1 and 2k + 2."""
    node = 0
    for level in range(depth):
        goes_right = bool(leaf >> (depth - 1 - level) & 1)
        yield node, goes_right
        node = 2 * node + (2 if goes_right else 1)


def leaf_probabilities(z, gate_weights, gate_bias, depth):
    z, gate_weights, gate_bias = (np.asarray(a, dtype=np.float64) for a in (z, gate_weights, gate_bias))
    out = np.ones((2**depth, z.shape[1]))
    for leaf in range(2**depth):
        for node, goes_right in _path(leaf, depth):
            for i in range(z.shape[1]):
                logit = float(gate_weights[node] @ z[:, i] + gate_bias[node])
                out[leaf, i] *= sigmoid(logit if goes_right else -logit)
    return out


def leaf_outputs(z, leaf_values, leaf_weights):
    """Value of each leaf at each sample, shape (n_leaves, n_outputs, n_samples)."""
    values = np.repeat(np.asarray(leaf_values, dtype=np.float64)[..., None], z.shape[1], axis=2)
    return values if leaf_weights is None else values + np.asarray(leaf_weights, dtype=np.float64) @ z


def tree_output(z, depth, gate_weights, gate_bias, leaf_values, leaf_weights=None):
    reach = leaf_probabilities(z, gate_weights, gate_bias, depth)
    return np.einsum("li,loi->oi", reach, leaf_outputs(np.asarray(z, dtype=np.float64), leaf_values, leaf_weights))


def tree_gradients(z, depth, gate_weights, gate_bias, leaf_values, leaf_weights, grad_output):
    """The paper's double sum over leaves and the nodes on their paths."""
    z, grad_output = np.asarray(z, dtype=np.float64), np.asarray(grad_output, dtype=np.float64)
    gate_weights = np.asarray(gate_weights, dtype=np.float64)
    reach = leaf_probabilities(z, gate_weights, gate_bias, depth)
    outputs = leaf_outputs(z, leaf_values, leaf_weights)
    grad_logit = np.zeros((2**depth - 1, z.shape[1]))
    for leaf in range(2**depth):
        upstream = (grad_output * outputs[leaf]).sum(axis=0)
        for node, goes_right in _path(leaf, depth):
            right = np.array([sigmoid(float(gate_weights[node] @ x + gate_bias[node])) for x in z.T])
            left = np.array([sigmoid(-float(gate_weights[node] @ x + gate_bias[node])) for x in z.T])
            grad_logit[node] += upstream * reach[leaf] * (left if goes_right else -right)
    grad_z = gate_weights.T @ grad_logit
    slopes = None
    if leaf_weights is not None:
        slopes = np.einsum("li,oi,ai->loa", reach, grad_output, z)
        grad_z = grad_z + np.einsum("li,oi,loa->ai", reach, grad_output, np.asarray(leaf_weights, dtype=np.float64))
    return grad_logit @ z.T, grad_logit.sum(axis=1), reach @ grad_output.T, slopes, grad_z


def bin_column(values, max_bins=256, weight=None):
    """Thresholds between neighbouring distinct values or, if there are too many, between quantiles; and bins.

    Integer weights repeat the values.
    """
    values = np.asarray(values)
    repeated = values if weight is None else np.repeat(values, weight)
    ordered, distinct = np.sort(repeated), np.unique(values)

    def midpoint(a, b):
        middle = a / 2 + b / 2
        return middle if a < middle < b else a

    thresholds = []
    if len(distinct) <= max_bins:
        thresholds = [midpoint(a, b) for a, b in itertools.pairwise(distinct)]
    else:
        for b in range(1, max_bins):
            rank = b * len(ordered) // max_bins
            cut = midpoint(ordered[rank - 1], ordered[rank])
            if cut < ordered[-1] and (not thresholds or cut > thresholds[-1]):
                thresholds.append(cut)
    return thresholds, np.array([sum(t < v for t in thresholds) for v in values])


def grow(columns, target, weight, depth, min_leaf_weight):
    """A hard tree: (column, threshold, gain) of each node in heap order; column -1 for a node without a split."""
    n_samples = columns.shape[1]
    target = np.asarray(target, dtype=np.float64)
    weight = np.ones(n_samples) if weight is None else np.asarray(weight, dtype=np.float64)
    smallest = 1e-10 * float((weight * target**2).sum())
    rows_of = {0: np.arange(n_samples)}
    nodes = []
    for node in range(2**depth - 1):
        rows = rows_of[node]
        column, threshold, gain = _best_split(
            columns[:, rows], target[:, rows], weight[rows], min_leaf_weight, smallest, columns
        )
        nodes.append((column, threshold, gain))
        right = columns[column, rows] > threshold if column >= 0 else np.zeros(len(rows), dtype=bool)
        rows_of[2 * node + 1], rows_of[2 * node + 2] = rows[~right], rows[right]
    return nodes


def _best_split(here, target, weight, min_leaf_weight, smallest, everywhere):
    def score(rows):
        total = weight[rows].sum()
        return float(((weight[rows] * target[:, rows]).sum(axis=1) ** 2).sum() / total) if total > 0 else 0.0

    best = (-1, 0.0, 0.0)
    for j in range(len(here)):
        best_here = (-1, 0.0, 0.0)
        for threshold in bin_column(everywhere[j])[0]:
            left = here[j] <= threshold
            if weight[left].sum() < min_leaf_weight - 1e-9 or weight[~left].sum() < min_leaf_weight - 1e-9:
                continue
            gain = score(left) + score(~left) - score(np.ones(len(left), dtype=bool))
            if gain > smallest and gain > best_here[2] * (1 + 1e-9):
                best_here = (j, threshold, gain)
        if best_here[0] >= 0 and best_here[2] > best[2] * (1 + 1e-9):
            best = best_here
    return best


def softened_basis(columns, nodes, depth, sharpness, basis_columns):
    """Leaf memberships of a hard tree with soft gates, times one and times each basis column: (n_basis, n_samples)."""
    columns = np.asarray(columns, dtype=np.float64)
    reach = np.ones((2**depth, columns.shape[1]))
    for leaf in range(2**depth):
        for node, goes_right in _path(leaf, depth):
            column, threshold, _ = nodes[node]
            for i in range(columns.shape[1]):
                logit = CLOSED_GATE if column < 0 else sharpness * (columns[column, i] - threshold)
                reach[leaf, i] *= sigmoid(logit if goes_right else -logit)
    ones = np.vstack([np.ones((1, columns.shape[1])), columns[basis_columns]])
    return (reach[:, None] * ones[None]).reshape(-1, columns.shape[1])


def ridge_solution(basis, target, weight, ridge):
    """Coefficients of the weighted ridge regression, shape (n_basis, n_outputs)."""
    weight = np.ones(basis.shape[1]) if weight is None else np.asarray(weight, dtype=np.float64)
    gram = (basis * weight) @ basis.T + ridge * np.eye(len(basis))
    return np.linalg.solve(gram, (basis * weight) @ np.asarray(target, dtype=np.float64).T)


def leave_one_out_error(basis, target, weight, ridge):
    """Sum of squared errors at each row, each from a fit in which one copy of that row is missing."""
    n = basis.shape[1]
    target = np.asarray(target, dtype=np.float64)
    weight = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    total = 0.0
    for i in range(n):
        without = weight.copy()
        without[i] -= 1.0
        error = target[:, i] - basis[:, i] @ ridge_solution(basis, target, without, ridge)
        total += weight[i] * float(error @ error)
    return total


def fit_greedy(columns, target, weight, *, depths, sharpness, ridge, linear_leaves, min_leaf_weight):
    """The soft tree with the lowest leave-one-out error: (depth, sharpness, ridge, output, error).

    One after the other: the depth at the middle sharpness, the sharpness, the depth at that one, the penalty.
    """
    nodes = grow(columns, target, weight, max(depths), min_leaf_weight)
    best = None
    middle = sharpness[(len(sharpness) - 1) // 2]

    def attempt(depth, slope):
        nonlocal best
        used = list(dict.fromkeys(c for c, _, _ in nodes[: 2**depth - 1] if c >= 0)) if linear_leaves else []
        basis = softened_basis(columns, nodes, depth, slope, used)
        error = leave_one_out_error(basis, target, weight, ridge[0])
        if best is None or error < best[0] * (1 - 1e-9):
            best = error, depth, slope, ridge[0], basis

    for depth in depths:
        attempt(depth, middle)
    first = best[1]
    for slope in sharpness:
        if slope != middle:
            attempt(first, slope)
    slope = best[2]
    for depth in depths:
        if slope != middle and depth != first:
            attempt(depth, slope)
    for penalty in ridge[1:]:
        error = leave_one_out_error(best[4], target, weight, penalty)
        if error < best[0] * (1 - 1e-9):
            best = error, best[1], best[2], penalty, best[4]
    error, depth, slope, penalty, basis = best
    return depth, slope, penalty, ridge_solution(basis, target, weight, penalty).T @ basis, error


def fit_joint(
    x, target, weight, *, kind, n_steps, depth, q, gate_weights, gate_bias, leaf_values, leaf_weights=None,
    solve_leaves=False, gate_learning_rate=0.05, leaf_learning_rate=0.05, transform_learning_rate=0.02, ridge=1.0,
    weight_decay=0.0, group_lasso=0.0, cosine_decay=True,
):  # fmt: skip
    """Joint Adam steps on gates, leaves and Q; returns all of them, the output and the loss before each step."""
    x, target = np.asarray(x, dtype=np.float64), np.asarray(target, dtype=np.float64)
    weight = np.ones(x.shape[1]) if weight is None else np.asarray(weight, dtype=np.float64)
    p = {"w": gate_weights, "b": gate_bias, "v": leaf_values, "s": leaf_weights, "q": q}
    p = {name: None if a is None else np.array(a, dtype=np.float64) for name, a in p.items()}
    moments = {name: [0.0, 0.0] for name in p}

    def z_of():
        return {"identity": lambda: x, "diagonal": lambda: p["q"][:, None] * x, "linear": lambda: p["q"] @ x}[kind]()

    def solve(z):
        reach = leaf_probabilities(z, p["w"], p["b"], depth)
        ones = np.ones((1, x.shape[1])) if p["s"] is None else np.vstack([np.ones((1, x.shape[1])), z])
        basis = (reach[:, None] * ones[None]).reshape(-1, x.shape[1])
        parts = ridge_solution(basis, target, weight, ridge).reshape(2**depth, -1, target.shape[0])
        p["v"] = parts[:, 0]
        p["s"] = None if p["s"] is None else parts[:, 1:].transpose(0, 2, 1)

    def step(name, gradient, rate, t):
        m = moments[name]
        m[0], m[1] = 0.9 * m[0] + 0.1 * gradient, 0.99 * m[1] + 0.01 * gradient**2
        p[name] = p[name] - rate * (m[0] / (1 - 0.9**t)) / (np.sqrt(m[1] / (1 - 0.99**t)) + 1e-8)

    def output_and_loss():
        z = z_of()
        if solve_leaves:
            solve(z)
        output = tree_output(z, depth, p["w"], p["b"], p["v"], p["s"])
        return z, output, 0.5 * float((weight * (output - target) ** 2).sum() / weight.sum())

    trace = []
    for t in range(1, n_steps + 1):
        decay = 0.5 * (1 + math.cos(math.pi * (t - 1) / n_steps)) if cosine_decay else 1.0
        z, output, loss = output_and_loss()
        trace.append(loss)
        upstream = (output - target) * weight / weight.sum()
        grads = tree_gradients(z, depth, p["w"], p["b"], p["v"], p["s"], upstream)
        p["w"] = p["w"] * (1 - gate_learning_rate * decay * weight_decay)
        step("w", grads[0], gate_learning_rate * decay, t)
        step("b", grads[1], gate_learning_rate * decay, t)
        if not solve_leaves:
            step("v", grads[2], leaf_learning_rate * decay, t)
            if p["s"] is not None:
                step("s", grads[3], leaf_learning_rate * decay, t)
        if kind != "identity":
            rate = transform_learning_rate * decay
            step("q", grads[4] @ x.T if kind == "linear" else (grads[4] * x).sum(axis=1), rate, t)
            if group_lasso > 0:
                length = np.abs(p["q"]) if kind == "diagonal" else np.sqrt((p["q"] ** 2).sum(axis=0))
                p["q"] = p["q"] * np.maximum(1 - group_lasso * rate / np.maximum(length, 1e-300), 0.0)
    _, output, loss = output_and_loss()
    return p, output, [*trace, loss]


def recurrent_states(x, input_weights, state_weights, bias, is_lstm):
    """States of a recurrent layer on x (n_steps, n_inputs, n_samples); complex numbers give derivatives."""
    n_hidden = state_weights.shape[1]
    state = cell = np.zeros((n_hidden, x.shape[2]))
    states = []
    for now in x:
        logits = input_weights @ now + state_weights @ state + bias[:, None]
        if is_lstm:
            write, keep, candidate, show = logits.reshape(4, n_hidden, -1)
            write, keep, show = (1 / (1 + np.exp(-t)) for t in (write, keep, show))
            cell = keep * cell + write * np.tanh(candidate)
            state = show * np.tanh(cell)
        else:
            state = np.tanh(logits)
        states.append(state)
    return np.array(states)


def recurrent_gradient(arrays, which, is_lstm, grad_states):
    """Gradient of sum(grad_states * states) with respect to one of x, both weights and the bias, by complex steps."""
    arrays = [np.array(a, dtype=np.complex128) for a in arrays]
    gradient = np.zeros(arrays[which].shape)
    for place in np.ndindex(gradient.shape):
        arrays[which][place] += 1e-20j
        gradient[place] = (grad_states * recurrent_states(*arrays, is_lstm)).sum().imag / 1e-20
        arrays[which][place] -= 1e-20j
    return gradient


def predict(rows, arrays):
    """Raw predictions of a packed ensemble at raw rows (n_samples, n_inputs), from its flat arrays."""
    x = (np.asarray(rows, dtype=np.float64) - arrays["offset"]) * arrays["scale"]
    x = np.where(np.isnan(x), 0.0, x).T
    out = arrays["intercept"][:, None] + arrays["coefficients"] @ x
    place = dict.fromkeys(("columns", "gate_weights", "gate_bias", "leaf"), 0)

    def take(name, *shape):
        size = math.prod(shape)
        part = arrays[name][place[name] : place[name] + size]
        place[name] += size
        return part.reshape(shape)

    for depth, linear, width in zip(arrays["depth"], arrays["linear"], arrays["n_columns"], strict=True):
        n_leaves, n_outputs = 2 ** int(depth), len(out)
        columns = take("columns", int(width))
        weights, bias = take("gate_weights", n_leaves - 1, int(width)), take("gate_bias", n_leaves - 1)
        values = take("leaf", n_leaves, n_outputs)
        slopes = take("leaf", n_leaves, n_outputs, int(width)) if linear else None
        out = out + tree_output(x[columns], int(depth), weights, bias, values, slopes)
    return out.T


# -- smoothing bank ----------------------------------------------------------------------------------------------------

SMOOTHING_ALPHAS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0)
SMOOTHING_TRENDS = ((0, 1), (0.05, 0.9), (0.1, 0.8), (0.3, 0.8), (0.1, 0.95), (0.3, 0.92), (0.1, 1))
SMOOTHING_STEPS = (1, 2, 3, 4, 6, 8, 12, 18, 24, 36, 48)


def smoothing_filters(z, h):
    """Forecasts (h,) of the grid of filters on the last 60 values, one filter, one origin and one step at a time."""
    z = np.asarray(z, dtype=float)[-60:]
    n = len(z)
    settings = [(a, b, p, 0.0) for b, p in SMOOTHING_TRENDS for a in SMOOTHING_ALPHAS]
    settings += [(a, 0.0, 1.0, 0.5) for a in SMOOTHING_ALPHAS]
    slopes = [np.polyfit(np.arange(i + 1), z[: i + 1], 1)[0] if i >= 2 else 0.0 for i in range(n)]
    paths = []  # forecasts of every filter from every origin (n_filters, n, h)
    for alpha, beta, phi, drift in settings:
        level, trend, path = z[0], 0.0, []
        for i in range(n):
            if i:
                expected = level + phi * trend
                gap = z[i] - expected
                level, trend = expected + alpha * gap, phi * trend + alpha * beta * gap
            reach = np.cumsum(phi ** np.arange(1, h + 1))
            path.append(level + reach * trend + drift * slopes[i] * np.arange(1, h + 1))
        paths.append(path)
    paths = np.array(paths)
    naive = len(SMOOTHING_ALPHAS) - 1
    errors = []
    for step in SMOOTHING_STEPS:
        if step <= h and step < n - 1:
            missed = np.abs(paths[:, : n - step, step - 1] - z[step:]).sum(axis=1)
            if missed[naive] > 1e-12:
                errors.append(missed / missed[naive])
    error = np.mean(errors, axis=0) if errors else np.where(np.arange(len(settings)) == naive, 1.0, 2.0)
    prior = np.ones(len(settings))
    prior[naive] = len(settings) - 1
    weight = prior * ((error.min() + 1e-9) / (error + 1e-9)) ** (0.5 * max(n, 8))
    forecast = weight @ paths[:, -1] / weight.sum()
    farthest = 0.0
    for j in range(1, h + 1):
        farthest = max([farthest, *np.abs(z[j:] - z[:-j])]) if j < n else farthest
        most = 1.5 * farthest * (1.0 if j < n else j / max(n - 1, 1))
        forecast[j - 1] = np.clip(forecast[j - 1], z[-1] - most, z[-1] + most)
    return forecast


def smoothing_season(z, m):
    """Season (m,) by phase: distances to a centred mean over all cycles and the last three, shrunk by 1 - 1 / F."""
    window = np.ones(m) / m if m % 2 else np.array([0.5, *[1] * (m - 1), 0.5]) / m
    half = m // 2
    apart = {i: z[i] - window @ z[i - half : i + half + 1] for i in range(half, len(z) - half)}
    phases = [[apart[i] for i in sorted(apart) if i % m == q] for q in range(m)]
    n = len(apart)
    if n < 2 * m or min(map(len, phases)) == 0:
        return np.zeros(m)
    lasting = np.array([np.mean(values) for values in phases])
    recent = np.array([np.mean(values[-3:]) for values in phases])
    within = sum(((np.array(values) - np.mean(values)) ** 2).sum() for values in phases) / max(n - m, 1)
    lasting, recent = lasting - lasting.mean(), recent - recent.mean()
    between = sum(len(values) * figure**2 for values, figure in zip(phases, lasting, strict=True)) / (m - 1)
    clarity = between / max(within, 1e-10)
    return max(0.0, 1 - 1 / clarity) * 0.5 * (lasting + recent) if clarity > 0 else np.zeros(m)


def autoregression(z, h, step, lags, penalty=3, centre=0.5):
    """Forecasts (h,) by ridge regression of changes over ``step`` values on earlier ones; None for too few of them.

    Series without a season have a penalty of 20, and 0.8 of their mean change is continued.
    """
    z = np.asarray(z, dtype=float)
    changes = z[step:] - z[:-step]
    centres = [centre * changes[: i + 1].sum() / (i + 3) for i in range(len(changes))]
    if len(changes) < 6:
        return None
    x = [change - mean for change, mean in zip(changes, centres, strict=True)]
    rows = np.array([[x[i - lag] if i >= lag else 0.0 for lag in lags] for i in range(len(x))])
    penalties = penalty * np.mean(np.square(x)) * np.arange(1, len(lags) + 1)
    slopes = np.linalg.solve(rows.T @ rows + np.diag(penalties), rows.T @ np.array(x))
    values = list(z)
    for _ in range(h):
        x.append(sum(slope * x[-lag] for slope, lag in zip(slopes, lags, strict=True) if lag <= len(x)))
        values.append(np.clip(values[-step] + centres[-1] + x[-1], z[-1] - np.ptp(z), z[-1] + np.ptp(z)))
    return np.array(values[len(z) :])


def _mixed(state):
    """The random number of splitmix64 for a state."""
    mask = 2**64 - 1
    z = (state + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def grow_forest(columns, target, weight, n_trees):
    """Trees as nested tuples: (column, threshold, left, right), or the mean targets of a leaf divided by n_trees."""

    def grow(rows, state):
        t, w = target[:, rows], weight[rows]
        mean = (t * w).sum(axis=1) / w.sum()
        best, best_gain = None, 0.0
        if np.any(t != t[:, :1]):
            for j, x in enumerate(columns[:, rows]):
                low, high = x.min(), x.max()
                u = (_mixed((state + j) % 2**64) >> 11) / 2.0**53
                threshold = low + u * (high - low)
                left = x <= (threshold if threshold < high else low)
                if left.all():
                    continue
                sums = ((t - mean[:, None]) * w)[:, left].sum(axis=1)
                gain = (sums**2).sum() * (1 / w[left].sum() + 1 / w[~left].sum())
                if gain > best_gain * (1 + 1e-9):
                    best, best_gain = (j, threshold, left), gain
        if best is None:
            return tuple(mean / n_trees)
        j, threshold, left = best
        below, above = (_mixed((2 * state + side) % 2**64) for side in (0, 1))
        return j, threshold, grow(rows[left], below), grow(rows[~left], above)

    return [grow(np.arange(columns.shape[1]), _mixed(k)) for k in range(n_trees)]


def network_layers(parameters, widths):
    """Weights and bias of each layer of a network with these widths, from its vector of parameters."""
    layers, start = [], 0
    for n_in, n_out in itertools.pairwise(widths):
        end = start + n_out * n_in
        layers.append((parameters[start:end].reshape(n_out, n_in), parameters[end : end + n_out]))
        start = end + n_out
    assert start == len(parameters)
    return layers


def network_values(x, layers):
    """Inputs of every layer of rectified units, then the linear output, for rows x."""
    values = [x]
    for k, (weights, bias) in enumerate(layers):
        out = values[-1] @ weights.T + bias
        values.append(out if k + 1 == len(layers) else np.maximum(out, 0))
    return values


def fit_network(z, y, weight, widths, start, order, learning_rate):
    """Parameters after Adam on the weighted absolute error, with a step length that falls along a cosine."""
    parameters = start.copy()
    mean, square = np.zeros_like(start), np.zeros_like(start)
    for step, rows in enumerate(order):
        layers = network_layers(parameters, widths)
        values = network_values(z[rows], layers)
        slope = np.sign(values[-1] - y[rows]) * weight[rows, None] / y[rows].size
        gradient = []
        for (weights, _), value in zip(layers[::-1], values[-2::-1], strict=True):
            gradient = [(slope.T @ value).ravel(), slope.sum(axis=0), *gradient]
            slope = (slope @ weights) * (value > 0)
        gradient = np.concatenate(gradient)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        rate = learning_rate * (1 + np.cos(np.pi * step / len(order))) / 2
        unit = np.sqrt(square / (1 - 0.999 ** (step + 1)))
        parameters -= rate * mean / (1 - 0.9 ** (step + 1)) / (unit + 1e-8)
    return parameters
