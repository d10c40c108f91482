"""A target's choices after a text, computed once for all triages that ask for the same text.

Triages of the same prompts hold their explanations against mostly the same places where nothing is
off, and that is most of a triage. A choice may have been computed in a batch of other texts, which
moves a logit by its rounding: a triage allows for that, as an engine's batches are others too.
"""

from support.kept_logits import weights_of

from simverify.served import triage_explanations


def keep_choices(monkeypatch):
    """Let every triage of this process use what an earlier one computed."""
    known, plain = {}, triage_explanations.target_argmax

    def choices(texts, pair):
        own = known.setdefault(weights_of(pair.target_model), {})
        own |= plain([text for text in texts if text not in own], pair)
        return {text: own[text] for text in texts}

    monkeypatch.setattr(triage_explanations, "target_argmax", choices)
