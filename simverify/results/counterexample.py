"""What a failure of an audit is shown on: rows, an output, or a call of a drafter."""

from simverify.results.common import Struct


class Instance(Struct, frozen=True):
    """A small target and draft: rows by prefix, "" the empty one, "0,2" after tokens 0 and 2.

    Rows are lists of numbers, or of fractions as strings where they are rational.
    ``earlier_calls``: calls of another generation, then a reset, before the output begins.
    ``eos``: the token that ends a generation; null where none does.
    ``prompt``: tokens that come before all prefixes. ``parents``: the shape of the draft trees,
    each node's parent, -1 for the root, and ``scheme`` how siblings are drafted; null where a
    single block is drafted.
    """

    name: str
    vocab_size: int
    gamma: int
    target_probs: dict[str, tuple[float | str, ...]]
    draft_probs: dict[str, tuple[float | str, ...]]
    earlier_calls: int = 0
    eos: int | None = None
    prompt: tuple[int, ...] = ()
    parents: tuple[int, ...] | None = None
    scheme: str | None = None


class Branch(Struct, frozen=True):
    """Probability that an output begins with ``sequence``: as emitted, and as due."""

    sequence: tuple[int, ...]
    probability_emitted: float
    probability_expected: float


class DraftCall(Struct, frozen=True):
    """A call of a drafter: for ``asked`` siblings after ``prefix``, of the instance's draft row.

    ``reported``: the row that the tokens are said to come from. ``share``: the probability that
    the call reports it and returns so many tokens as the counterexample has, after ``before``,
    what the calls before it returned.
    """

    prefix: tuple[int, ...]
    asked: int
    reported: tuple[float, ...]
    share: float
    before: tuple[tuple[int, ...], ...] = ()


class Counterexample(Struct, frozen=True):
    """The smallest failing instance found, and the output sequence that deviates most on it.

    ``sequence``: the first tokens of a completed output. ``tree``: every token that could stand
    at each place of ``sequence``, after what comes before it there. ``call``: of a drafter, whose
    ``sequence`` are the siblings that it returned, and whose probabilities are of them among the
    answers that report the same row and as many tokens; null where code emits.
    """

    instance: Instance
    sequence: tuple[int, ...]
    probability_emitted: float
    probability_expected: float
    max_abs_deviation: float
    tv: float
    tree: tuple[Branch, ...] = ()
    call: DraftCall | None = None


class Breach(Struct, frozen=True):
    """The first instance on which a call of the code broke its contract, in ``message``.

    ``draft_tokens``: the drafted block of that call; null where the code drafts itself.
    ``parents``: where a tree is drafted, the parent of each token, -1 for the root.
    """

    instance: Instance
    draft_tokens: tuple[int, ...] | None
    message: str
    parents: tuple[int, ...] | None = None
