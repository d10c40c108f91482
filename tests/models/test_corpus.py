"""."""

import json
import sys

import numpy as np
import pytest

from simverify.errors import SimverifyError, UsageError
from simverify.models import BUILT_IN_MODELS, get_model, ngram
from simverify.models.ngram import CHUNK_BYTES, HELD_OUT_PERIOD, corpus_text, split_corpus


@pytest.fixture
def library(tmp_path):
    for name in (
        "b.py",
        "a.py",
        "a/z.py",
        "a/data.txt",
        "a/test/kept.py",
        "test/dropped.py",
        "idlelib/dropped.py",
        "encodings/dropped.py",
        "pydoc_data/dropped.py",
        "site-packages/dropped.py",
        "a/__pycache__/dropped.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"<{name}>")
    return tmp_path


@pytest.fixture
def no_topics(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)


def test_this_pythons_text_is_deterministic_and_bounded():
    text = corpus_text()
    assert text == corpus_text()
    assert 64 * 1024 <= len(text) <= 12_000_000


@pytest.mark.usefixtures("no_topics")
def test_sources_go_by_relative_name_without_tests_and_packages(library):
    assert corpus_text(library) == b"<a.py><a/test/kept.py><a/z.py><b.py>"


@pytest.mark.usefixtures("no_topics")
def test_an_unreadable_source_is_left_out(library):
    (library / "aa.py").symlink_to(library / "nowhere")
    assert corpus_text(library) == b"<a.py><a/test/kept.py><a/z.py><b.py>"


@pytest.mark.usefixtures("no_topics")
def test_the_text_ends_at_its_limit(library, monkeypatch):
    monkeypatch.setattr(ngram, "_MAX_CORPUS_BYTES", 8)
    assert corpus_text(library) == b"<a.py><a"


def test_topics_stand_alone_without_sources(tmp_path):
    topics = corpus_text(tmp_path / "absent")
    assert b"yield" in topics
    assert corpus_text().startswith(topics)


@pytest.mark.usefixtures("no_topics")
def test_nothing_to_train_on_says_what_to_install(tmp_path):
    with pytest.raises(SimverifyError, match="install the full standard library"):
        corpus_text(tmp_path)


def test_every_sixteenth_chunk_is_held_out_and_the_tail_dropped():
    chunks = 2 * HELD_OUT_PERIOD + 3
    text = b"".join(bytes([i]) * CHUNK_BYTES for i in range(chunks)) + b"tail"
    training, held_out = split_corpus(text)
    assert (held_out == held_out[:, :1]).all()
    assert (training == training[:, :1]).all()
    np.testing.assert_array_equal(held_out[:, 0], [15, 31])
    np.testing.assert_array_equal(training[:, 0], [i for i in range(chunks) if i not in (15, 31)])


@pytest.mark.parametrize("name", ["toy", "compact", "markov-2", "markov-64", "markov-1000"])
def test_a_name_gives_the_model_of_that_name(name):
    model = get_model(name)
    assert model.name == name
    assert len(model.target([])) == len(model.draft([1])) == model.vocab_size


def test_every_built_in_has_a_line_that_says_what_it_is():
    assert set(BUILT_IN_MODELS) == {"toy", "compact", "markov-V", "ngram"}
    assert all(BUILT_IN_MODELS.values())


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
