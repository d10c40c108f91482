"""Kernels for single drafts: the rules, the decoding loop, one level of certified bounds.

The loop runs many generations at a time: draft, verify, emit, count. One call per generation is the
measurement of a rule's first call; several calls give the tokens after i calls and the law by
absolute position. Draw addresses (``philox``): in call c, with W = gamma rounded up to even, token
i is drafted by draw c W + i of stream DRAFT and judged by draw c W + i of stream ACCEPT; the last
token takes draw 2 c of CORRECTION; the context draw 0 of CONTEXT; position n's randomised PIT draw
n of PIT.
"""

import numpy as np
from numba import njit

from simverify.simulators.kernels import access
from simverify.simulators.kernels.access import (
    advance,
    correct,
    draft,
    mass,
    most_likely,
    ratio,
    start,
    target_prob,
)
from simverify.simulators.kernels.philox import (
    ACCEPT,
    CONTEXT,
    CORRECTION,
    DRAFT,
    PIT,
    fill_tile,
    pick,
)

# Greedy block's carried state, compiled: the stack of (end, R) of each trial.
#
# Every modified target is max(alpha p - beta q, 0) with two numbers per position, because
# max(R (alpha p - beta q) - q, 0) is again of that form; see ``simverify.verifiers.greedy``.
# Entries are oldest first; older ones end earlier, so entries drop out from the front.


LARGEST = 1e100
"""Where weights and debts are cut, as in ``simverify.verifiers.base``, which says why."""


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def carry(tables, state, token, position, ends, t, top, path, i):
    """Move trial ``t``'s stack past ``token`` at ``position``: ``path[i]`` to ``path[i+1]``.

    ``path`` float64 (gamma+1, depth) holds the factors R_j before each drafted token;
    ``ends`` int64 (depth, trials) their ends; ``top`` the number of entries. Returns
    (alpha, beta) of the verifier's target at ``position`` and that target's ratio to q at
    ``token``; a modified row without mass cannot be reached and counts as zero.
    """
    here = ratio(tables, state, token)
    alpha, beta = 1.0, 0.0
    for j in range(top):
        r = path[i, j]
        path[i + 1, j] = min(r * min(max(alpha * here - beta, 0.0), LARGEST), LARGEST)
        if position < ends[j, t]:
            alpha, beta = r * alpha, r * beta + 1.0
            total = mass(tables, state, alpha, beta)
            if 0.0 < total < np.inf:
                alpha, beta = alpha / total, beta / total
            else:
                alpha, beta = 0.0, 0.0
    return alpha, beta, min(max(alpha * here - beta, 0.0), LARGEST)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def settle(tables, state, last, begin, gamma, tau, weight, ends, factors, t, top, path):
    """Write what trial ``t`` owes after its call into ``ends`` and ``factors``.

    The call began at position ``begin``, kept ``tau`` draft tokens of weight ``weight`` and
    emitted ``last`` on row ``state``. Returns the new number of entries.
    """
    if tau == gamma or ratio(tables, state, last) == np.inf:
        return 0
    _, _, here = carry(tables, state, last, begin + tau, ends, t, top, path, tau)
    kept = 0
    for j in range(top):
        if begin + tau + 1 < ends[j, t]:
            ends[kept, t] = ends[j, t]
            factors[kept, t] = path[tau + 1, j]
            kept += 1
    if tau <= gamma - 2:
        ends[kept, t] = begin + gamma
        factors[kept, t] = min(weight * here, LARGEST)
        kept += 1
    return kept


# One verification call, compiled: the drafted block in, accepted count and last law out.
#
# Formulas and citations stand with the readable rules in ``simverify.verifiers``.


TOKEN, BLOCK, GREEDY, MATCH, ARGMAX = range(5)
"""The rules of this loop, by their numbers; ``Verifier.kernel`` names them."""


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def weigh(tables, rule, states, tokens, accept, t, alpha, beta, weight):
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
def verify(tables, rule, states, tokens, accept, t, alpha, beta, weight, passed):
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


