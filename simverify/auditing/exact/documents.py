"""From what the exact tier found to what is said of it: in the result document, and in notes.

Notes say how far from optimal a lossless rule is; they never change the verdict.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from simverify import results
from simverify.arrays import Row
from simverify.auditing.exact.generations.generation import until
from simverify.auditing.exact.generations.laws import followed_length
from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.judging.comparison import DraftCall
from simverify.auditing.exact.judging.examiner import Judged, output_length
from simverify.auditing.exact.judging.rows import FailingRows
from simverify.auditing.exact.judging.tree import Transcripts, Tree, probability
from simverify.auditing.sampled.tables import SampledInstance, Tables
from simverify.auditing.subject import Contract
from simverify.results import Branch
from simverify.symbolic.enumeration.endings import Tokens
from simverify.verifiers import VERIFIERS


def instance_document(judged: Judged) -> results.ExactInstance:
    """Return the document's entry of one instance of the exact tier."""
    comparison = judged.comparison
    return results.ExactInstance(
        name=judged.model.name,
        vocab_size=judged.model.vocab_size,
        gamma=judged.model.gamma,
        paths=comparison.paths,
        max_abs_deviation=comparison.max_abs_deviation,
        tv=comparison.tv,
        expected_accepted=comparison.expected_accepted,
        optimum=_optimum(judged),
        failed=judged.failed,
        left_out=comparison.pruned + comparison.lost,
    )


def _optimum(judged: Judged) -> float | None:
    """E[tau] of the best rule, where the code's own is known and a closed form says it.

    The closed form is of drafts after the empty text: after a prompt there are other rows.
    """
    model = judged.model
    if judged.comparison.expected_accepted is None or model.drafting is not None or model.prompt:
        return None
    return optimum(model)


def counterexample(judged: Judged, contract: Contract) -> results.Counterexample:
    """Return the instance of a failure with its rows, and the output that deviates most."""
    comparison, model = judged.comparison, judged.model
    if comparison.call is not None:
        return _drafted(judged, comparison.call)
    length = output_length(model, contract)
    sequence = until(comparison.worst.tokens, model.eos)
    return results.Counterexample(
        instance=model.document(_depth(model, length, contract), sequence),
        sequence=sequence,
        probability_emitted=comparison.worst.emitted,
        probability_expected=comparison.worst.due,
        max_abs_deviation=comparison.max_abs_deviation,
        tv=comparison.tv,
        tree=branches(
            comparison.emitted, lambda so_far: model.target(model.prompt + so_far), sequence
        ),
    )


def _drafted(judged: Judged, call: DraftCall) -> results.Counterexample:
    """Return the call of a drafter that deviates most, on its instance."""
    comparison, model = judged.comparison, judged.model
    return results.Counterexample(
        instance=model.document(model.gamma),
        sequence=comparison.worst.tokens,
        probability_emitted=comparison.worst.emitted,
        probability_expected=comparison.worst.due,
        max_abs_deviation=comparison.max_abs_deviation,
        tv=comparison.tv,
        call=results.DraftCall(
            prefix=call.prefix,
            asked=call.asked,
            reported=call.reported,
            share=call.share,
            before=call.before,
        ),
    )


def breach(judged: Judged, contract: Contract) -> results.Breach | None:
    """Return the instance and the drafted block on which the code broke its contract, if it did."""
    if not judged.violated:
        return None
    comparison, model = judged.comparison, judged.model
    message = next(f.message for f in comparison.findings if f.severity == "violation")
    length = output_length(model, contract)
    if contract == "step":
        length = followed_length(model.vocab_size, model.gamma, model.earlier_calls, length)
    return results.Breach(
        instance=model.document(_depth(model, length, contract)),
        draft_tokens=comparison.broken,
        parents=comparison.broken_parents,
        message=message,
    )


def rows_document(found: FailingRows) -> results.FailingRows:
    """Return what the result document says of the rows that a failure needs."""
    return results.FailingRows(
        kinds=found.kinds,
        message=found.words(),
        instances=len(found.right),
        paths=sum(judged.comparison.paths for judged in found.right),
        max_abs_deviation=max(
            (judged.comparison.max_abs_deviation for judged in found.right), default=None
        ),
    )


