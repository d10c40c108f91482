"""Prompts from files."""

import pytest

from simverify.errors import UsageError
from simverify.models.real.prompts import read_prompts
from simverify.models.real.transformer import BUNDLED


@pytest.mark.parametrize(
    ("name", "text", "prompts"),
    [
        ("p.txt", "one\ntwo\n\n\n three\r\n\r\nfour", ("one\ntwo", "three", "four")),
        ("p.jsonl", '{"prompt": "a"}\n\n{"text": "b"}\n', ("a", "b")),
        ("p.txt", "\ufeffone\n\ntwo", ("one", "two")),
        ("p.jsonl", '\ufeff{"prompt": "a\u2028b"}\n', ("a\u2028b",)),
        ("question.jsonl", '{"question_id": 1, "category": "x", "turns": ["a", "b"]}', ("a",)),
    ],
)
def test_layouts(tmp_path, name, text, prompts):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_prompts(tmp_path / name) == prompts


def test_the_bundled_ones():
    assert len(read_prompts(BUNDLED / "prompts.jsonl")) == 48


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("p.txt", "\n\n", "holds none"),
        ("p.jsonl", "", "holds none"),
        ("p.jsonl", '{"prompt": "a"}\n{', "line 2 is no JSON"),
        ("p.jsonl", '["a"]', "line 1 is no object with one of prompt, text, turns"),
        ("p.jsonl", '{"prompt": 3}', "'prompt' holds no string"),
        (
            "p.jsonl",
            '{"turns": ["a\\ud800"]}',
            "'turns' is no Unicode text: .* character 1",
        ),
        ("p.jsonl", "[" * 100_000, "line 1 is no JSON"),
        ("p.jsonl", '{"turns": []}', "'turns' holds no string"),
    ],
)
def test_a_file_without_prompts_is_refused(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=says):
        read_prompts(tmp_path / name)


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .*: No such file"):
        read_prompts(tmp_path / "no.txt")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        read_prompts(tmp_path / "latin.txt")
