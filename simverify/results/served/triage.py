"""The document of ``simverify triage``: two logs of greedy answers, and why they differ."""

from typing import Literal

from simverify.results.common import Certificate, Meta, Struct, Verdict
from simverify.results.run import Judged

TriageClass = Literal[
    "same",
    "numerics",
    "precision",
    "text",
    "early stop",
    "template",
    "cache or rows",
    "verifier",
    "unclear",
]
"""What became of a request, from nothing to the gravest.

"same": both logs have the same tokens, and the target's choices. "numerics": they part where
the target's two choices are nearer than rounding moves them. "precision": nearer than bfloat16
would move them, and not the declared precision. "text": off, where the tokens are known by
their text alone. "early stop": one begins the other. "template", "cache or rows", "verifier": a
token that is not the target's choice by more than rounding, by what explains it. "unclear": such
a token, where a cause fits most of them, and would by chance too.
"""

TriageSide = Literal["a", "b", "both"]


class TriageCase(Struct, frozen=True):
    """One request that is not the same.

    ``request``: from 1, in the order of pairs; ``line_a``, ``line_b``: in the logs. ``parted``:
    index of the first token that differs, null where none does. ``at``: index of the token that
    is told, ``side`` whose it is, ``gap`` by how many logits it is behind the target's choice,
    ``rank`` how many tokens are ahead of it; null where no token is off. ``cause``: in words;
    ``chance``: how likely a cause that is a guess fits as often by chance, null where the cause is
    a fact or nothing fits. ``fault``: whether it fails the run; null where nobody can tell.
    ``slot``: place within the engine's call, from 0, and tokens of that call; null where the log
    does not say. ``choice``: the target's token there. ``before``: text before it; ``text_a``,
    ``text_b``: what the logs go on with.
    """

    request: int
    line_a: int
    line_b: int
    kind: TriageClass
    fault: bool | None
    side: TriageSide | None
    parted: int | None
    at: int | None
    gap: float | None
    rank: int | None
    cause: str
    chance: float | None
    slot: tuple[int, int] | None
    token_a: int | None
    token_b: int | None
    choice: int | None
    before: str
    text_a: str
    text_b: str


class TriageCount(Struct, frozen=True):
    """How many requests a class has, and whose token was off."""

    kind: TriageClass
    requests: int
    side_a: int
    side_b: int
    both: int


class TriageCause(Struct, frozen=True):
    """What was tried as an explanation of ``places`` off tokens, and fits ``fits`` of them.

    ``by_chance``: share of other places at which it gives the runner-up, the next likely token.
    ``chance``: probability that the best of all that were tried fits so well by that. ``taken``:
    whether it is taken for the cause.
    """

    name: str
    kind: TriageClass
    places: int
    fits: int
    by_chance: float
    chance: float
    taken: bool


class TriageRun(Judged, frozen=True, tag_field="command", tag="triage"):
    """A triage of two logs of greedy answers, against the target's rescored rows.

    ``a``, ``b``: the logs or servers; ``sha256``: of the ids of both. ``requests``: pairs;
    ``alone_a``, ``alone_b``: answers of one log alone. ``tokens``: rescored, of both. ``declared``:
    whether the precision was named. ``moved``: by how much rescoring moved the distance of two
    logits at most; ``radius``: what an engine's rounding may come to, twice that. ``due_numerics``:
    requests that would part by the rounding seen here, on average at most. ``agreed``: tokens that
    both emit after the same tokens; ``agreed_off``: those of them that are not the target's choice
    by more than the radius. ``counts``: of every class; ``causes``: what was tried, of ``tried``
    explanations in all, and fits somewhere; ``cases``: the requests that are not the same, the
    gravest first, ``left_out`` more.
    """

    schema_version: Literal[1]
    a: str
    b: str
    target: str
    draft: str | None
    sha256: str
    requests: int
    alone_a: int
    alone_b: int
    tokens: int
    device: str
    dtype: str
    declared: bool
    moved: float
    radius: float
    due_numerics: float
    agreed: int
    agreed_off: int
    counts: tuple[TriageCount, ...]
    causes: tuple[TriageCause, ...]
    tried: int
    cases: tuple[TriageCase, ...]
    left_out: int
    verdict: Verdict
    certificate: Certificate | None
    findings: tuple[str, ...]
    inconclusive: str | None
    notes: tuple[str, ...]
    reproduce: str
    meta: Meta
