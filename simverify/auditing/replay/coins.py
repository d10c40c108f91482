"""Code that is given its coins, on a failing instance again: which coins lead where."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from simverify.arrays import Row
from simverify.auditing.exact.coins.coin_blocks import CoinBlock, used_of
from simverify.auditing.exact.coins.coin_boxes import Box
from simverify.auditing.exact.coins.coin_errors import NOT_BISECTED, TooManyCalls
from simverify.auditing.exact.coins.coins import law_from_coins
from simverify.auditing.replay.instance_rows import InstanceRows
from simverify.auditing.replay.paths import Explanation, Position, Trail
from simverify.auditing.replay.runs import probability_of
from simverify.auditing.subject import Subject
from simverify.engines.bridge.protocol import request_of
from simverify.errors import SimverifyError
from simverify.results import Breach, Instance
from simverify.symbolic.draws.path import Decided
from simverify.symbolic.enumeration.endings import BadTokens, Tokens
from simverify.symbolic.enumeration.recorder import Branch
from simverify.symbolic.errors import CallBroken

_MOST_CALLS = 100_000


def explain_coins(subject: Subject, instance: Instance, sequence: Sequence[int]) -> Explanation:
    """Return the boxes of coins whose calls emit ``sequence``, as paths.

    As :func:`~simverify.auditing.replay.paths.explain` returns those of code that draws. Raises
    ``SimverifyError`` where the calls break, or are no function of their coins any more.
    """
    model, tokens = InstanceRows(instance), tuple(sequence)
    trails = []
    for drafted in itertools.product(range(instance.vocab_size), repeat=instance.gamma):
        mass = probability_of(model, model.draft, drafted)
        if mass > 0:
            for box, emitted in _boxes(subject, model, drafted):
                common = min(len(emitted), len(tokens))
                if emitted and emitted[:common] == tokens[:common]:
                    trails.append(_trail(subject, model, tokens, drafted, mass, box, emitted))
    trails.sort(key=lambda trail: trail.contribution, reverse=True)
    positions = [
        Position(
            i, token, tuple(model.target(tokens[:i]).tolist()),
            tuple(model.draft(tokens[:i]).tolist()) if i < instance.gamma else None,
        )
        for i, token in enumerate(tokens)
    ]  # fmt: skip
    return Explanation(
        instance.name, tokens, sum(t.contribution for t in trails),
        probability_of(model, model.target, tokens), tuple(positions), tuple(trails),
    )  # fmt: skip


def replay_broken(subject: Subject, found: Breach) -> tuple[str, ...]:
    """Return a text for each box of coins on which a call breaks its contract again."""
    model, drafted = InstanceRows(found.instance), found.draft_tokens
    assert drafted is not None, "a breach of the verify contract has draft tokens"
    target, draft = _rows(model, drafted)
    scale = 2.0 ** (subject.coin_bits or 0)
    texts = []
    for box, emitted in _boxes(subject, model, drafted):
        coins = np.array(box.low) / scale
        call = CoinBlock(subject.rule, target, draft, np.array(drafted, dtype=np.int64))
        call(coins)
        if call.findings:
            share = box.share(2 ** (subject.coin_bits or 0))
            texts.append((share, _call_text(model, drafted, target, draft, coins, call, emitted)))
    return tuple(text for _, text in sorted(texts, key=lambda pair: -pair[0]))


def replay_line(subject: Subject, line: str) -> str:
    """Ask once more what broke a call, of code that was started anew, and say what comes."""
    request = request_of(line)
    given = request.target_probs, request.draft_probs, request.draft_tokens, request.coins
    lines = [f"asked: {line}"]
    try:
        lines.append(f"answered: {list(subject.rule(*given))}")
    except (BadTokens, CallBroken) as error:
        lines.append(f"ends: {error.kind}: {error}")
    else:
        lines.append("in the run this call broke: it is not so when it is the first")
    return "\n".join(lines) + "\n"


def _boxes(subject: Subject, model: InstanceRows, drafted: Tokens) -> Iterator[tuple[Box, Tokens]]:
    """Return the boxes of coins on which the call on one drafted block is constant."""
    found: list[tuple[Box, Tokens]] = []
    target, draft = _rows(model, drafted)
    call = CoinBlock(subject.rule, target, draft, np.array(drafted, dtype=np.int64))
    try:
        law_from_coins(
            call, subject.coins or len(drafted) + 1, bits=subject.coin_bits or 53,
            max_calls=_MOST_CALLS, used=used_of(subject.rule),
            each=lambda box, tokens: found.append((box, tokens)),
        )  # fmt: skip
    except (*NOT_BISECTED, TooManyCalls) as error:
        raise SimverifyError(
            f"{subject.name} is not the code of the audit any more: {error}"
        ) from None
    return iter(found)


def _trail(
    subject: Subject, model: InstanceRows, tokens: Tokens, drafted: Tokens, mass: float, box: Box,
    emitted: Tokens,
) -> Trail:  # fmt: skip
    scale = 2 ** (subject.coin_bits or 53)
    branches = []
    for axis, (low, high) in enumerate(zip(box.low, box.high, strict=True)):
        share = (high - low + 1) / scale
        if share < 1:
            left = low / scale, (high + 1) / scale
            branches.append(Branch(Decided.BOUND, axis + 1, 0, 2, share, left, ""))
    common = min(len(emitted), len(tokens))
    rest = probability_of(model, model.target, tokens, common)
    return Trail(drafted, mass, emitted, box.share(scale), rest, len(box.low), tuple(branches))


def _rows(model: InstanceRows, drafted: Tokens) -> tuple[Row, Row]:
    gamma = len(drafted)
    target = np.array([model.target(drafted[:i]) for i in range(gamma + 1)])
    return target, np.array([model.draft(drafted[:i]) for i in range(gamma)])


def _call_text(
    model: InstanceRows, drafted: Tokens, target: Row, draft: Row, coins: Row, call: Any,
    emitted: Tokens,
) -> str:  # fmt: skip
    lines = [
        f"{model.name}: draft tokens {', '.join(map(str, drafted))}",
        *(f"p[{i}] = {'  '.join(f'{x:.6g}' for x in row)}" for i, row in enumerate(target)),
        *(f"q[{i}] = {'  '.join(f'{x:.6g}' for x in row)}" for i, row in enumerate(draft)),
        f"coins: {', '.join(f'{x:.17g}' for x in coins)}",
        *(f"ends: {found.kind}: {found.message}" for found in call.findings.values()),
    ]
    return "\n".join(lines + [f"tokens: {', '.join(map(str, emitted))}"] * bool(emitted)) + "\n"
