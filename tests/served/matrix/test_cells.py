"""Planted engines on the bundled target: each wrong is named, each right one honoured."""

from dataclasses import replace

import pytest
from support.levels import at_night

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import PROMPTS  # noqa: E402
from support.processed_engine import (  # noqa: E402
    answers,
    everywhere,
    on_rows,
    sided,
)

from simverify.models.distribution import (  # noqa: E402
    STAGES,
    Law,
)
from simverify.models.transformer import load_pair  # noqa: E402
from simverify.served.matrix import (  # noqa: E402
    DEFAULT_GAMMAS,
    judge_cell,
    make_cells,
    make_pilot,
)

ALPHA, GAMMA = 1e-9, 3
WRONG = ("dropped", "first row only", "last row only")
SIDES = {
    "draws alone": {"drawn"},
    "rows, not draws": {"judged", "accept", "residual"},
    "draws, not their rows": {"drawn", "accept", "residual"},
    "acceptance alone": {"accept"},
    "residual alone": {"residual"},
}


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


@pytest.fixture(scope="module")
def cells(pair):
    found = make_cells(make_pilot(PROMPTS, pair), STAGES, (GAMMA,), drafted=True)
    return {cell.name: cell for cell in found}


def plain(law, cell):
    """The law without what a cell asks for."""
    for name in cell.name.replace("-", "_").split(" before "):
        law = replace(law, **{name: getattr(Law(), name)})
    return law


