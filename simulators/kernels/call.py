"""One verification call, compiled: the drafted block in, accepted count and last law out.

Formulas and citations stand with the readable rules in ``simverify.verifiers``.
"""

from typing import Any

from numba import njit

from simverify.simulators.kernels.debt import LARGEST
from simverify.simulators.kernels.pick import pick
from simverify.simulators.kernels.tables.access import correct, mass, most_likely, ratio

TOKEN, BLOCK, GREEDY, MATCH, ARGMAX = range(5)
"""The rules of this loop, by their numbers; ``Verifier.kernel`` names them."""


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def weigh(
    tables: Any,
    rule: Any,
    states: Any,
    tokens: Any,
    accept: Any,
    t: Any,
    alpha: Any,
    beta: Any,
    weight: Any,
) -> Any:
    """Write the weights of BLOCK or GREEDY along the drafted block in column ``t``.

    Arguments as in :func:`verify`. Returns the last position l whose uniform lies below its
    weight, 0 if none does: no later one can be accepted, as h <= weight always.
    """
    gamma = tokens.shape[0]
    w = 1.0
    weight[0, t] = w
    passed = 0
    for i in range(gamma):
        here = ratio(tables, states[i, t], tokens[i, t])
        if rule == BLOCK:
            w = min(w * here, 1.0)
        else:
            w = min(w * max(alpha[i] * here - beta[i], 0.0), LARGEST)
        weight[i + 1, t] = w
        passed = pick(accept[i, t] < w, i + 1, passed)
    return passed


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def verify(
    tables: Any,
    rule: Any,
    states: Any,
    tokens: Any,
    accept: Any,
    t: Any,
    alpha: Any,
    beta: Any,
    weight: Any,
    passed: Any,
) -> Any:
    """Verify the drafted block in column ``t``.

    ``states`` int64 (gamma+1, trials), ``tokens`` int64 (gamma, trials), ``accept`` float64
    (gamma or more, trials) uniforms; ``alpha``, ``beta`` float64 (gamma+1,) give the
    verifier's target at each position as alpha p - beta q where positive (plain target: 1
    and 0; read by GREEDY alone). BLOCK and GREEDY need :func:`weigh` first: ``weight``
    float64 (gamma+1, trials) are the weights it wrote, ``passed`` is what it returned.

    Returns (tau, last token or -1, a, b): where the last token is -1 it is still to be
    drawn, from max(a p - b q, 0) on row tau.
    """
    gamma = tokens.shape[0]
    if rule == TOKEN:
        tau = 0
        while tau < gamma:
            if not accept[tau, t] < ratio(tables, states[tau, t], tokens[tau, t]):
                return tau, -1, 1.0, 1.0
            tau += 1
        return tau, -1, 1.0, 0.0
    if rule == MATCH or rule == ARGMAX:
        for i in range(gamma):
            if rule == MATCH:
                own = correct(tables, states[i, t], 1.0, 0.0, accept[i, t])
            else:
                own = most_likely(tables, states[i, t])
            if own != tokens[i, t]:
                return i, own, 1.0, 0.0
        if rule == ARGMAX:
            return gamma, most_likely(tables, states[gamma, t]), 1.0, 0.0
        return gamma, -1, 1.0, 0.0

    if passed == gamma:
        return gamma, -1, 1.0, 0.0
    tau = passed
    while tau > 0:
        w = weight[tau, t]
        if w == 1.0:  # then h = 1
            break
        u = accept[tau - 1, t]
        if u < w:  # h <= w always, so most positions need no residual mass
            residual = mass(tables, states[tau, t], w * alpha[tau], w * beta[tau] + 1.0)
            room = residual + 1.0 - w
            if room <= 0.0 or u * room < residual:
                break
        tau -= 1
    w = weight[tau, t]
    return tau, -1, w * alpha[tau], w * beta[tau] + 1.0
