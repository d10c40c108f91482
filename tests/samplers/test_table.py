"""The table of ``simverify generators``: what the installed libraries do today."""

import itertools
from contextlib import suppress
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from docs.examples import ROOT
from scipy import special
from support.pages.scripts import load

from simverify.errors import UsageError
from simverify.samplers import array_libraries, base, catalogue, compiled, judge, runtimes, uniforms
from simverify.samplers.catalogue import (
    DRAW_FUNCTIONS,
    GENERATORS,
    SAMPLERS,
    STREAMS,
    check_installed,
    installed_version,
)

measuring = load(ROOT / "benchmarks" / "generators.py")
TABLE = catalogue.measured_table()


def installed(package):
    """Skip where the table is of another version than the one that is here."""
    here = installed_version(package)
    if here != TABLE.versions[package]:
        pytest.skip(f"{package} {here} is not in the table")


def test_everything_is_in_the_table():
    uniform = {(one.name, dtype) for one in GENERATORS for dtype in one.dtypes}
    assert {(one.grid.name, one.grid.dtype) for one in TABLE.uniforms} == uniform
    samplers = {(one.name, dtype) for one in SAMPLERS.values() for dtype in one.dtypes}
    assert {(one.name, one.dtype) for one in TABLE.samplers} == samplers
    for one in TABLE.samplers:
        assert len(one.rows) == len(judge.ROWS) * len(catalogue.VOCABULARIES)
    assert [one.name for one in TABLE.draws] == [one.name for one in DRAW_FUNCTIONS]
    pairs = [(one.package, one.setting, *pair) for one in STREAMS for pair in one.pairs]
    assert [(one.package, one.setting, one.one, one.other) for one in TABLE.streams] == pairs


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda one: one.name)
def test_generators_are_what_the_table_says(generator):
    installed(generator.package)
    seeds = measuring.seeds_of(generator)
    for known in TABLE.uniforms:
        if known.grid.name == generator.name:
            assert uniforms.measure_grid(generator, known.grid.dtype) == known.grid
            assert known.seeds == seeds


@pytest.mark.parametrize("known", TABLE.samplers, ids=lambda one: f"{one.name}-{one.dtype}")
def test_samplers_are_what_the_table_says(known):
    installed(known.package)
    sampler = SAMPLERS[known.name]
    assert measuring.strange_rows(sampler, known.dtype) == known.strange
    for row in known.rows:
        if row.tv is None or row.vocab == max(catalogue.VOCABULARIES):
            continue
        made = judge.make_row(row.row, row.vocab)
        law = judge.exact_law(sampler, made, known.dtype)
        given = sampler.cast(made, known.dtype)
        assert judge.total_variation(law, given) == pytest.approx(row.tv, rel=1e-6, abs=1e-15)
        assert int(((law == 0) & (given > 0)).sum()) == row.never


def test_a_version_that_is_not_in_the_table_is_said_so(monkeypatch):
    from simverify.reports import samplers as shown

    assert shown.version_words("numpy") == f"numpy {TABLE.versions['numpy']}"
    monkeypatch.setitem(TABLE.versions, "numpy", "1.0")
    assert "which is not in the table" in shown.version_words("numpy")
    assert catalogue.known_versions("numpy") == ("1.0",)
    assert catalogue.known_versions("no library") == ()


@pytest.mark.parametrize("streams", STREAMS, ids=lambda one: f"{one.package}-{one.setting}")
def test_streams_are_what_the_table_says(streams):
    installed(streams.package)
    known = [
        one
        for one in TABLE.streams
        if (one.package, one.setting) == (streams.package, streams.setting)
    ]
    assert list(uniforms.measure_streams(streams)) == known


def test_another_seed_shares_nothing():
    pairs = ("default_rng(5)", "default_rng(5)"), ("default_rng(5)", "default_rng(6)")
    streams = next(one for one in STREAMS if one.package == "numpy")
    measured = uniforms.measure_streams(replace(streams, pairs=pairs))
    assert [one.share for one in measured] == ["the same numbers", "distinct"]


def drawn(seed, count=1_024):
    return np.random.default_rng(seed).random(count)


def test_what_streams_share_is_told_apart():
    numbers = drawn(1)
    for other, words in (
        (numbers.copy(), "the same numbers"),
        (drawn(1, 1_100)[76:], "the second is the first from number 76 on"),
        (np.concatenate([drawn(2)[:1_000], numbers[:24]]), "24 numbers in common"),
        (drawn(2), "distinct"),
    ):
        assert uniforms.shared_words(numbers, other) == words


def test_words_that_become_one_are_counted():
    """A float32 of a word of 32 bits is 1 from 2^32 - 128 on, unless the library forbids it."""
    for library, one in (("libc++", 128 / 2**32), ("libstdc++", 0)):
        if installed_version(library) is not None:
            assert compiled._cpp_ends(library, "generate_canonical", "float32")[1] == one


