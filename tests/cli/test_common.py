"""What commands share, called by itself: what is refused before a run, what is lost after one."""

import pytest

from simverify.cli.common import check_output, deliver, tell
from simverify.errors import UsageError
from simverify.record import store


def test_a_folder_for_reports_that_cannot_be_made_is_refused_before_the_run(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file"):
        check_output(None, tmp_path / "file" / "reports")
    check_output(None, tmp_path / "reports")
    assert (tmp_path / "reports").is_dir()


@pytest.mark.parametrize("where", [{"json": "run.json"}, {"report": "reports"}])
def test_a_name_that_no_file_can_hold_is_refused_before_the_run(where):
    def make(_say):
        pytest.fail("it was run")

    with pytest.raises(UsageError, match="is not UTF-8"):
        tell(make, **{"json": None, "report": None} | where, quiet=True, names=["\udcff"])


def test_a_store_that_takes_no_run_takes_no_verdict(monkeypatch, tmp_path, capsys):
    def full(*_):
        raise UsageError("the disk is full")

    monkeypatch.setattr(store, "store_path", lambda: tmp_path / "runs.db")
    monkeypatch.setattr(store, "add", full)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert deliver(None, None)
    assert capsys.readouterr() == ("", "simverify: not recorded: the disk is full\n")
