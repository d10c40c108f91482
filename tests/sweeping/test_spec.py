"""What a sweep is asked for: lists, their product, their shards, and what is refused."""

import time
import tracemalloc

import msgspec
import pytest

from simverify.api.compare import DEFAULT_MODELS, DEFAULT_VERIFIERS
from simverify.api.surveys import build_spec
from simverify.errors import UsageError
from simverify.sweeping.run import run_sweep
from simverify.sweeping.spec import SweepSpec, current_versions

GRID = {
    "models": ("toy", "markov-8"),
    "verifiers": ("token", "greedy"),
    "gamma": (2, 4),
    "temperature": (0.5, 1.0),
    "distance": (0.1, 0.4),
    "seeds": (0, 7),
}


def test_the_cells_are_the_product_of_the_lists():
    """A knob of markov-V makes no second cell of toy, which has none."""
    cells = list(SweepSpec(**GRID).cells())
    assert len(cells) == SweepSpec(**GRID).number_of_cells == 8 + 4 * 8
    assert len({cell.name for cell in cells}) == 40
    assert [cell.index for cell in cells] == list(range(40))
    assert {(cell.temperature, cell.distance) for cell in cells if cell.model == "toy"} == {
        (None, None)
    }


def test_the_shards_are_counted_without_making_them():
    spec = SweepSpec(**GRID, blocks=1001, shard=100, audits=("match",), audit_gamma=(1, 2))
    each = sum(len(cell.parts) * spec.shards for cell in spec.cells())
    assert len(list(spec.audit_cells())) == 4
    assert spec.number_of_shards == each + 4 == 20 * 11 + 20 * 22 + 4
    covered = [spec.trials(shard, shard + 1) for shard in range(spec.shards)]
    assert covered[0] == (0, 100)
    assert covered[-1] == (1000, 1)
    assert sum(trials for _, trials in covered) == spec.blocks
    assert next(spec.audit_cells()).index == spec.number_of_cells


def test_a_million_shards_are_planned_without_a_list_of_them():
    spec = SweepSpec(**GRID, blocks=10**10, shard=10**5)
    tracemalloc.start()
    began = time.process_time()
    assert spec.number_of_shards == 6_000_000
    next(spec.cells())
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gamma": ()}, "gamma is missing"),
        ({"gamma": (2, 2)}, "gamma names 2 twice"),
        ({"gamma": (0,)}, "gamma is 0: expected 1 to 64"),
        ({"seeds": (-1,)}, "seed is -1"),
        ({"seeds": ()}, "seeds is an empty list"),
        ({"verifiers": ("blok",)}, "did you mean 'block'"),
        ({"verifiers": ()}, "nothing to sweep"),
        ({"temperature": (-1.0,)}, "temperature is -1"),
        ({"distance": (2.0,)}, "distance is 2.0: expected 0 to 1"),
        ({"blocks": 1}, "blocks is 1: expected 2 to 10000000000"),
        ({"shard": 0}, "shard is 0"),
        ({"alpha": 1.0}, "alpha is 1.0"),
        ({"audit_gamma": (9,)}, "audit_gamma is 9: expected 1 to 4"),
        ({"scheme": ("top-k",)}, "scheme is for several drafts: name drafts, such as 2, too"),
        ({"scheme": ()}, "scheme is"),
        ({"drafts": (2, 2)}, "drafts names 2 twice"),
        ({"drafts": (0,)}, "--drafts is 0: expected 1 to 64"),
        ({"drafts": (2,)}, "greedy is for a single draft"),
        ({"drafts": (2,), "scheme": ("sorted",)}, "unknown .*scheme 'sorted'"),
        ({"drafts": (2,), "verifiers": ("naive",), "scheme": ("top-k",)}, "naive is not lossless"),
    ],
)
def test_what_does_not_fit_is_named(change, words):
    with pytest.raises(UsageError, match=words):
        SweepSpec(**(GRID | change))


@pytest.mark.parametrize(
    "given", [{"gamma": (2,)}, {"temperature": (0.5,)}, {"drafts": (2,)}, {"verifiers": ("block",)}]
)
def test_what_audits_have_none_of_is_refused(given):
    SweepSpec(audits=("a.py:f",))
    with pytest.raises(UsageError, match=f"{next(iter(given))} is for comparisons: name models"):
        SweepSpec(audits=("a.py:f",), **given)


def test_drafts_and_schemes_span_cells_too():
    """Of a rule without a kernel nothing is counted before it is judged."""
    spec = SweepSpec(
        models=("toy", "ngram"), verifiers=("gbv", "match", "token"), gamma=(1, 2), drafts=(1, 2),
        scheme=("iid",), blocks=900, shard=300,
    )  # fmt: skip
    cells = list(spec.cells())
    assert len(cells) == spec.number_of_cells == 2 * 2 * 2 * 3
    assert [(cell.drafts, cell.scheme) for cell in cells[:4]] == [(1, "iid")] * 3 + [(2, "iid")]
    assert len({cell.name for cell in cells}) == len(cells)
    parts = {(cell.model, cell.verifier): cell.parts for cell in cells}
    assert parts["toy", "gbv"] == parts["ngram", "token"] == ("run",)
    assert parts["ngram", "gbv"] == ()
    assert spec.number_of_shards == sum(len(cell.parts) * spec.shards for cell in cells)
    assert cells[3].drafting.shape.depth == 1
    assert next(SweepSpec(**GRID).cells()).drafting is None