def test_a_compiler_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(compiled, "_said", lambda *_arguments, **_more: None)
    monkeypatch.setattr(compiled, "compiled_version", compiled.compiled_version.__wrapped__)
    for name, needed in (
        ("libstdc++.discrete_distribution", "install g"),
        ("rust.rand.WeightedIndex", "install cargo"),
    ):
        with pytest.raises(UsageError, match=needed):
            check_installed(SAMPLERS[name])


@pytest.mark.parametrize("draw", DRAW_FUNCTIONS, ids=lambda one: one.name)
def test_integers_are_what_the_table_says(draw):
    installed(draw.package)
    known = next(one for one in TABLE.draws if one.name == draw.name)
    made = measuring.measured_draw(draw)
    assert made.unusual_calls == known.unusual_calls
    assert made.method == known.method
    for new, old in zip(made.calls, known.calls, strict=True):
        same = {"tv": None, "detectable": None}
        assert msgspec.structs.replace(new, **same) == msgspec.structs.replace(old, **same)
        for one, other in ((new.tv, old.tv), (new.detectable, old.detectable)):
            assert one == other or one == pytest.approx(other, rel=1e-6, abs=1e-15)
        # What follows the seed is known, or the method is from the source.
        assert new.replayed is not False


def test_what_is_off_is_known():
    """A test rejects the law of six calls and of no other; each has a TV that was counted."""
    off = {(draw.name, call.call) for draw in TABLE.draws for call in draw.calls if call.rejected}
    assert off == {
        ("numpy.Generator.zipf", "zipf(1.01)"),
        ("numpy.RandomState.zipf", "zipf(1.01)"),
        ("jax.random.randint", "randint(0, 1610612736)"),
        ("jax.random.bernoulli", "bernoulli(0.001, 'float16')"),
        ("jax.random.bernoulli", "bernoulli(0.001, 'bfloat16')"),
        ("mlx.random.randint", "randint(2**29, 2**30)"),
    }
    for draw in TABLE.draws:
        for call in draw.calls:
            assert not call.rejected or call.tv > 9e-4


ORDERS = list(itertools.permutations(range(4)))
DRAWN = {draw.name: draw for draw in DRAW_FUNCTIONS}
WRONG = [
    ("numpy.Generator.integers", lambda: base.uniform_law(11)),
    ("numpy.Generator.binomial", lambda: base.scipy_law("binom", 20, 0.31)),
    ("numpy.Generator.geometric", lambda: base.scipy_law("geom", 0.49)),
    ("numpy.Generator.poisson", lambda: base.scipy_law("poisson", 3.6)),
    ("numpy.RandomState.zipf", lambda: uniforms._zipf_law(1.9)),
    ("numpy.Generator.shuffle", lambda: base.outcome_law(ORDERS[1:], np.full(23, 1 / 23))),
    ("random.sample", lambda: base.order_law(3, 2)),
]


@pytest.mark.distribution
@pytest.mark.parametrize(("name", "law"), WRONG, ids=[name for name, _ in WRONG])
def test_another_law_is_rejected(name, law):
    draw = DRAWN[name]
    call = draw.calls[0]
    assert not judge.judge_call(draw, call).rejected
    assert judge.judge_call(draw, replace(call, law=law)).rejected


def test_a_replay_that_differs_leaves_no_exact_distance():
    draw = DRAWN["numpy.Generator.integers"]
    call = replace(draw.calls[0], expected_values=lambda count, _seed: np.zeros(count))
    judged = judge.judge_call(draw, call)
    assert (judged.replayed, judged.tv) == (False, None)
    assert judged.detectable > 0


def test_a_remainder_has_the_bias_of_all_words():
    words = np.arange(1 << 12)
    for count in (1, 7, 64, 1_000, 3_000, 4_095):
        law = np.bincount(words % count) / len(words)
        expected = np.abs(law - 1 / count).sum() / 2
        assert base.modulo_tv(12, count) == pytest.approx(expected, abs=1e-15)
    below = (words / len(words) < 0.3).mean()
    assert base.threshold_tv(0.3, 12) == pytest.approx(abs(below - 0.3), abs=1e-15)


def test_redrawn_words_favour_no_integer():
    """Each word of 6 bits once gives each integer equally often, or redraws."""
    for bits, size in itertools.product((6, uniforms._LOW_BITS), (2, 3, 10, 33, 63)):
        below, counts = uniforms._below(iter(range(64)).__next__, bits), np.zeros(size)
        with suppress(StopIteration):
            while True:
                counts[below(size)] += 1
        assert counts.min() == counts.max() > 0
    places = [iter(x) for x in itertools.product(range(4), range(3), range(2))]
    orders = [uniforms._from_the_end(lambda _size, x=x: next(x), 4) for x in places]
    assert sorted(map(tuple, orders)) == ORDERS


