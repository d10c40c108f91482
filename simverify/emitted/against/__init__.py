"""Two engines against each other, without a target: same prompts, asked often, answers compared.

``answers`` reads what either said, ``rounds`` chooses what ``asking`` asks two servers,
``beginnings`` and ``features`` are what the tests look at, ``judging`` tests it as ``settings``
say; ``run`` is the whole.
"""

from simverify.emitted.against.answers import Answer, Pairs, paired, read_answers
from simverify.emitted.against.asking import ask_both, beside
from simverify.emitted.against.rounds import ask_in_rounds
from simverify.emitted.against.run import Sources, audit_against
from simverify.emitted.against.settings import AgainstSettings

__all__ = [
    "AgainstSettings",
    "Answer",
    "Pairs",
    "Sources",
    "ask_both",
    "ask_in_rounds",
    "audit_against",
    "beside",
    "paired",
    "read_answers",
]
