"""The matrix from its cells to its document: each asked of the server, in turn, and judged."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from simverify import results as doc
from simverify.battery.judgement import stamped
from simverify.checks import MIN_ALPHA, ranges_iv
from simverify.emitted.judging.notes import other_prompt
from simverify.emitted.judging.repeats import Repeats, log_evalue
from simverify.emitted.judging.rounding import tried_rounding
from simverify.emitted.law import STAGES, Law, Mask
from simverify.emitted.matrix.asking import Asker, Unanswered
from simverify.emitted.matrix.cells import GAMMAS, Cell, cells_of, mask_cell
from simverify.emitted.matrix.comparison import Compared, Comparison
from simverify.emitted.matrix.pilot import pilot_of
from simverify.emitted.matrix.seeds import judge_seeds
from simverify.emitted.matrix.ways import Seen
from simverify.emitted.reading.chat import Prompt
from simverify.emitted.reading.requests import Request, first_tokens
from simverify.emitted.rescoring import BATCH, logits_before
from simverify.emitted.serving.server import Endpoint
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair

_LEAST_BALL = 1e-6
_COPIES = 0.1
"""Share of a cell's rate that is for answers from a cache."""

_SEEDS = 12
"""Prompts that are asked thrice for the seed."""


@dataclass(frozen=True)
class MatrixSettings:
    """How a matrix is asked and judged.

    ``tokens``: of each cell. ``gamma``: the engine's draft length; None tries some. ``cells``:
    names of those that are asked, all if empty. ``order``: in which the parameters are to act.
    ``mask``: structured output that is asked for in a cell of its own, by ``mask_body``.
    """

    tokens: int = 2048
    alpha: float = 1e-6
    ball: float | None = None
    gamma: int | None = None
    seed: int = 0
    cells: tuple[str, ...] = ()
    order: tuple[str, ...] = STAGES
    mask: Mask | None = None
    mask_body: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rules = (
            ("tokens", self.tokens, 16 <= self.tokens <= 10_000_000, "16 to 10000000"),
            ("alpha", self.alpha, MIN_ALPHA <= self.alpha < 1, f"{MIN_ALPHA:g} or more, below 1"),
            ("ball", self.ball, self.ball is None or 0 <= self.ball < 1, "0 or more, below 1"),
            ("gamma", self.gamma, self.gamma is None or 1 <= self.gamma <= 64, "1 to 64"),
            ("seed", self.seed, 0 <= self.seed < 2**64, "0 to 2^64 - 1"),
        )
        ranges_iv(rules)


