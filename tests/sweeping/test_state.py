"""What a cell's file holds: records that are added up when they are many, or large, or stay."""

import msgspec
import pytest

from simverify.sweeping.folder import Folder
from simverify.sweeping.run import run_sweep
from simverify.sweeping.state import CellState


@pytest.mark.parametrize(
    ("limit", "most", "judged"),
    [("FOLD", 2, {False, True}), ("FOLD_BYTES", 1, {False}), ("KEPT_BYTES", 1, {True})],
)
def test_many_shards_and_large_ones_are_folded(
    spec, ends_as_expected, tmp_path, monkeypatch, limit, most, judged
):
    """Before a cell is judged where its counts are many, and after it where they stay."""
    folds = []
    fold = CellState._fold

    def counted(state):
        folds.append(state.result is not None)
        fold(state)

    monkeypatch.setattr(CellState, "_fold", counted)
    monkeypatch.setattr(f"simverify.sweeping.state.{limit}", most)
    ends_as_expected(tmp_path / "sweep")
    assert set(folds) == judged


def test_what_stays_of_large_counts_is_compressed(spec, tmp_path, monkeypatch):
    sizes = []
    spec = msgspec.structs.replace(spec, shard=spec.blocks)  # one record, which is not folded
    for most in (1 << 40, 1):
        monkeypatch.setattr("simverify.sweeping.state.KEPT_BYTES", most)
        out = tmp_path / str(most)
        run_sweep(spec, out, executor="threads", workers=1)
        cells = spec.cells()
        sizes.append(sum(Folder(out).cell_file(cell.index).stat().st_size for cell in cells))
    assert sizes[1] < sizes[0]
