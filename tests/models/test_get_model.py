import json

import numpy as np
import pytest

from simverify.errors import UsageError
from simverify.models import BUILT_IN, get_model


@pytest.mark.parametrize("name", ["toy", "compact", "markov-2", "markov-64", "markov-1000"])
def test_a_name_gives_the_model_of_that_name(name):
    model = get_model(name)
    assert model.name == name
    assert len(model.target([])) == len(model.draft([1])) == model.vocab_size


def test_every_built_in_has_a_line_that_says_what_it_is():
    assert set(BUILT_IN) == {"toy", "compact", "markov-V", "ngram"}
    assert all(BUILT_IN.values())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("toi", "unknown model 'toi': did you mean 'toy'"),
        ("compat", "did you mean 'compact'"),
        ("n-gram", "did you mean 'ngram'"),
        ("markov", "did you mean 'markov-"),
        ("markov64", "did you mean 'markov-64'"),
        ("markov--4", "did you mean 'markov-"),
        ("xyzzy", "unknown model 'xyzzy': choose from toy, compact, markov-V, ngram"),
        ("", "unknown model ''"),
        ("markov-V", "markov-V needs a number"),
        ("markov-0", "markov-0: the vocabulary needs 2"),
        ("tiny-llama", "is a pair of real models, which runs alone"),
        ("folder/model", "folder/model: expected a .json or .npz file"),
        ("none.json", "none.json: cannot be read"),
        ("none.npz", "none.npz: cannot be read"),
    ],
)
def test_a_name_that_is_none_says_what_to_write(name, message):
    with pytest.raises(UsageError, match=message):
        get_model(name)


def test_knobs_reach_markov_and_leave_the_others_alone():
    near, far = (get_model("markov-8", distance=d) for d in (0.1, 0.9))
    assert np.abs(near.draft([0]) - far.draft([0])).max() > 0
    assert get_model("markov-8", temperature=0.0).target([0]).max() == 1
    toy = get_model("toy", distance=0.0, temperature=0.0)
    np.testing.assert_array_equal(toy.draft([]), [2 / 3, 1 / 3])


def test_a_path_gives_the_pair_in_the_file(tmp_path):
    side = {"start": [0.5, 0.5], "rows": [[0.5, 0.5], [1, 0]]}
    path = tmp_path / "pair.json"
    path.write_text(json.dumps({"name": "mine", "target": side, "draft": side}))
    assert get_model(str(path)).name == "mine"
