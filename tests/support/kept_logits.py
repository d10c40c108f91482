"""Logits of emitted tokens, computed once for all audits of the same tokens by the same weights.

A file of tests audits the same answers again and again, under another law or with other settings:
the model's work would be the same to the bit, and is most of an audit. Its weights are looked at
each time, so that changed ones are others.
"""

from collections import OrderedDict
from itertools import chain

import torch

from simverify.served import rescore

MOST = 1 << 28
"""Bytes that are kept in a process; what was not asked for the longest goes first."""


def weights_of(model):
    """What tells the weights of a model from those of another, and how it computes."""
    sums = tuple(float(own.detach().sum(dtype=torch.float64)) for own in model.parameters())
    coarse = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
    return type(model).__name__, model.dtype, coarse, torch.get_num_threads(), sums


class Kept:
    """What was computed, by what tells it apart."""

    def __init__(self):
        self._known, self._size = OrderedDict(), 0

    def found(self, key, arrays, compute):
        """Return ``compute()``, or what it was; ``arrays``: those in it."""
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key][0]
        found = compute()
        own = arrays(found)
        for rows in own:
            rows.flags.writeable = False  # or a test would change another's
        self._known[key] = found, sum(rows.nbytes for rows in own)
        self._size += self._known[key][1]
        while self._size > MOST:
            self._size -= self._known.popitem(last=False)[1][1]
        return found


def keep_logits(monkeypatch):
    """Let every rescoring of this process use what was computed before."""
    kept, plain, rounded = Kept(), rescore.logits_before, rescore.rounded_weight_logits

    def asked_of(model, requests):
        return weights_of(model), tuple((own.prompt, own.tokens) for own in requests)

    def logits_before(pair, model, requests):
        # Weights that are rounded as they are used look like others at rest.
        if any(own._forward_pre_hooks or own._forward_hooks for own in model.modules()):
            return plain(pair, model, requests)
        key = asked_of(model, requests)
        return list(kept.found(key, list, lambda: plain(pair, model, requests)))

    def kept_rounded(pair, requests, roundings):
        key = (tuple(roundings.items()), *asked_of(pair.target_model, requests))

        def compute():
            return rounded(pair, requests, roundings)

        return dict(kept.found(key, lambda by: [*chain(*by.values())], compute))

    monkeypatch.setattr(rescore, "logits_before", logits_before)
    monkeypatch.setattr(rescore, "rounded_weight_logits", kept_rounded)
