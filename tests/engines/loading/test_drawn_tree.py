import numpy as np

from simverify.engines.loading.drawn_tree import drawn_tree


def test_two_children_of_the_root_and_one_of_every_other_node():
    asked = []

    def draft(prefix):
        asked.append(prefix)
        return np.eye(4)[len(prefix)]

    def children(row, count):
        return [int(row.argmax()) - i for i in range(count)]

    paths, parents = drawn_tree(draft, (0,), 2, children)
    assert paths == [(), (1,), (0,), (1, 2), (0, 2)]
    assert parents == [-1, 0, 0, 1, 2]
    assert asked == [(0,), (0, 1), (0, 0)]


def test_a_draft_may_have_fewer_tokens_than_children():
    paths, parents = drawn_tree(lambda prefix: None, (), 2, lambda row, count: [3])
    assert (paths, parents) == ([(), (3,), (3, 3)], [-1, 0, 1])