def test_lemire_favours_no_integer(monkeypatch):
    words = np.arange(1 << 12)
    monkeypatch.setattr(uniforms, "_WORD", 1 << 12)
    monkeypatch.setattr(uniforms, "_numpy_words", lambda *_given: words)
    for size in (2, 3, 10, 1_000, 4_095):
        kept = uniforms._replay_lemire(None, size, len(words), 0)
        counts = np.bincount(kept, minlength=size)
        assert counts.min() == counts.max() > 0
        assert uniforms._lemire_tv(size) == 0
    # Control: without redrawing some integers have a word more.
    assert len(set(np.bincount(words * 3 >> 12).tolist())) == 2


def test_a_permutation_of_torch_has_the_bias_of_three_remainders(monkeypatch):
    pytest.importorskip("torch")
    words = np.array(list(itertools.product(range(16), repeat=3))).ravel()
    monkeypatch.setattr(array_libraries, "_torch_words", lambda *_given: words)
    orders = array_libraries._replay_torch_orders(16**3, 0)
    _, counts = np.unique(orders, axis=0, return_counts=True)
    law = counts / 16**3
    assert np.abs(law - 1 / 24).sum() / 2 == pytest.approx(base.modulo_tv(4, 3), abs=1e-15)


def test_a_threshold_has_the_bits_of_the_uniform_numbers():
    bits = {(one.grid.name, one.grid.dtype): one.grid.bits for one in TABLE.uniforms}
    assert (bits["torch.rand", "float32"], bits["torch.rand", "float64"]) == (24, 53)
    for dtype, expected in array_libraries._JAX_BITS.items():
        assert bits["jax.random.uniform", dtype] == expected


def test_integers_that_mlx_skips_are_counted():
    pytest.importorskip("mlx")
    low, high = 1 << 24, (1 << 24) + 4_096
    index = runtimes._mlx_floors(low, high)
    law = judge.lookup_law(lambda u: index(u) - low, 4_096, 32)
    expected = judge.total_variation(law, np.full(4_096, 1 / 4_096))
    assert runtimes._mlx_sparse_tv(low, high) == pytest.approx(expected, abs=1e-6)
    assert expected == pytest.approx(0.5, abs=1e-3)
    # float32 numbers are 64 apart there; 2^30 - 1 comes out too, for the bound.
    wide = next(x for x in DRAWN["mlx.random.randint"].calls if "2**30" in x.expression)
    assert wide.tv() == pytest.approx(1 - 1 / 64 - 2**-29, abs=1e-12)


@pytest.mark.distribution
@pytest.mark.parametrize("kind", ["Generator", "RandomState"])
def test_zipf_lacks_what_it_redraws(kind):
    """All powers of 2 up to 2^63 - 1 get more than they should, and what is above gets nothing."""
    draw = DRAWN[f"numpy.{kind}.zipf"]
    edges = 2.0 ** np.arange(64)
    above = special.zeta(1.01, edges) / special.zeta(1.01)
    stated = -np.diff(np.append(above, 0))
    drawn = np.asarray(judge.call_values(draw, "zipf(1.01)", draw.count, 0), dtype=np.float64)
    counts = np.bincount(np.frexp(drawn)[1] - 1, minlength=64)[:64]
    assert counts.sum() + (drawn == 2**63).sum() == draw.count  # float64 rounds up to 2^63
    law = counts / draw.count
    assert (law > stated)[:-1].mean() > 0.9
    distance = judge.total_variation(law, stated)
    assert distance == pytest.approx(draw.calls[1].tv(), abs=0.005)


def test_jax_takes_half_of_its_words_for_a_large_range():
    pytest.importorskip("jax")
    call = DRAWN["jax.random.randint"].calls[2]
    installed("jax")
    both = replace(call, expected_values=lambda count, seed: wide_remainders(3 << 29, count, seed))
    assert judge.judge_call(DRAWN["jax.random.randint"], both).replayed is False
    assert call.tv() == pytest.approx(1 / 12)


def wide_remainders(size, count, seed):
    """Return what JAX's comments promise: the remainder of two words as one."""
    import jax

    high, low = (
        np.asarray(jax.random.bits(key, (count,))).astype(object)
        for key in jax.random.split(jax.random.key(seed))
    )
    return ((high * 2**32 + low) % size).astype(np.int64)


def test_unusual_parameters_are_put_in_words():
    draw = DRAWN["numpy.Generator.integers"]
    for words, expected in (
        ("integers(3, 4)", "3"),
        ("integers(3, 5)", "3 or 4"),
        ("integers(3, 9)", "3 to 8"),
        ("integers(4, 3)", "raises ValueError"),
        ("[nan, 1]", "1 or nan"),
        ("[]", "empty"),
    ):
        assert judge.unusual_words(draw, words) == expected