def audit_matrix(
    endpoint: Endpoint,
    prompts: Sequence[Prompt],
    pair: TransformerPair,
    reproduce: str,
    settings: MatrixSettings | None = None,
    *,
    drafted: bool = False,
    keep: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> doc.MatrixRun:
    """Ask a server for each parameter at a value that matters, and name what it does with it.

    Parameters
    ----------
    pair
        The target; its draft is near the engine's own where ``drafted`` says so, and one-sided laws
        are computed from it.
    keep
        A folder that holds the answers of each cell; one that an earlier run began is gone on with.

    Raises
    ------
    UsageError
        If the server does not answer, or a cell is unknown.
    """
    settings, say, stamp = settings or MatrixSettings(), progress or (lambda _: None), stamped()
    gammas = GAMMAS if settings.gamma is None else (settings.gamma,)
    cells = list(cells_of(pilot_of(prompts, pair), settings.order, gammas, drafted))
    if settings.mask is not None:
        cells.append(mask_cell(settings.mask, settings.mask_body, settings.order, gammas, drafted))
    known = [cell.name for cell in cells] + ["seed"]
    if unknown := [name for name in settings.cells if name not in known]:
        raise UsageError(f"cells: {unknown[0]!r} is none of {', '.join(known)}")
    chosen = [cell for cell in cells if not settings.cells or cell.name in settings.cells]
    seeded = not settings.cells or "seed" in settings.cells
    each = settings.alpha / (len(chosen) + seeded)
    asker = Asker(endpoint, prompts, pair, keep, say)
    if seeded:
        chosen.append(_SEED)
    ball = _LEAST_BALL
    judged: dict[str, doc.MatrixCell] = {}
    for i, cell in enumerate(asker.in_turn(chosen), 1):
        say(f"cell {i} of {len(chosen)}: {cell.name}, {cell.value}")
        if cell is _SEED:
            judged[cell.name] = _seed_cell(asker, pair, each)
            continue
        answers = asker.answers(cell, settings.tokens)
        if isinstance(answers, Unanswered):
            judged[cell.name] = _unanswered(cell, answers)
            continue
        kept = first_tokens(answers, settings.tokens)
        ball = max(ball, settings.ball or _moved(kept, pair))
        judged[cell.name] = judged_cell(
            cell, kept, pair, drafted, each, ball, settings.seed, planned=settings.tokens
        )
    found = [judged[cell.name] for cell in chosen]
    text = sum(cell.words.startswith("text alone") for cell in found)
    return doc.MatrixRun(
        schema_version=doc.SCHEMA_VERSION,
        source=endpoint.url,
        target=pair.target_name,
        proxy=pair.draft_name if drafted else None,
        dtype=str(pair.target_model.dtype).removeprefix("torch."),
        alpha=settings.alpha,
        cell_alpha=each,
        ball=ball,
        budget=settings.tokens,
        gammas=tuple(gammas),
        order=settings.order,
        cells=tuple(found),
        seed=settings.seed,
        verdict=doc.matrix_verdict(tuple(found)),
        notes=(*_notes(drafted, text), *asker.notes),
        reproduce=reproduce,
        meta=stamp(),
    )


def judged_cell(
    cell: Cell, kept: Sequence[Request], pair: TransformerPair, drafted: bool, alpha: float,
    ball: float, seed: int, *, planned: int | None = None,
) -> doc.MatrixCell:  # fmt: skip
    """Judge the answers to a cell at level ``alpha``, ``kept`` in the order of their requests.

    ``planned``: tokens that were to come; None: those that did.
    """
    tokens = sum(len(request.tokens) for request in kept)
    tried = tuple(dict.fromkeys(way.outcome for way in cell.ways))
    if any(request.from_text for request in kept):
        words = "text alone does not say which tokens were drawn: it takes token ids"
        return _cell(cell, "inconclusive", words, tried, tried, tokens, None, None)
    if differing := [request for request in kept if request.differs == "untold"]:
        words = other_prompt(differing, len(kept))
        return _cell(cell, "inconclusive", words, tried, tried, tokens, None, None)
    comparison, repeats = Comparison(cell.ways, seed), Repeats()
    for begin in range(0, len(kept), BATCH):
        batch = kept[begin : begin + BATCH]
        rows = logits_before(pair, pair.target_model, batch)
        drafts = logits_before(pair, pair.draft_model, batch) if drafted else [None] * len(batch)
        for request, target, draft in zip(batch, rows, drafts, strict=True):
            seen = Seen(request, target, draft)
            comparison.add(seen)
            # As likely as under whichever law makes it likeliest.
            every = [way.rows(seen) for way in cell.ways if way.rows is not None]
            repeats.add(request, np.max(every, axis=0))
    evidence = log_evalue(repeats.compared, list(repeats.copies(ball)))
    if evidence >= -math.log(_COPIES * alpha):
        words = "answers are copies of earlier ones to the prompt: a cache, or one seed"
        return _cell(cell, "other", words, ("other",), tried, tokens, None, evidence)
    compared = comparison.judge((1.0 - _COPIES) * alpha, ball, planned or tokens)
    outcome, words = _named(compared)
    left = tuple(dict.fromkeys(own for own, _ in compared.left))
    return _cell(cell, outcome, words, left, tried, tokens, compared.found, compared.evalue)


def _named(compared: Compared) -> tuple[doc.CellOutcome, str]:
    left = list(dict.fromkeys(outcome for outcome, _ in compared.left))
    if not left:
        return "other", "none of the laws that were tried"
    words = compared.left[0][1]
    if len(left) == 1:
        return left[0], words
    if "honoured" not in left:
        return "not honoured", " or ".join(left)
    others = " or ".join(outcome for outcome in left if outcome != "honoured")
    how_many = "more tokens may not tell"
    if compared.tells is not None:
        digits = 10 ** max(len(str(compared.tells)) - 2, 0)
        how_many = f"about {-(-compared.tells // digits) * digits:,} tokens may tell"
    return "inconclusive", f"honoured, or {others}: {how_many}"


def _cell(
    cell: Cell, outcome: doc.CellOutcome, words: str, left: tuple[str, ...],
    tried: tuple[str, ...], tokens: int, found: float | None, evalue: float | None,
) -> doc.MatrixCell:  # fmt: skip
    return doc.MatrixCell(
        name=cell.name, value=cell.value, outcome=outcome, words=words, left=left, tried=tried,
        tokens=tokens, found=found, log_evalue=evalue,
    )  # fmt: skip


def _unanswered(
    cell: Cell, why: Unanswered, tried: tuple[doc.CellOutcome, ...] = ()
) -> doc.MatrixCell:
    tried = tried or tuple(dict.fromkeys(way.outcome for way in cell.ways))
    outcome: doc.CellOutcome = "refused" if why.refused else "no answer"
    words = why.words[:200]
    if why.refused and cell.law.min_tokens and cell.law.logit_bias:
        words = f"asked with a logit bias of the end, which may be what is refused: {words}"
    return _cell(cell, outcome, words, (), tried, 0, None, None)


_SEED = Cell("seed", "1, 1 and 2", Law(), ())
"""The same prompts thrice, by two seeds."""


def _seed_cell(asker: Asker, pair: TransformerPair, alpha: float) -> doc.MatrixCell:
    prompts = asker.prompts[:_SEEDS]
    found: list[tuple[Request, ...]] = []
    tried: tuple[doc.CellOutcome, ...] = ("honoured", "dropped", "other")
    for turn, seed in enumerate((1, 1, 2)):
        body = {**asker.endpoint.extra_body, "seed": seed}
        endpoint = replace(asker.endpoint, extra_body=body)
        plain = replace(pair, sampling=Law())
        answers = asker.ask(f"seed-{turn}", endpoint, prompts, plain, 1 << 30, 1)
        if isinstance(answers, Unanswered):
            return _unanswered(_SEED, answers, tried)
        found.append(answers)
    tokens = sum(len(r.tokens) for own in found for r in own)
    if any(request.from_text for own in found for request in own):
        return _cell(_SEED, "inconclusive", "text alone", tried, tried, tokens, None, None)
    first, again, other = found
    judged = judge_seeds(first, again, other, pair, alpha)
    return _cell(_SEED, judged.outcome, judged.words, (judged.outcome,), tried, tokens, None, None)


def _moved(kept: Sequence[Request], pair: TransformerPair) -> float:
    if str(pair.target_model.dtype) == "torch.float32":
        return _LEAST_BALL
    return tried_rounding(kept, pair, False).tv


def _notes(drafted: bool, text: int) -> Iterator[str]:
    if not drafted:
        yield (
            "--draft was not given: parameters that are applied to one side of the verification "
            "alone were not looked for, and places in a block are known by their rate alone"
        )
    if text:
        yield f"{text} cells have text alone, which does not say which tokens were drawn"
