"""The closed form that two choices must obey, for a fleet of any size.

`n` single-slot queues, Poisson arrivals of rate `load` per queue, exponential work of mean 1, each
arrival into the shorter of two queues. For n to infinity the share of queues that hold i or more is
load ** (2**i - 1) (Mitzenmacher, IEEE TPDS 12 (2001); Vvedenskaya, Dobrushin, Karpelevich 1996).

A finite fleet differs by V / n + O(1 / n**2) (Gast and Van Houdt, "A refined mean field
approximation", POMACS 1 (2017)). With x the shares, x[0] = 1, the fleet drifts by

    f[i] = load * (x[i-1]**2 - x[i]**2) - (x[i] - x[i+1])

and, if the two queues drawn are never the same one, by c[i] / n more, where

    c[i] = -load * (x[i-1] * (1 - x[i-1]) - x[i] * (1 - x[i])).

With A the Jacobian of f at the fixed point and W, n times the covariance of the shares, from

    A W + W A' + diag(2 (x[i] - x[i+1])) = 0,

V solves A V + c + b = 0 with b[i] = load * (W[i-1,i-1] - W[i,i]), the mean of f's curvature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

_LEVELS = 12
"""Levels in the equations; at 0.95 the share beyond is below 1e-90."""


def tail(load: float, at_least: int) -> float:
    """Share of queues that hold `at_least` or more, in a fleet without end."""
    return float(load ** (2**at_least - 1))


def finite_tails(load: float, queues: int, *, distinct: bool = True) -> tuple[float, ...]:
    """Shares of queues that hold 1 or more, 2 or more, and so on, in a fleet of that size.
    `distinct` says that the two queues of a choice are never the same one.

    Raises ValueError for a load outside 0 to 1 and for fewer than two queues.
    """
    if not 0.0 < load < 1.0 or queues < 2:
        raise ValueError(f"load must be 0 to 1 and queues at least 2, got {load} and {queues}")
    corrections = _corrections(load, distinct)
    return tuple(tail(load, i + 1) + v / queues for i, v in enumerate(corrections))


def relaxation_s(load: float) -> float:
    """Time in which the slowest deviation from the usual queues shrinks by a factor e, in mean
    times of work: what a warm-up is measured by. From the eigenvalues of A."""
    import numpy as np

    return float(-1.0 / np.linalg.eigvals(_jacobian(load)).real.max())


def _jacobian(load: float) -> Matrix:
    """A of the module's docstring."""
    import numpy as np

    here = np.array([tail(load, i) for i in range(1, _LEVELS + 1)])
    jacobian = np.diag(-2 * load * here - 1) + np.diag(np.ones(_LEVELS - 1), 1)
    return jacobian + np.diag(2 * load * here[:-1], -1)


def _corrections(load: float, distinct: bool) -> tuple[float, ...]:
    """V of the module's docstring, from level 1 on."""
    import numpy as np

    x = np.array([tail(load, i) for i in range(_LEVELS + 2)])
    x[-1] = 0.0
    below, here, above = x[:-2], x[1:-1], x[2:]
    jacobian = _jacobian(load)
    one = np.eye(_LEVELS)
    # Lyapunov's equation, written out as a plain linear one.
    system = np.kron(jacobian, one) + np.kron(one, jacobian)
    noise = np.diag(2 * (here - above))
    variance = np.diag(np.linalg.solve(system, -noise.ravel()).reshape(_LEVELS, _LEVELS))
    from_variance = load * (np.concatenate(([0.0], variance[:-1])) - variance)
    from_drawing = -load * (below * (1 - below) - here * (1 - here)) * float(distinct)
    return tuple(float(v) for v in np.linalg.solve(jacobian, -(from_variance + from_drawing)))
