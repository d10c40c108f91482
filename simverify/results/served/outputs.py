"""The documents of tokens that an engine emitted: an audit of them, and a matrix of parameters."""

from typing import Literal

from simverify.results.common import Certificate, Meta, Struct, Test, Verdict
from simverify.results.run import Judged


class Retokenised(Struct, frozen=True):
    """What was measured on text, whose tokens are the tokenizer's and not the engine's.

    ``requests``: those given as text; ``not_round_tripping``: of these, whose tokens give
    another text. ``control_tokens``: tokens drawn from the target itself, written out and read
    again; ``changed``: how many of them came back as others.
    """

    requests: int
    not_round_tripping: int
    control_tokens: int
    changed: int


class Rescoring(Struct, frozen=True):
    """How far rescored rows move by rounding: TV of each row scored twice.

    ``mean``, ``largest``: together with other requests against alone, over all tokens.
    ``precision``: mean over ``precision_tokens`` tokens of a target that is not in float32 against
    float32; null for one that is. ``margin``: by how much two logits may be off from each other,
    so that a token that truncation cuts off counts as support.
    """

    mean: float
    largest: float
    precision: float | None
    precision_tokens: int
    margin: float


PlaceOf = Literal["request", "draft"]


class WorstToken(Struct, frozen=True):
    """A token that the target hardly expected, in its context.

    ``request``: its number, from 0; ``position``: of the token among those emitted, ``slot`` in the
    draft that it was judged with, null where nothing says. ``before``, ``after``: the text around.
    ``p``: its probability, ``rank`` among all tokens, from 1; ``chance``: of it and all that
    are no likelier. ``expected``: the likeliest token.
    """

    request: int
    position: int
    slot: int | None
    token: int
    text: str
    before: str
    after: str
    p: float
    rank: int
    chance: float
    expected: int
    expected_text: str
    expected_p: float


class AtPlace(Struct, frozen=True):
    """How far the mean ``name`` is off at the positions ``first`` to ``last`` of ``of``.

    ``mean``: of a token's value less its mean under its row; ``sigmas``: the sum, standardised.
    """

    of: PlaceOf
    first: int
    last: int
    tokens: int
    name: str
    mean: float
    sigmas: float


class Reported(Struct, frozen=True):
    """What the engine's own log probabilities say, over ``tokens``.

    ``kind``: what they are of. ``error``: median distance from ours, in nats. ``tv``: by how much
    the engine's rows are off from ours on average, ``tv_upper`` at most, where they are of the
    target; ``allowed``: what the test allows for. ``needed``: tokens after which they told more
    than that; null: never. ``fits``: whether they are of the target at all; where not, the
    distances tell nothing.
    """

    tokens: int
    kind: str
    error: float
    tv: float
    tv_upper: float
    allowed: float
    needed: int | None
    fits: bool = True


class FormatPower(Struct, frozen=True):
    """What the judged tokens would have told of weights that were rounded to a format.

    ``tv``: of its law from the target's, mean over contexts; ``power``: of the bets on rounded
    weights, by what its law would have won. ``needed``: tokens for a power of .9; null if more
    than are bet on, or by no number.
    """

    name: str
    tv: float
    power: float
    needed: int | None


class Processing(Struct, frozen=True):
    """What requests were asked for beside temperature, top-k and top-p; null: nothing.

    ``logit_bias``: pairs of id and addend; ``bad_words``: ids of each. ``mask``: name of the
    function. ``order``: in which all act; null: as in Transformers.
    """

    min_p: float | None
    typical_p: float | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    logit_bias: tuple[tuple[int, float], ...]
    bad_words: tuple[tuple[int, ...], ...]
    min_tokens: int
    mask: str | None
    order: tuple[str, ...] | None


class OutputRun(Judged, frozen=True, tag_field="command", tag="audit-outputs"):
    """An audit of tokens that another engine emitted, against the target's rescored rows.

    ``source``: the file or the address; ``sha256``: of the judged ids. ``requests``: those that
    were judged, ``tokens`` of them in all, the first of ``planned``, which is N as fixed
    beforehand; ``left_out``: tokens beyond N. ``ended``: requests that end with an
    end-of-sequence token, of which ``restored`` had it put back; ``unfinished``: those that end
    for a reason that nothing says. ``near``, ``unsupported``: tokens that truncation cuts off,
    within the margin and beyond. ``temperature``, ``top_k``, ``top_p``: what the
    first request was asked for; ``otherwise``: how many were asked for something else, and are
    judged by that. ``ball``: TV of the engine's own rows from the rescored ones,
    on average over contexts, that the tests allow for; ``ball_given``: whether it was named;
    ``ball_measured``: what computing rows again in the declared precision moved. ``hidden``: what
    fails by that and passes by a larger ball that was named. ``shape``: the test that rounding
    did what is hidden, or what failed; null where nothing is asked or nothing can tell.
    ``stopped``: whether a server was asked no more because the bets said FAIL; ``failed_from``:
    after how many tokens they do, null if never. ``budget``: tokens that it might emit, null for
    any.
    ``detectable``: of the kind ``deviation`` names, found with power ``power``.
    ``reported``: what the engine's own log probabilities say; null where it gave none.
    ``other_prompts``: prompts of which the server says other tokens than are made of them here.
    ``longest_prompt``, ``longest_answer``: tokens of the longest that was judged, 0 where a
    document does not say.
    ``weights``: which rounded weights would have failed; empty unless the verdict is PASS.
    ``processing``: what else the first request was asked for; null where nothing was.
    ``certificate``: null unless the verdict is PASS. ``worst``: the tokens that were expected
    least; ``places``: where a mean is off; both empty unless the verdict is FAIL.
    ``inconclusive``: why there is no verdict.
    """

    schema_version: Literal[1]
    source: str
    endpoint: bool
    target: str
    proxy: str | None
    sha256: str
    vocab_size: int
    requests: int
    tokens: int
    planned: int
    left_out: int
    ended: int
    restored: int
    unfinished: int
    near: int
    unsupported: int
    temperature: float
    top_k: int | None
    top_p: float | None
    otherwise: int
    device: str
    dtype: str
    alpha: float
    detect: float
    power: float
    ball: float
    ball_given: bool
    ball_measured: float
    hidden: tuple[str, ...]
    shape: Test | None
    rescoring: Rescoring
    text: Retokenised | None
    stopped: bool
    failed_from: int | None
    budget: int | None
    seed: int
    verdict: Verdict
    tests: tuple[Test, ...]
    detectable: float
    deviation: str
    certificate: Certificate | None
    findings: tuple[str, ...]
    worst: tuple[WorstToken, ...]
    places: tuple[AtPlace, ...]
    inconclusive: str | None
    notes: tuple[str, ...]
    reproduce: str
    meta: Meta
    processing: Processing | None = None
    reported: Reported | None = None
    other_prompts: int = 0
    longest_prompt: int = 0
    longest_answer: int = 0
    weights: tuple[FormatPower, ...] = ()
