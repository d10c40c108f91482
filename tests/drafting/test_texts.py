"""Drafters from texts, held to references that go through whole texts for every draft."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracles.from_texts import NaiveLane

from simverify.drafting.texts import NgramDrafter, PromptLookup
from simverify.errors import UsageError
from simverify.models.transformer import Sampling

KINDS = {"prompt-lookup": PromptLookup, "ngram": NgramDrafter}
by_name = pytest.mark.parametrize("name", KINDS)


def one_hot(tokens, vocab_size):
    return np.where(np.arange(vocab_size) == np.array(tokens)[:, None], 0.0, -np.inf)


class Beside:
    """A drafter of a batch, one alone for each of its requests, and their references."""

    def __init__(self, name, vocab_size, requests):
        self.name, self.vocab_size = name, vocab_size
        self.batch = KINDS[name](vocab_size, requests)
        self.alone = [KINDS[name](vocab_size, 1) for _ in range(requests)]
        self.naive = [NaiveLane() for _ in range(requests)]

    def phase(self, prompts, pending, gamma, tau, choose):
        """Draft ``gamma`` tokens of each request, ``choose`` of what is proposed; keep ``tau``."""
        for r, prompt in enumerate(prompts):
            self.batch.read(r, prompt)
            self.alone[r].read(0, prompt)
            self.naive[r].begin(list(prompt))
            self.naive[r].begin(list(pending[r]))
        logits = self.batch.begin(pending)
        single = [own.begin([text]) for own, text in zip(self.alone, pending, strict=True)]
        drafts = [[] for _ in self.naive]
        for _ in range(gamma):
            found = self.looked(logits, single, drafts)
            tokens = [choose(token) for token in found]
            for own, token in zip(drafts, tokens, strict=True):
                own.append(token)
            logits = self.batch.extend(tokens)
            single = [own.extend([token]) for own, token in zip(self.alone, tokens, strict=True)]
        self.looked(logits, single, drafts)
        self.batch.accept([range(kept) for kept in tau])
        for own, naive, text, kept in zip(self.alone, self.naive, drafts, tau, strict=True):
            own.accept([range(kept)])
            naive.text += text[:kept]

    def looked(self, logits, single, drafts):
        found = [
            naive.proposed(self.name, own) for naive, own in zip(self.naive, drafts, strict=True)
        ]
        assert logits.dtype == np.float32
        np.testing.assert_array_equal(logits, one_hot(found, self.vocab_size))
        np.testing.assert_array_equal(np.concatenate(single), logits)
        return found

    def end(self, ended):
        self.batch.end(ended)
        for over, own, naive in zip(ended, self.alone, self.naive, strict=True):
            own.end([over])
            if over:
                naive.end()

    def select(self, kept):
        self.batch.select(kept)
        self.alone = [self.alone[r] for r in kept]
        self.naive = [self.naive[r] for r in kept]


@by_name
@given(random=st.randoms(use_true_random=False), vocab_size=st.integers(1, 4),
       requests=st.integers(1, 3), phases=st.integers(1, 12), obedient=st.booleans())  # fmt: skip
def test_every_draft_of_any_stream_is_the_references(
    name, random, vocab_size, requests, phases, obedient
):
    """Phases, accepted counts, requests that end, batches that shrink and change their order."""
    token = lambda: random.randrange(vocab_size)  # noqa: E731
    beside = Beside(name, vocab_size, requests)
    fresh = [True] * requests
    for _ in range(phases):
        prompts = [[token() for _ in range(random.randrange(6))] if new else () for new in fresh]
        pending = [[token()] for _ in fresh]
        gamma = random.randrange(1, 5)
        tau = [random.randrange(gamma + 1) for _ in fresh]
        beside.phase(prompts, pending, gamma, tau, lambda x: x if obedient else token())
        fresh = [random.random() < 0.3 for _ in fresh]
        beside.end(fresh)
        if random.random() < 0.3:
            kept = random.sample(range(len(fresh)), random.randrange(1, len(fresh) + 1))
            beside.select(kept)
            fresh = [fresh[r] for r in kept]


@by_name
@pytest.mark.parametrize("prompt", [[2], [2] * 9, [0] * 4 + [2]])
def test_where_nothing_is_known_the_last_token_comes_again(name, prompt):
    beside = Beside(name, 3, 1)
    beside.phase([prompt[:-1]], [prompt[-1:]], 8, [8], lambda x: x)
    assert beside.naive[0].text == [*prompt, *[2] * 8]


@by_name
def test_one_token_is_all_that_there_is(name):
    beside = Beside(name, 1, 2)
    for _ in range(3):
        beside.phase([(), [0, 0]], [[0], [0]], 3, [3, 0], lambda x: x)
        beside.end([False, True])


def test_prompt_lookup_takes_the_longest_end_and_the_latest_place():
    drafter = PromptLookup(10, 1)
    drafter.read(0, [1, 2, 3, 7, 9, 2, 3, 8, 1, 2])
    assert drafter.begin([[3]]).argmax() == 7  # after 1 2 3, though 2 3 stood later
    drafter = PromptLookup(10, 1)
    drafter.read(0, [5, 2, 3, 7, 6, 2, 3, 8, 1, 2])
    assert drafter.begin([[3]]).argmax() == 8  # of two places of 2 3 the later one


def test_prompt_lookup_goes_on_in_its_own_drafts():
    """a b c a b c ...: a match that ends with the text is gone on with behind it."""
    drafter = PromptLookup(5, 1)
    drafter.read(0, [1, 2, 3])
    tokens = [drafter.begin([[1]]).argmax()]
    for _ in range(6):
        tokens.append(drafter.extend(tokens[-1:]).argmax())
    assert tokens == [2, 3, 1, 2, 3, 1, 2]


def test_ngram_counts_no_draft_that_was_rejected():
    """2 was drafted after 1 three times and thrown away; 4 came after it once."""
    drafter = NgramDrafter(10, 1)
    drafter.read(0, [1, 4])
    for _ in range(3):
        drafter.begin([[9]])
        drafter.extend([1])
        drafter.extend([2])
        drafter.accept([()])
    drafter.begin([[8]])
    drafter.accept([()])
    assert drafter.begin([[1]]).argmax() == 4


def test_ngram_remembers_requests_that_ended_and_prompt_lookup_does_not():
    for kind, expected in ((NgramDrafter, 3), (PromptLookup, 2)):
        drafter = kind(5, 1)
        drafter.read(0, [1, 2, 3])
        drafter.begin([[4]])
        drafter.accept([()])
        drafter.end([True])
        drafter.read(0, [1])
        assert drafter.begin([[2]]).argmax() == expected


def test_no_place_of_a_text_is_learned_twice():
    learned = []

    class Watched(PromptLookup):
        def learn(self, request, context, token):
            learned.append((context, token))
            super().learn(request, context, token)

    drafter = Watched(7, 1)
    drafter.read(0, [*range(5)])
    for _ in range(10):
        drafter.begin([[6]])
        for _ in range(4):
            drafter.extend([5])
        drafter.accept([range(2)])
    assert len(learned) == 1 + 2 + 3 * (5 + 10 + 9 * 2 - 3)


@by_name
@pytest.mark.parametrize(
    "sampling",
    [Sampling(), Sampling(0.0), Sampling(0.7), Sampling(1e-9), Sampling(1e300), Sampling(1.0, 1),
     Sampling(0.7, top_k=2), Sampling(1.0, top_p=1e-9), Sampling(1.3, top_k=3, top_p=0.9),
     Sampling(0.0, top_k=2, top_p=0.5)],
    ids=str,
)  # fmt: skip
def test_whatever_is_sampled_its_law_is_the_token_alone(name, sampling):
    drafter = KINDS[name](5, 3)
    rows = sampling.rows(drafter.begin([[0], [3], [4]]))
    np.testing.assert_array_equal(rows, np.eye(5)[[0, 3, 4]])
    rows = sampling.rows(KINDS[name](1, 1).begin([[0]]))
    np.testing.assert_array_equal(rows, [[1.0]])


@by_name
def test_trees_are_refused_in_one_line(name):
    drafter = KINDS[name](5, 1)
    drafter.begin([[0]])
    with pytest.raises(UsageError, match="propose one token after each text") as caught:
        drafter.grow([[0, 1]], [[-1, -1]])
    assert "\n" not in str(caught.value)
