import numpy as np

from simverify.engines.loading.drawn_tree import drawn_tree, likeliest_paths


def test_two_children_of_the_root_and_one_of_every_other_node():
    asked = []

    def draft(prefix):
        asked.append(prefix)
        return np.eye(4)[len(prefix)]

    def children(row, count):
        return [int(row.argmax()) - i for i in range(count)]

    tree = drawn_tree(draft, (0,), 2, children)
    assert tree.paths == [(), (1,), (0,), (1, 2), (0, 2)]
    assert tree.parents == [-1, 0, 0, 1, 2]
    assert tree.tokens == [1, 0, 2, 2]
    assert tree.children == [[1, 2], [3], [4], [], []]
    assert asked == [(0,), (0, 1), (0, 0)]
    assert tree.rows(draft).argmax(-1).tolist() == [1, 2, 2, 3, 3]


def test_a_draft_may_have_fewer_tokens_than_children():
    tree = drawn_tree(lambda prefix: None, (), 2, lambda row, count: [3])
    assert (tree.paths, tree.parents) == ([(), (3,), (3, 3)], [-1, 0, 1])


def test_the_likeliest_tokens_after_every_node_and_the_likeliest_first():
    rows = {(0,): [0.2, 0.5, 0.3], (0, 1): [0.4, 0.4, 0.2], (0, 2): [0.1, 0.2, 0.7]}
    draft = lambda prefix: np.array(rows[prefix])  # noqa: E731
    assert likeliest_paths(draft, (0,), 2, 2) == [(1, 0), (1, 1), (2, 2), (2, 1)]
    assert likeliest_paths(draft, (0,), 0, 2) == [()]
    assert likeliest_paths(lambda prefix: np.ones(1), (), 2, 2) == [(0, 0)]