def test_with_drafts_the_rules_are_those_lossless_on_all_trees():
    asked = {"models": "toy", "gamma": 2, "drafts": "1,2", "scheme": "without-replacement"}
    every = build_spec(None, asked).verifiers
    assert "traversal-without-replacement" in every
    assert "traversal" not in every  # it takes the siblings for independent
    assert "block" in build_spec(None, {"models": "toy", "gamma": 2}).verifiers


def test_the_keys_of_a_file(tmp_path):
    file = tmp_path / "grid.toml"
    file.write_text('models = "toy"\nverifiers = ["token"]\ngamma = [2, 4]\naudit-gamma = 1\n')
    found = build_spec(file, {"gamma": "8", "seeds": None, "blocks": 1000})
    assert found == SweepSpec(
        models=("toy",), verifiers=("token",), gamma=(8,), audit_gamma=(1,), blocks=1000
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gama = 2", "unknown key in .*grid.toml 'gama': did you mean 'gamma'"),
        ("gamma = 2.5", "gamma is 2.5: expected whole numbers, one or a list"),
        ("gamma = [true]", "expected whole numbers"),
        ("gamma = '2,x'", "gamma is '2,x': expected whole numbers"),
        ("distance = ['a']", "expected numbers"),
        ("models = [1]", "expected names"),
        ("models = ''", "expected names"),
        ("blocks = 1e6", "blocks is 1000000.0: expected a whole number"),
        ("alpha = 'x'", "alpha is 'x': expected a number"),
        ("gamma = ", "is not TOML"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(tmp_path, line, words):
    file = tmp_path / "grid.toml"
    file.write_text(line)
    with pytest.raises(UsageError, match=words):
        build_spec(file, {})


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        build_spec(tmp_path / "none.toml", {})


def test_defaults_are_those_of_compare_unless_only_audits_are_named():
    found = build_spec(None, {"gamma": 4})
    assert (found.models, found.verifiers) == (DEFAULT_MODELS, DEFAULT_VERIFIERS)
    assert build_spec(None, {"audits": "a.py:x,b.py:y"}) == SweepSpec(audits=("a.py:x", "b.py:y"))


def test_the_command_asks_for_the_same():
    import shlex

    spec = SweepSpec(**GRID, blocks=500, alpha=1e-3)
    words = shlex.split(spec.command())[2:]
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert given.pop("--out") == "FOLDER"
    keys = {name.removeprefix("--").replace("-", "_"): value for name, value in given.items()}
    numbers = {"blocks": int(keys.pop("blocks")), "alpha": float(keys.pop("alpha"))}
    assert build_spec(None, keys | numbers) == spec


def test_files_that_a_sweep_names_are_hashed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.json").write_text("{}")
    spec = SweepSpec(
        models=("own.json", "toy"), verifiers=("block",), gamma=(1,), audits=("x.py:y",)
    )
    before = spec.files()
    assert before.keys() == {"own.json", "x.py"}
    assert before["x.py"] is None
    (tmp_path / "own.json").write_text("{ }")
    assert spec.files()["own.json"] != before["own.json"]


# A sweep goes on, and a worker helps, with the sources and libraries it was begun with alone.


def test_a_folder_of_another_sweep_is_refused(spec, ends_as_expected, tmp_path, monkeypatch):
    out = tmp_path / "sweep"
    ends_as_expected(out)
    more = msgspec.structs.replace(spec, gamma=(2, 3))
    with pytest.raises(UsageError, match="its gamma is 2, here 2, 3"):
        run_sweep(more, out, executor="threads")
    for change, words in (
        ({"numpy": "9.9"}, r"numpy .* there, 9\.9 here"),
        ({"code": "0"}, "other code"),
    ):
        other = msgspec.structs.replace(current_versions(), **change)
        monkeypatch.setattr("simverify.sweeping.run.current_versions", lambda other=other: other)
        with pytest.raises(UsageError, match=words):
            run_sweep(spec, out, executor="threads")


def test_a_worker_of_other_code_refuses(spec, tmp_path, monkeypatch):
    other = msgspec.structs.replace(current_versions(), scipy="9.9")
    monkeypatch.setattr("simverify.sweeping.tasks.current_versions", lambda: other)
    with pytest.raises(UsageError, match=r"a worker has other versions: scipy 9\.9 there"):
        run_sweep(spec, tmp_path / "sweep", executor="threads")
