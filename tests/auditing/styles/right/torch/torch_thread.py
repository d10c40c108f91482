"""torch draws in a worker thread that is joined inside the call."""

import threading

import torch

CONTRACT = "verify"


def verify(target_probs, draft_probs, draft_tokens, rng):
    p, q = torch.from_numpy(target_probs), torch.from_numpy(draft_probs)
    answer = []

    def work():
        for i, token in enumerate(draft_tokens):
            if torch.rand(1, dtype=p.dtype) >= p[i, token] / q[i, token]:
                rest = (p[i] - q[i]).clamp(min=0)
                answer.extend([*draft_tokens[:i], torch.multinomial(rest, 1).item()])
                return
        answer.extend([*draft_tokens, torch.multinomial(p[-1], 1).item()])

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    return answer
