"""The latency model: what acceptance is worth in time."""


def predicted_speedup(expected_accepted: float, gamma: int, cost_ratio: float) -> float:
    """Speed-up of one iteration over plain decoding.

    ``(E[tau] + 1) t_target / (gamma t_draft + t_target)`` with ``cost_ratio`` =
    t_draft / t_target per token; verification itself is free here (Leviathan et al. 2022,
    theorem 3.8).
    """
    return (expected_accepted + 1) / (gamma * cost_ratio + 1)