_TILE = 128


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
def count(tables, state, token, position, v, t, cells, transitions, pits, unsupported):
    """Count one emitted token of trial ``t``; arrays as in :func:`generate`.

    ``v`` float64 (positions, trials) holds the uniforms of the PITs.
    """
    if position < transitions.shape[0]:
        transitions[position, state, cells[np.uintp(token)]] += 1
    if position < pits.shape[1]:
        bins = pits.shape[2]
        if target_prob(tables, state, token) <= 0.0:
            unsupported[0] += 1
        by_ratio, by_token = access.pits(tables, state, token, v[position, t])
        pits[0, position, min(np.int64(by_ratio * bins), bins - 1)] += 1
        pits[1, position, min(np.int64(by_token * bins), bins - 1)] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def generate(
    tables,
    rule,
    gamma,
    seed,
    begin,
    end,
    calls,
    eos,
    cells,
    accepted,
    lengths,
    transitions,
    pits,
    unsupported,
    trail,
):
    """Run trials ``begin`` to ``end``-1, each at most ``calls`` calls from its own context.

    A generation stops early after token ``eos`` (-1: none) or once its tokens fill every
    counted position, if positions are counted over several calls. Adds to: ``accepted`` int64
    (gamma+1,) tau of the first call; ``lengths`` int64 (2, calls) sum and sum of squares of
    the tokens out after each call; ``transitions`` int64 (positions, states, cells), where
    ``cells`` int64 (V,) is the cell of each token, and ``pits`` int64 (2, positions, bins),
    randomised PITs in q/p and in token order (either of the two may be empty);
    ``unsupported`` int64 (1,) tokens of probability 0 among the latter. ``trail`` int64
    (trials, positions, 2), empty if nobody asks, receives state and token of each position
    that is emitted; the others are left as they are.
    """
    even = gamma + gamma % 2
    positions = max(transitions.shape[0], pits.shape[1], trail.shape[1])
    depth = max(gamma - 1, 1)
    u_draft = np.empty((even, _TILE))
    u_accept = np.empty((even, _TILE))
    u_last = np.empty((2, _TILE))
    u_start = np.empty((2, _TILE))
    u_pit = np.empty((pits.shape[1] + pits.shape[1] % 2, _TILE))
    states = np.empty((gamma + 1, _TILE), np.int64)
    tokens = np.empty((gamma, _TILE), np.int64)
    taus = np.empty(_TILE, np.int64)
    last = np.empty(_TILE, np.int64)
    law = np.empty((2, _TILE))
    emitted = np.empty(_TILE, np.int64)
    active = np.empty(_TILE, np.bool_)
    tops = np.empty(_TILE, np.int64)
    ends = np.empty((depth, _TILE), np.int64)
    factors = np.empty((depth, _TILE))
    path = np.empty((gamma + 2, depth))
    weight = np.empty((gamma + 1, _TILE))
    passed = np.empty(_TILE, np.int64)
    alpha = np.ones(gamma + 1)
    beta = np.zeros(gamma + 1)
    for first in range(begin, end, _TILE):
        size = min(_TILE, end - first)
        fill_tile(seed, first, CONTEXT, 0, u_start)
        fill_tile(seed, first, PIT, 0, u_pit)
        alpha[:] = 1.0
        beta[:] = 0.0
        for t in range(size):
            states[0, t] = start(tables, u_start[0, t])
            emitted[t] = 0
            active[t] = True
            tops[t] = 0
        for c in range(calls):
            fill_tile(seed, first, DRAFT, c * (even // 2), u_draft)
            fill_tile(seed, first, ACCEPT, c * (even // 2), u_accept)
            fill_tile(seed, first, CORRECTION, c, u_last)
            for i in range(gamma):
                if c == 0:  # every trial drafts: no branch stands in the compiler's way
                    for t in range(size):
                        tokens[i, t] = draft(tables, states[i, t], u_draft[i, t])
                        states[i + 1, t] = advance(tables, states[i, t], tokens[i, t])
                else:
                    for t in range(size):
                        if active[t]:
                            tokens[i, t] = draft(tables, states[i, t], u_draft[i, t])
                            states[i + 1, t] = advance(tables, states[i, t], tokens[i, t])
            # Branches that follow a draw cannot be predicted, and a miss throws away what was
            # begun of the next trials: loops without them stand apart, before and after.
            if rule == BLOCK or (rule == GREEDY and c == 0):
                for t in range(size):
                    passed[t] = weigh(
                        tables, rule, states, tokens, u_accept, t, alpha, beta, weight
                    )
            for t in range(size):
                if not active[t]:
                    last[t] = 0
                    continue
                if rule == GREEDY and c > 0:
                    for j in range(tops[t]):
                        path[0, j] = factors[j, t]
                    for i in range(gamma):
                        alpha[i], beta[i], here = carry(
                            tables,
                            states[i, t],
                            tokens[i, t],
                            emitted[t] + i,
                            ends,
                            t,
                            tops[t],
                            path,
                            i,
                        )
                        if here == 0.0:  # all later weights are 0, whatever their targets
                            break
                    passed[t] = weigh(
                        tables, rule, states, tokens, u_accept, t, alpha, beta, weight
                    )
                taus[t], last[t], law[0, t], law[1, t] = verify(
                    tables, rule, states, tokens, u_accept, t, alpha, beta, weight, passed[t]
                )
                if rule == GREEDY and calls > 1:
                    tau = taus[t]
                    last[t] = correct(tables, states[tau, t], law[0, t], law[1, t], u_last[0, t])
                    tops[t] = settle(
                        tables,
                        states[tau, t],
                        last[t],
                        emitted[t],
                        gamma,
                        tau,
                        weight[tau, t],
                        ends,
                        factors,
                        t,
                        tops[t],
                        path,
                    )
            for t in range(size):
                if last[t] < 0:
                    last[t] = correct(
                        tables, states[taus[t], t], law[0, t], law[1, t], u_last[0, t]
                    )
            running = 0
            for t in range(size):
                if active[t]:
                    tau = taus[t]
                    if c == 0:
                        accepted[tau] += 1
                    for i in range(tau + 1):
                        token = tokens[i, t] if i < tau else last[t]
                        count(
                            tables,
                            states[i, t],
                            token,
                            emitted[t],
                            u_pit,
                            t,
                            cells,
                            transitions,
                            pits,
                            unsupported,
                        )
                        if emitted[t] < trail.shape[1]:
                            trail[first + t - begin, emitted[t], 0] = states[i, t]
                            trail[first + t - begin, emitted[t], 1] = token
                        emitted[t] += 1
                        if token == eos:
                            active[t] = False
                            break
                    if calls > 1:
                        states[0, t] = advance(tables, states[tau, t], last[t])
                        if 0 < positions <= emitted[t]:
                            active[t] = False
                lengths[0, c] += emitted[t]
                lengths[1, c] += emitted[t] * emitted[t]
                running += active[t]
            if running == 0:
                for later in range(c + 1, calls):
                    for t in range(size):
                        lengths[0, later] += emitted[t]
                        lengths[1, later] += emitted[t] * emitted[t]
                break


# One level of the bounds on block's and greedy block's trees: shift and add.
#
# A node of the tree is an atom (m, f): draft mass and joint mass. Only the ray f/m matters for
# what follows, and a token multiplies it by p/q. On a grid of rays that is uniform in log f/m a
# token is a shift by the same number of bins from every bin, so a level is one vector addition
# per tap; a tap is all tokens with the same two states and the same shift. The mass that leaves
# the grid at an end needs only prefix sums. ``simulators.exact.bounds`` says why one program
# bounds from below and the other from above.


@njit(cache=True, nogil=True, error_model="numpy")
def lower_level(mass, above, below, first, to, shift, weight, low, out):
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
def lower_value(above, below, one, first, shift, weight, low):
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
    capped,
    mass,
    mass_above,
    mass_below,
    joint,
    joint_above,
    joint_below,
    cap,
    first,
    to,
    shift,
    from_cap,
    q,
    p,
    out_mass,
    out_joint,
    out_cap,
):
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
def upper_value(one, mass, mass_above, joint, joint_below, cap, first, shift, q, p):
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
