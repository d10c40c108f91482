from collections import Counter

import numpy as np
import pytest

from simverify import folders
from simverify.models import ngram
from simverify.models.ngram import CHUNK_BYTES, corpus_text, load_ngram, split_corpus, train_ngram

PREFIXES = [
    b"",
    b"t",
    b"\xff",
    b"he",
    b"t\xff",
    b"the",
    b"\xffhe",
    b"the ",
    b"and a long prefix of the ",
    b"qzxj",
    b"\xff\xfe\xfd\xfc",
    b"\xfehe ",
]


@pytest.fixture(scope="module")
def text():
    return corpus_text()[:100_000]


@pytest.fixture(scope="module")
def model(text):
    return train_ngram(text)


@pytest.fixture(scope="module")
def followers(text):
    """context -> counts of the byte after it, from raw windows of each training chunk."""
    training, _ = split_corpus(text)
    table = {}
    for chunk in training.tolist():
        for i in range(len(chunk)):
            for length in range(min(i, 4) + 1):
                table.setdefault(tuple(chunk[i - length : i]), Counter())[chunk[i]] += 1
    return table


def witten_bell(followers, context):
    """The recursion as the literature states it: lambda c/N + (1 - lambda) P(. | shorter)."""
    lower = witten_bell(followers, context[1:]) if context else [1 / 256] * 256
    counts = followers.get(tuple(context))
    if not counts:
        return lower
    weight = counts.total() / (counts.total() + len(counts))
    return [weight * counts[x] / counts.total() + (1 - weight) * lower[x] for x in range(256)]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_rows_are_witten_bell(model, followers, prefix):
    np.testing.assert_allclose(
        model.target(prefix), witten_bell(followers, prefix[-4:]), rtol=1e-12
    )
    np.testing.assert_allclose(model.draft(prefix), witten_bell(followers, prefix[-2:]), rtol=1e-12)


def test_the_oracle_tells_lengths_apart(model, followers):
    other = witten_bell(followers, b"he ")
    assert np.abs(model.target(b"the ") - other).max() > 1e-3
    assert np.abs(model.draft(b"the ") - other).max() > 1e-3


@pytest.mark.parametrize("prefix", PREFIXES)
def test_rows_are_fresh_positive_and_sum_to_one(model, prefix):
    for law in (model.target, model.draft):
        row = law(tuple(prefix))
        assert row.dtype == np.float64
        assert row.shape == (256,)
        assert (row > 0).all()
        assert abs(row.sum() - 1) < 1e-12
        row[:] = 0
        assert law(list(prefix)).sum() > 0


@pytest.mark.parametrize("token", [-1, 256])
def test_a_token_that_is_no_byte_is_refused(model, token):
    with pytest.raises(ValueError, match=f"token {token}: ngram's tokens are bytes"):
        model.target((1, token))


def test_a_short_text_is_refused():
    with pytest.raises(ValueError, match="65535 bytes"):
        train_ngram(b"x" * 65_535)


def test_perplexities_are_those_of_the_held_out_rows(model, text):
    _, held_out = split_corpus(text)
    chunk = held_out[0].tolist()
    assert len(held_out) == 1
    for law, expected in (
        (model.target, model.target_perplexity),
        (model.draft, model.draft_perplexity),
    ):
        logs = [np.log(law(chunk[i - 4 : i])[chunk[i]]) for i in range(4, len(chunk))]
        assert np.exp(-np.mean(logs)) == pytest.approx(expected, rel=1e-9)


def test_contexts_come_from_held_out_text(model, text):
    _, held_out = split_corpus(text)
    windows = np.lib.stride_tricks.sliding_window_view(held_out[0], 4)
    np.testing.assert_array_equal(model.contexts, windows)


def test_nothing_is_counted_across_chunks_or_from_held_out_text():
    model = train_ngram(b"".join(bytes([i]) * CHUNK_BYTES for i in range(16)))
    for length, order in enumerate(model.orders, 1):
        ones = sum(256**k for k in range(length))
        np.testing.assert_array_equal(order.codes, [i * ones for i in range(15)])
        np.testing.assert_array_equal(order.counts, CHUNK_BYTES - length + 1)


class TestCache:
    @pytest.fixture(autouse=True)
    def _small_text(self, monkeypatch, tmp_path, text):
        self.folder = tmp_path / "cache"
        self.said = []
        monkeypatch.setenv("SIMVERIFY_CACHE_DIR", str(self.folder))
        monkeypatch.setattr(ngram, "corpus_text", lambda: text)

    def load(self):
        self.said.clear()
        return load_ngram(announce=self.said.append)

    def test_a_second_load_reads_what_the_first_wrote(self, model):
        first = self.load()
        assert self.said == ["training ngram on 0.1 MB of Python's own text ..."]
        second = self.load()
        assert self.said == []
        for loaded in (first, second):
            assert loaded.corpus_sha256 == model.corpus_sha256
            assert loaded.target_perplexity == model.target_perplexity
            assert loaded.draft_perplexity == model.draft_perplexity
            np.testing.assert_array_equal(loaded.contexts, model.contexts)
            for prefix in PREFIXES:
                np.testing.assert_array_equal(loaded.target(prefix), model.target(prefix))
        assert len(list((self.folder / "ngram").iterdir())) == 1

    @pytest.mark.parametrize("damage", ["empty", "foreign", "cut", "bit", "other corpus"])
    def test_a_damaged_file_is_replaced(self, model, damage):
        self.load()
        (path,) = (self.folder / "ngram").iterdir()
        whole = path.read_bytes()
        if damage == "other corpus":
            np.savez(path, corpus_sha256=np.array("0" * 64))
        else:
            middle = len(whole) // 2
            flipped = bytes([whole[middle] ^ 1])
            path.write_bytes(
                {
                    "empty": b"",
                    "foreign": b"not a file of ours",
                    "cut": whole[:middle],
                    "bit": whole[:middle] + flipped + whole[middle + 1 :],
                }[damage]
            )
        loaded = self.load()
        assert len(self.said) == 1
        np.testing.assert_array_equal(loaded.target(b"the "), model.target(b"the "))
        assert path.read_bytes() == whole
        assert len(list((self.folder / "ngram").iterdir())) == 1

    def test_a_folder_that_cannot_be_made_is_no_error(self, monkeypatch, tmp_path):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("SIMVERIFY_CACHE_DIR", str(tmp_path / "file" / "cache"))
        for _ in range(2):
            self.load()
            assert len(self.said) == 1

    def test_a_write_that_fails_leaves_nothing_behind(self, monkeypatch):
        def refuse(*_):
            raise PermissionError("read-only")

        monkeypatch.setattr(ngram.os, "replace", refuse)
        self.load()
        assert list((self.folder / "ngram").iterdir()) == []

    def test_another_text_has_a_file_of_its_own(self, monkeypatch, text):
        self.load()
        monkeypatch.setattr(ngram, "corpus_text", lambda: text + b"!")
        self.load()
        assert len(self.said) == 1
        assert len(list((self.folder / "ngram").iterdir())) == 2

    def test_the_users_cache_folder_is_the_default(self, monkeypatch, tmp_path):
        monkeypatch.delenv("SIMVERIFY_CACHE_DIR")
        monkeypatch.setattr(folders.platformdirs, "user_cache_path", lambda name: tmp_path / name)
        self.load()
        assert len(list((tmp_path / "simverify" / "ngram").iterdir())) == 1
