import sys

import numpy as np
import pytest

from simverify.errors import SimverifyError
from simverify.models import corpus
from simverify.models.corpus import CHUNK, HELD_OUT_PERIOD, corpus_text, split


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
    monkeypatch.setattr(corpus, "_MOST_BYTES", 8)
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
    text = b"".join(bytes([i]) * CHUNK for i in range(chunks)) + b"tail"
    training, held_out = split(text)
    assert (held_out == held_out[:, :1]).all()
    assert (training == training[:, :1]).all()
    np.testing.assert_array_equal(held_out[:, 0], [15, 31])
    np.testing.assert_array_equal(training[:, 0], [i for i in range(chunks) if i not in (15, 31)])