def judged(pair, cell, laws, tokens, start=None, length=32, **more):
    ids = [tuple(pair.encode(text)) for text in cell.prompts or PROMPTS]
    length = min(length, cell.max_tokens or length)
    lanes = [ids[i % len(ids)] for i in range(tokens // length)]
    found = answers(
        pair, lanes, laws, gamma=GAMMA, length=length, start=start or cell.law, **more
    )  # fmt: skip
    return judge_cell(cell, found, pair, True, ALPHA, 1e-6, 0)


CELLS = (
    "temperature", "top-k", "top-p", "min-p", "typical-p", "repetition-penalty",
    "presence-penalty", "frequency-penalty", "logit-bias", "bad-words", "min-tokens",
    "temperature before top-p", "temperature before min-p", "top-k before top-p",
    "presence-penalty before temperature", "repetition-penalty before presence-penalty",
    "logit-bias before top-k",
)  # fmt: skip
DAILY = ("top-k", "temperature before top-p")


@pytest.mark.thorough
def test_every_cell_is_there(cells):
    assert tuple(cells) == CELLS


@pytest.mark.distribution
@pytest.mark.parametrize("name", at_night(CELLS, but=DAILY))
@pytest.mark.thorough
def test_an_engine_that_honours_is_never_named(pair, cells, name):
    found = judged(pair, cells[name], everywhere(cells[name].law), 1024)
    assert "honoured" in found.left
    assert found.outcome in ("honoured", "inconclusive")
    if name in DAILY:
        assert found.outcome == "honoured"
        assert found.found is not None


@pytest.mark.distribution
@pytest.mark.parametrize("wrong", at_night(WRONG, but=("dropped", "last row only")))
@pytest.mark.parametrize("name", at_night(CELLS, but=DAILY[:1]))
@pytest.mark.thorough
def test_an_engine_that_does_not_is_never_honoured(pair, cells, name, wrong):
    cell = cells[name]
    raw = plain(cell.law, cell)
    laws = {
        "dropped": everywhere(raw),
        "first row only": on_rows(cell.law, raw, GAMMA, {0}),
        "last row only": on_rows(cell.law, raw, GAMMA, {GAMMA}),
    }[wrong]
    found = judged(pair, cell, laws, 2048, start=raw if wrong == "dropped" else None)
    if name == "min-tokens" and wrong == "first row only":
        assert found.outcome != "dropped"  # a request is at its eighth token after few blocks
        return
    assert found.outcome not in ("honoured", "inconclusive")
    assert wrong in found.left or found.outcome == "other"
    if name in DAILY[:1]:  # of others two or three laws may be left: "not honoured"
        assert found.outcome == wrong


@pytest.mark.distribution
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", at_night(("temperature", "top-p", "logit-bias"), but=()))
def test_one_side_alone_is_named(pair, cells, name, side):
    cell = cells[name]
    laws = sided(cell.law, plain(cell.law, cell), SIDES[side])
    found = judged(pair, cell, laws, 2048)
    assert found.outcome not in ("honoured", "inconclusive")
    assert "one side" in found.left


@pytest.mark.distribution
@pytest.mark.thorough
def test_one_side_alone_is_named_of_top_k(pair, cells):
    cell = cells["top-k"]
    laws = sided(cell.law, plain(cell.law, cell), SIDES["acceptance alone"])
    found = judged(pair, cell, laws, 1024)
    assert (found.outcome, found.words.split(",")[0]) == ("one side", "the acceptance alone")


@pytest.mark.distribution
@pytest.mark.thorough
def test_another_order_is_named(pair, cells):
    cell = cells["temperature before top-p"]
    swap = {"temperature": "top-p", "top-p": "temperature"}
    other = replace(cell.law, order=tuple(swap.get(stage, stage) for stage in STAGES))
    found = judged(pair, cell, everywhere(other), 2048, start=other)
    assert (found.outcome, found.words) == ("wrong order", "top-p before temperature")


@pytest.mark.distribution
@pytest.mark.thorough
def test_what_is_none_of_the_laws_is_other(pair, cells):
    cell = cells["top-k"]
    other = replace(cell.law, top_k=(cell.law.top_k or 0) + 40, temperature=1.6)
    assert judged(pair, cell, everywhere(other), 1024, start=other).outcome == "other"


@pytest.mark.distribution
@pytest.mark.slow
def test_penalties_that_count_the_prompt_are_named(pair, cells):
    cell = cells["frequency-penalty"]

    def whole(prompt, out):
        return (), (*prompt, *out), len(prompt) + len(out)

    found = judged(pair, cell, everywhere(cell.law), 4096, context=whole)
    assert (found.outcome, found.words) == ("other", "counts the prompt, too")


@pytest.mark.distribution
@pytest.mark.parametrize("window", [20, 64])
@pytest.mark.slow
def test_penalties_that_count_the_last_tokens_alone_are_named(pair, cells, window):
    cell = cells["repetition-penalty"]

    def last(prompt, out):
        own = (*prompt, *out)[-window:]
        return own, own, len(own)

    found = judged(pair, cell, everywhere(cell.law), 2048, context=last)
    words = f"counts the last {window} tokens alone, the prompt's too"
    assert (found.outcome, found.words) == ("other", words)


PENALTIES = ("repetition-penalty", "presence-penalty", "frequency-penalty")


@pytest.fixture(scope="module")
def unknown_blocks(pair):
    """The cells of a server whose draft and draft length nobody knows."""
    pilot = make_pilot(PROMPTS, pair)
    return {cell.name: cell for cell in make_cells(pilot, STAGES, DEFAULT_GAMMAS, drafted=False)}


@pytest.mark.distribution
@pytest.mark.parametrize("name", at_night(PENALTIES, but=("presence-penalty",)))
@pytest.mark.thorough
def test_penalties_that_see_no_drafts_of_their_block_are_named(pair, cells, unknown_blocks, name):
    """The directed request: two words that repeat, at a low temperature, in short answers."""
    for own, drafted in ((cells[name], True), (unknown_blocks[name], False)):
        assert (own.max_tokens, len(own.prompts)) == (8, 64)
        ids = [tuple(pair.encode(text)) for text in own.prompts]
        # Where nobody knows how long blocks are, "first row only" takes more answers to rule out.
        lanes = [ids[i % len(ids)] for i in range(128 if drafted else 192)]
        for blind in (True, False):
            found = answers(
                pair, lanes, everywhere(own.law), gamma=GAMMA, length=8, start=own.law, blind=blind
            )
            cell = judge_cell(own, found, pair, drafted, ALPHA, 1e-6, 0)
            if blind:
                assert "honoured" not in cell.left, cell
                assert (cell.outcome, cell.words) == ("other", "counts no draft of its own block")
            else:
                assert "honoured" in cell.left
                assert cell.outcome in ("honoured", "inconclusive"), cell
