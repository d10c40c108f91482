"""A law as documents hold it."""

from simverify import results as doc
from simverify.emitted.law.law import STAGES, Law


def processing_of(law: Law) -> doc.Processing | None:
    """Return what a law has beside temperature, top-k and top-p; None where it has nothing."""
    if law.plain:
        return None
    return doc.Processing(
        min_p=law.min_p,
        typical_p=law.typical_p,
        repetition_penalty=law.repetition_penalty,
        presence_penalty=law.presence_penalty,
        frequency_penalty=law.frequency_penalty,
        logit_bias=law.logit_bias,
        bad_words=law.bad_words,
        min_tokens=law.min_tokens,
        mask=None if law.mask is None else law.mask.name,
        order=None if law.order == STAGES else law.order,
    )
