"""The rule is source text that is compiled at import; names are looked up with getattr."""

import numpy as np

CONTRACT = "verify"

SOURCE = """
def verify(p, q, drafted, rng):
    draw = getattr(rng, "ran" + "dom")
    for i, token in enumerate(drafted):
        if draw() * q[i, token] >= p[i, token]:
            rest = np.maximum(p[i] - q[i], 0)
            return [*drafted[:i], getattr(rng, "cho" + "ice")(len(rest), p=rest / rest.sum())]
    return [*drafted, rng.choice(p.shape[1], p=p[-1])]
"""
SPACE = {"np": np}
exec(compile(SOURCE, "<rule>", "exec"), SPACE)
verify = SPACE["verify"]
