"""One level of the bounds on block's and greedy block's trees: shift and add.

A node of the tree is an atom (m, f): draft mass and joint mass. Only the ray f/m matters for
what follows, and a token multiplies it by p/q. On a grid of rays that is uniform in log f/m a
token is a shift by the same number of bins from every bin, so a level is one vector addition
per tap; a tap is all tokens with the same two states and the same shift. The mass that leaves
the grid at an end needs only prefix sums. ``simulators.exact.bounds`` says why one program
bounds from below and the other from above.
"""

from typing import Any

from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def lower_level(
    mass: Any,
    above: Any,
    below: Any,
    first: Any,
    to: Any,
    shift: Any,
    weight: Any,
    low: Any,
    out: Any,
) -> None:
    """Children of all atoms, each split onto two neighbouring rays (one tap each).

    ``mass`` float64 (S, N): draft mass on ray b, f = m e^(h (b + const)). ``above`` (S, N+1):
    its suffix sums; ``below`` (S, N+1): prefix sums of f in units of the lowest ray. Taps of
    state s are ``first[s]:first[s+1]``: next state, shift, weight, and the weight ``low`` =
    weight e^(h shift) for f. ``out`` float64 (S, N), zeros on entry.
    """
    states, size = mass.shape
    for s in range(states):
        source = mass[s]
        for tap in range(first[s], first[s + 1]):
            k = shift[tap]
            w = weight[tap]
            dest = out[to[tap]]
            begin = min(max(0, -k), size)
            end = max(min(size, size - k), 0)
            count = end - begin
            if count > 0:
                here = source[begin:end]
                there = dest[begin + k : end + k]
                for b in range(count):
                    there[b] += w * here[b]
            dest[0] += low[tap] * below[s, begin]
            dest[size - 1] += w * above[s, end]


@njit(cache=True, nogil=True, error_model="numpy")
def lower_value(
    above: Any, below: Any, one: Any, first: Any, shift: Any, weight: Any, low: Any
) -> Any:
    """Sum of min(m, f) over all children; ``one`` is the index of the ray f = m."""
    states = first.shape[0] - 1
    size = above.shape[1] - 1
    unit = 0.0
    total = 0.0
    for s in range(states):
        for tap in range(first[s], first[s + 1]):
            cut = min(max(one - shift[tap], 0), size)
            unit += low[tap] * below[s, cut]
            total += weight[tap] * above[s, cut]
    return total, unit


@njit(cache=True, nogil=True, error_model="numpy")
def upper_level(
    capped: Any, mass: Any, mass_above: Any, mass_below: Any,
    joint: Any, joint_above: Any, joint_below: Any, cap: Any,
    first: Any, to: Any, shift: Any, from_cap: Any, q: Any, p: Any,
    out_mass: Any, out_joint: Any, out_cap: Any,
) -> None:  # fmt: skip
    """Children of all atoms, those of a bin added to one atom.

    ``mass``, ``joint`` float64 (S, N): the atom of each bin; ``*_above``, ``*_below``
    (S, N+1): their suffix and prefix sums. ``cap`` (S,): mass on the ray f = m exactly, where
    the grid ends if ``capped``. Taps as in :func:`lower_level`, with the masses ``q`` and
    ``p`` and the bin ``from_cap`` of the cap's child (N or more: the cap again). Outputs are
    zero on entry.
    """
    states, size = mass.shape
    for s in range(states):
        for tap in range(first[s], first[s + 1]):
            k = shift[tap]
            t = to[tap]
            q_tap = q[tap]
            p_tap = p[tap]
            dest_mass = out_mass[t]
            dest_joint = out_joint[t]
            begin = min(max(0, -k), size)
            # Children near the cap are looked at one by one, so its ray stays exact.
            end = max(min(size, size - k - (1 if capped else 0)), begin)
            count = end - begin
            if count > 0:
                here_mass = mass[s, begin:end]
                here_joint = joint[s, begin:end]
                there_mass = dest_mass[begin + k : end + k]
                there_joint = dest_joint[begin + k : end + k]
                for b in range(count):
                    there_mass[b] += q_tap * here_mass[b]
                for b in range(count):
                    there_joint[b] += p_tap * here_joint[b]
            dest_mass[0] += q_tap * mass_below[s, begin]
            dest_joint[0] += p_tap * joint_below[s, begin]
            if not capped:
                dest_mass[size - 1] += q_tap * mass_above[s, end]
                dest_joint[size - 1] += p_tap * joint_above[s, end]
                continue
            last = min(end + 2, size)
            for b in range(end, last):
                child_mass = q_tap * mass[s, b]
                child_joint = p_tap * joint[s, b]
                if child_joint >= child_mass:
                    out_cap[t] += child_mass
                else:
                    dest_mass[size - 1] += child_mass
                    dest_joint[size - 1] += child_joint
            out_cap[t] += q_tap * mass_above[s, last]
            if from_cap[tap] >= size:
                out_cap[t] += q_tap * cap[s]
            else:
                dest_mass[from_cap[tap]] += q_tap * cap[s]
                dest_joint[from_cap[tap]] += p_tap * cap[s]


@njit(cache=True, nogil=True, error_model="numpy")
def upper_value(
    one: Any, mass: Any, mass_above: Any, joint: Any, joint_below: Any, cap: Any,
    first: Any, shift: Any, q: Any, p: Any,
) -> Any:  # fmt: skip
    """Sum of min(m, f) over all children; the ray f = m lies below bin ``one``."""
    states, size = mass.shape
    total = 0.0
    for s in range(states):
        for tap in range(first[s], first[s + 1]):
            # Exact for the two bins that may hold the ray f = m, above m or f elsewhere.
            begin = min(max(one - 1 - shift[tap], 0), size)
            end = min(max(one + 1 - shift[tap], 0), size)
            total += p[tap] * joint_below[s, begin] + q[tap] * mass_above[s, end]
            for b in range(begin, end):
                total += min(q[tap] * mass[s, b], p[tap] * joint[s, b])
            total += min(q[tap], p[tap]) * cap[s]
    return total
