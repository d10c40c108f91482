"""Two engines against each other, without a target: same prompts, asked often, answers compared.

``answers`` reads what either said, ``asking`` asks two servers in turn, ``features`` is what the
tests look at, ``judging`` tests it as ``settings`` say; ``run`` is the whole.
"""

from simverify.emitted.against.answers import Answer, Pairs, paired, read_answers
from simverify.emitted.against.asking import ask_both, beside
from simverify.emitted.against.run import Sources, audit_against
from simverify.emitted.against.settings import AgainstSettings

__all__ = [
    "AgainstSettings",
    "Answer",
    "Pairs",
    "Sources",
    "ask_both",
    "audit_against",
    "beside",
    "paired",
    "read_answers",
]
