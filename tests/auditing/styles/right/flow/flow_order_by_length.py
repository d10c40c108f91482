"""Searched from the left or from the right by the parity of the tokens emitted so far."""

CONTRACT = "verify"


class Verifier:
    emitted = 0

    def sample(self, law, u):
        ids = range(len(law)) if self.emitted % 2 else range(len(law) - 1, -1, -1)
        rest = u * sum(law)
        for token in ids:
            rest -= law[token]
            if rest < 0:
                return token
        return max(range(len(law)), key=law.__getitem__)

    def __call__(self, target_probs, draft_probs, draft_tokens, rng):
        law, tau = target_probs[-1].tolist(), len(draft_tokens)
        for i, token in enumerate(draft_tokens):
            p, q = target_probs[i].tolist(), draft_probs[i].tolist()
            if rng.random() * q[token] >= p[token]:
                law, tau = [max(a - b, 0) for a, b in zip(p, q)], i
                break
        last = self.sample(law, rng.random())
        self.emitted += tau + 1
        return [*draft_tokens[:tau], last]


verify = Verifier()
