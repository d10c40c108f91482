"""Which answers of two engines are compared, in which units, and what is no answer."""

import pytest
from support.two_engines import said

from simverify.emitted.against import paired, read_answers
from simverify.errors import UsageError


def test_the_finest_units_that_both_have_are_compared():
    ids = said(tokens=[1, 2], pieces=["a", "b"], text="ab")
    assert paired([ids], [ids]).groups == ((((1, 2), (1, 2)),),)
    assert paired([ids], [said(pieces=["a"])]).kind == "token texts"
    text = paired([said(text="two words, then")], [ids])
    assert text.groups[0][0] == (("two", " words", ",", " then"), ("ab",))
    with pytest.raises(UsageError, match="token ids and the other text alone"):
        paired([said(tokens=[1])], [said(text="a")])


def test_the_end_counts_and_is_alike_whether_its_token_is_shown():
    shown = [said(tokens=[7, 0], finish_reason="stop"), said(tokens=[8, 0], finish_reason="stop")]
    hidden = [said(tokens=[7], finish_reason="stop"), said(tokens=[8], finish_reason="stop")]
    ((first, second),) = paired(shown, hidden).groups
    assert first[0] == first[1] == (7, "")
    assert second[0] == second[1] == (8, "")
    ((cut,),) = paired([said(tokens=[7])], [said(tokens=[7], finish_reason="length")]).groups
    assert cut == ((7,), (7,))


def test_answers_are_paired_by_their_prompt():
    first = [said("x", tokens=[1]), said("y", tokens=[2]), said("x", tokens=[3])]
    second = [said("y", tokens=[4]), said("x", tokens=[5]), said("z", tokens=[6])]
    pairs = paired(first, second)
    assert pairs.prompts == ("x", "y")
    assert pairs.groups == ((((1,), (5,)),), (((2,), (4,)),))
    assert pairs.left_out == 2


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{}", "has no prompt"),
        ("[]", "has no prompt"),
        ('{"prompt": "x"}', "neither tokens"),
        ('{"prompt": "x", "tokens": [1.5]}', "tokens is no list of token ids"),
        ('{"prompt": "x", "pieces": [1]}', "pieces is no list of texts"),
        ('{"prompt": "x", "text": 5}', "text is int"),
        ('{"prompt": "x", "text": "a", "finish_reason": "abort"}', 'ended by "abort"'),
        ("", "holds no answer"),
    ],
)
def test_a_line_that_is_no_answer_is_named(tmp_path, line, says):
    (tmp_path / "a.jsonl").write_text(line + "\n")
    with pytest.raises(UsageError, match=says) as error:
        read_answers(tmp_path / "a.jsonl", "outputs")
    assert "\n" not in str(error.value)


def test_two_that_were_asked_otherwise_are_not_compared():
    hot, cold = ({"temperature": t, "model": str(t), "top_k": k} for t, k in ((1.0, -1), (0.8, 0)))
    with pytest.raises(UsageError, match=r"temperature 1\.0, the second with 0\.8"):
        paired([said(tokens=[1], asked=hot)], [said(tokens=[1], asked=cold)])
    same = cold | {"temperature": 1.0}
    assert paired([said(tokens=[1], asked=hot)], [said(tokens=[1], asked=same)]).n == 1
    with pytest.raises(UsageError, match="no prompt in common"):
        paired([said("x", tokens=[1])], [said("y", tokens=[1])])