def _depth(model: SmallModel, length: int, contract: Contract) -> int:
    """Length of the longest prefix whose rows the code may ask for."""
    if contract == "draft":
        return model.gamma
    if contract != "step":
        return length - 1
    # The last call of an earlier generation may begin deeper than that of the output.
    earlier = (model.earlier_calls - 1) * (model.gamma + 1)
    return max(length - 1, earlier) + model.gamma


def localisation(judged: Judged) -> results.Localisation | None:
    """Return where the law leaves the target first; None if no position stands out."""
    place = judged.comparison.place
    if place is None or judged.comparison.call is not None:
        return None
    return results.Localisation(position=place.position, stage=place.stage, tv=place.tv)


def branches(
    law: Row | Tree | Transcripts, target: Callable[[Tokens], Row], sequence: Tokens
) -> tuple[Branch, ...]:
    """Return each beginning of ``sequence``, with every token that could come next there.

    ``law``: the law of outputs, float64 (V,) * length or a tree; ``sequence`` is no longer.
    ``target(prefix)``: the target's row (V,) after the tokens of the output so far.
    """
    found, due = [], 1.0
    for place, token in enumerate(sequence):
        before = sequence[:place]
        row = target(before)
        found += [
            Branch(
                sequence=(*before, other),
                probability_emitted=probability(law, (*before, other)),
                probability_expected=due * float(share),
            )
            for other, share in enumerate(row)
        ]
        due *= float(row[token])
    return tuple(found)


_ALIKE = ("token", "match")

_ROUNDING = 1e-9


@lru_cache(maxsize=1024)
def accepted_by(name: str, model: SmallModel) -> float:
    """E[tau] of the built-in rule ``name`` on ``model``, from its acceptance curve."""
    return float(_tables(model).curve(VERIFIERS[name]).sum())


def optimum(model: SmallModel) -> float:
    """E[tau] of block verification: the most that a lossless rule without state accepts.

    Sun et al. 2025, Theorem 2.
    """
    return accepted_by("block", model)


def optimality_notes(judged: Sequence[Judged], tolerance: float) -> list[str]:
    """Say where the rule, whose law was right on all of ``judged``, accepts too little.

    Rules that draft themselves have no notes: the tokens do not tell how many drafts of a
    position a call weighs, and a rule that weighs two may well accept more than block does.
    """
    rounding = max(_ROUNDING, tolerance)
    # Of rules that draft themselves no comparison knows the mass of bonus tokens.
    chains = (x for x in judged if not x.model.drafting and x.comparison.bonus is not None)
    found = {x.model: x.comparison for x in chains}
    accepted = {m: x.expected_accepted for m, x in found.items() if x.expected_accepted is not None}
    below = {m: tau for m, tau in accepted.items() if tau < optimum(m) - rounding * m.gamma}
    if not below:
        return []
    worst = min(below, key=lambda model: below[model] / optimum(model))
    best = optimum(worst)
    if all(not x.comparison.bonus for x in judged) and any(map(_may_accept_all, accepted)):
        return [
            "never emits a bonus token after gamma accepted drafts, so a call emits fewer tokens "
            f"than it could: on {worst.name} {below[worst] + 1:.4g} tokens, E[tau] "
            f"{below[worst]:.4g}; block verification emits {best + 1:.4g}, E[tau] {best:.4g}"
        ]
    alike = [
        name
        for name in _ALIKE
        if all(abs(tau - accepted_by(name, m)) <= rounding * m.gamma for m, tau in accepted.items())
    ]
    like = f", as the {alike[0]} rule" if alike else ""
    return [
        f"accepts less than the optimum on {len(below)} of {len(accepted)} instances{like}: on "
        f"{worst.name} E[tau] is {below[worst]:.4g}, {below[worst] / best:.1%} of block "
        f"verification's {best:.4g}"
    ]


def _may_accept_all(model: SmallModel) -> bool:
    return bool(_tables(model).curve(VERIFIERS["token"])[-1] > _ROUNDING)


@lru_cache(maxsize=1024)
def _tables(model: SmallModel) -> Tables:
    return Tables(SampledInstance(model, model.gamma), model.gamma + 1)
