"""Drafters by layers in groups with a fault each, as one would make it in an engine."""

from dataclasses import dataclass

from simverify.drafting.easyspec import EasySpec, PlainDrafter
from simverify.drafting.method import DraftMethod

WIDE = 4


class KeepsAcceptedEntries(EasySpec):
    """Drops the entries of rejected drafts alone; those of accepted ones stay fuzzy."""

    def accept(self, kept):
        PlainDrafter.accept(self, kept)
        self._drafts = [[] for _ in kept]


class OneTokenShort(EasySpec):
    """Runs all accepted drafts again but the last."""

    def accept(self, kept):
        super().accept(kept)
        self._owed = [owed[:-1] for owed in self._owed]


class KeepsARejectedSibling(EasySpec):
    """Counts one sibling that was rejected among the text's tokens."""

    def grow(self, tokens, parents):
        if all(parent == -1 for own in parents for parent in own):
            self._siblings = [list(own) for own in tokens]
        return super().grow(tokens, parents)

    def accept(self, kept):
        super().accept(kept)
        rejected = [
            [token for number, token in enumerate(own) if number not in way]
            for own, way in zip(self._siblings, kept, strict=True)
        ]
        self._owed = [[*own[:1], *owed] for own, owed in zip(rejected, self._owed, strict=True)]


@dataclass(frozen=True)
class Faulty(DraftMethod):
    """A method that makes a faulty drafter."""

    kind: type = EasySpec

    def make(self, pair, requests):
        return self.kind(pair.draft_model, requests, WIDE)


class Twin:
    """Fuzzy drafts, beside which a plain drafter is told the same and knows the exact laws."""

    def __init__(self, model, requests):
        self.fuzzy, self.exact = EasySpec(model, requests, 8), PlainDrafter(model, requests)
        self.heads = []

    def begin(self, tokens):
        self.heads = [self.exact.begin(tokens)]
        return self.fuzzy.begin(tokens)

    def extend(self, tokens):
        self.heads.append(self.exact.extend(tokens))
        return self.fuzzy.extend(tokens)

    def __getattr__(self, name):
        def both(*given):
            getattr(self.exact, name)(*given)
            return getattr(self.fuzzy, name)(*given)

        return both
