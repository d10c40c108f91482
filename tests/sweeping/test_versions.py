"""A sweep goes on, and a worker helps, with the sources and libraries it was begun with alone."""

import msgspec
import pytest

from simverify.errors import UsageError
from simverify.sweeping.run import run_sweep
from simverify.sweeping.versions import versions


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
        other = msgspec.structs.replace(versions(), **change)
        monkeypatch.setattr("simverify.sweeping.run.versions", lambda other=other: other)
        with pytest.raises(UsageError, match=words):
            run_sweep(spec, out, executor="threads")


def test_a_worker_of_other_code_refuses(spec, tmp_path, monkeypatch):
    other = msgspec.structs.replace(versions(), scipy="9.9")
    monkeypatch.setattr("simverify.sweeping.tasks.versions", lambda: other)
    with pytest.raises(UsageError, match=r"a worker has other versions: scipy 9\.9 there"):
        run_sweep(spec, tmp_path / "sweep", executor="threads")
