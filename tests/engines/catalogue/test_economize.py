import pytest
from support.engine_doubles import check_double, checkout, largest_deviation

pytest.importorskip("torch")

DOUBLE = """
import torch

from ..errors import ConfigError
from ..registry import Registry
from ..runtime.transfer import device_tensor
from .capabilities import selector_distribution, selector_distributions, selector_generator
from .protocols import Draft, Verifier

VERIFIERS = Registry("verifier")


def walk(p, nodes, tokens, q):
    '''Try the nodes in their order; return the one that is kept, or None, and what is left.'''
    for node in nodes:
        x = tokens[node]
        if torch.rand((), dtype=p.dtype) * q[node][x] < p[x]:
            return node, p
        p = (p - q[node]).clamp_min(0)
        p = p / p.sum()
    return None, p


@VERIFIERS.register("rejection")
class RejectionVerifier(Verifier):

    def verify(self, logits, drafts, probs, selector, history, end):
        assert selector_generator(selector, logits.device) is None
        for i in range(len(drafts)):
            p = selector_distribution(selector, logits[i], history[: end + i], "rejection")
            kept, left = walk(p, [i], drafts, probs.float())
            if kept is None:
                return i, int(torch.multinomial(left, 1))
        return len(drafts), selector(logits[-1], history)

    def verify_batch(self, logits, draft: Draft, selector, seq, ends):
        lengths = device_tensor(draft.lengths, logits.device)
        rows = selector_distributions(selector, logits)[0]
        tokens, q = draft.tokens[0].tolist(), draft.probs[0].float()
        for i in range(int(lengths[0])):
            kept, left = walk(rows[i], [i], tokens, q)
            if kept is None:
                return torch.tensor([i]), torch.multinomial(left, 1)
        return lengths, torch.multinomial(rows[draft.width], 1)

    def verify_tree(self, logits, draft: Draft, selector):
        if draft.parents is None:
            raise ConfigError("no tree")
        rows = selector_distributions(selector, logits)[0]
        tokens, parents = draft.tokens[0].tolist(), draft.parents[0].tolist()
        path, node = [], -1
        while True:
            nodes = [i for i in range(draft.lengths[0]) if parents[i] == node]
            node, left = walk(rows[node + 1], nodes, tokens, draft.probs[0].float())
            if node is None:
                return [path], [int(torch.multinomial(left, 1))]
            path.append(node)
"""


@pytest.mark.parametrize("name", ["economize-chain", "economize-batch"])
def test_the_adapter_gives_the_law_of_what_it_loads(tmp_path, name):
    check_double(name, tmp_path, DOUBLE, "(p - q[node]).clamp_min(0)", "1 * p")


def test_the_adapter_of_trees_gives_the_law_of_what_it_loads(tmp_path):
    where = "(p - q[node]).clamp_min(0)"
    check_double("economize-tree", tmp_path, DOUBLE, where, "1 * p", gamma=1, length=1)


def test_a_tree_that_is_walked_from_the_wrong_row_is_seen(tmp_path):
    folder = checkout(tmp_path, "economize-tree", DOUBLE.replace("rows[node + 1]", "rows[0]"))
    assert largest_deviation("economize-tree", folder, gamma=1) > 1e-3
