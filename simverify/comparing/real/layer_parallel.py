"""How drafts fare whose layers run in groups: similarity, acceptance with its loss, time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np

from simverify import results as doc
from simverify.comparing.real.pair_rows import CONFIDENCE
from simverify.drafting.groups import layer_groups
from simverify.drafting.method import DraftMethod
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair
from simverify.simulators.decoding.expected import RULES, LaneMeans, curves
from simverify.simulators.decoding.judges import judges
from simverify.simulators.decoding.lanes import Block, Clock, Job
from simverify.simulators.decoding.loop import PLAIN, decode
from simverify.simulators.decoding.trees.loop import RuleOfTrees, TreeBlock, decode_trees
from simverify.simulators.decoding.trees.worth import steps_of
from simverify.trees import Drafting, get_scheme, shape_of_levels
from simverify.verifiers import get_verifier
from simverify.verifiers.trees import TREE_VERIFIERS

WIDTHS = (1, 2, 4)
"""Drafts side by side at the first level of the trees."""

TOKENS = 4_000
"""Emitted tokens of each run by default, where the verifiers' own have their promise to keep."""

TEXT = 64
"""Most tokens of a prompt on which passes are compared."""


def layer_parallel_of(
    pair: TransformerPair,
    job: Job,
    numbers: Sequence[int],
    *,
    tokens: int,
    widths: Sequence[int] = WIDTHS,
    say: Callable[[str], None],
) -> tuple[doc.LayerParallel, ...]:
    """Return similarities and acceptance for each number of layers a group.

    ``job``: its prompts, gamma, lanes and seed are taken; every run emits ``tokens``. Plain drafts
    are run for each width once, as what the others lose against. Widths above 1 need models that
    take the masks of draft trees.
    """
    widths = [width for width in widths if width == 1 or _takes_trees(pair)]
    job = replace(job, lane_tokens=-(-tokens // job.lanes))
    say(f"{pair.name}: acceptance of plain drafts by width")
    plain = {width: _worth(pair, job, width, PLAIN) for width in widths}
    layers = pair.draft_model.config.num_hidden_layers
    found = []
    for number in numbers:
        say(f"{pair.name}: acceptance in groups of {number}, by width")
        acceptance = [_entry(plain[width], width, None, None) for width in widths]
        groups = layer_groups(layers, number)
        if any(len(group) > 1 for group in groups):
            acceptance += [
                _entry(
                    _worth(pair, job, width, DraftMethod("easyspec", number, calibration)),
                    width, calibration, plain[width],
                )
                for calibration in (True, False)
                for width in widths
            ]  # fmt: skip
        found.append(
            doc.LayerParallel(
                layer_parallel=number,
                groups=tuple(map(tuple, groups)),
                layers=_similarities(pair, job, number),
                acceptance=tuple(acceptance),
            )
        )
    return tuple(found)


def drafting_times(
    pair: TransformerPair, job: Job, clocks: Mapping[int, Clock]
) -> tuple[doc.DraftingTime, ...]:
    """Return what passes take, and what the time model predicts.

    ``clocks``: of each number of layers a group the clock of a rule that decoded.
    """
    from simverify.drafting.block_times import measure_blocks
    from simverify.drafting.easyspec import group_devices
    from simverify.drafting.time_model import fit, predict

    context = int(median(map(len, job.prompts))) + job.request_tokens // 2
    found = []
    for number, clock in clocks.items():
        measured = measure_blocks(
            pair.draft_model, number, lanes=job.lanes, context=context,
            devices=group_devices(pair.draft_model.device),
        )  # fmt: skip
        times = fit(measured)
        whole = clock.draft + clock.score + clock.verify
        found.append(
            doc.DraftingTime(
                layer_parallel=number, attention=measured.attention, mlp=measured.mlp,
                group=measured.group, group_size=measured.group_size, workers=measured.workers,
                exact_pass=measured.exact_pass, fuzzy_pass=measured.fuzzy_pass,
                rest=times.rest, added=times.added,
                predicted=tuple(predict(times, job.gamma)),
                per_token=clock.draft / (job.gamma * clock.rounds),
                share=clock.draft / whole,
                tokens_per_second=clock.tokens / whole,
            )
        )  # fmt: skip
    return tuple(found)


def _worth(pair: TransformerPair, job: Job, width: int, method: DraftMethod) -> LaneMeans:
    """Decode; return per lane what the rows of each call let expect of tau."""
    worth = LaneMeans(job.lanes, 1)
    if width == 1:
        token = RULES.index("token")

        def chain(block: Block) -> None:
            worth.add(block.lane, [float(curves(block)[token].sum())])

        decode(pair, job, judges(get_verifier("token")), chain, method=method)
        return worth
    shape = shape_of_levels([width] + [1] * (job.gamma - 1))
    drafting, rule = Drafting(shape, get_scheme("iid")), TREE_VERIFIERS["recursive"]

    def tree(call: TreeBlock) -> None:
        steps = steps_of(rule, drafting, call.drawn, call.found)
        assert steps is not None, "recursive rejection on independent siblings has a closed form"
        worth.add(call.block.lane, [sum(chance for chance, _ in steps)])

    decode_trees(pair, job, drafting, partial(RuleOfTrees, rule.rule), tree, method)
    return worth


def _takes_trees(pair: TransformerPair) -> bool:
    try:
        pair.trees_iv()
    except UsageError:
        return False
    return True


def _entry(
    worth: LaneMeans, width: int, calibration: bool | None, plain: LaneMeans | None
) -> doc.DraftAcceptance:
    found = worth.interval([1.0], CONFIDENCE)
    return doc.DraftAcceptance(
        width=width,
        calibration=calibration,
        expected_accepted=doc.Expected(
            exact=None, fraction=None, lower=max(found.low, 0.0), upper=found.high,
            method="rao-blackwell", confidence=CONFIDENCE,
        ),
        blocks=worth.blocks,
        loss=None if plain is None else _loss(worth, plain),
    )  # fmt: skip


def _loss(worth: LaneMeans, plain: LaneMeans) -> doc.Loss | None:
    """Return 1 - worth / plain with its interval, from how far lanes are off that ratio.

    A lane has the same prompts and the same uniforms in both runs, so that what it keeps in one
    goes with what it keeps in the other: lanes are compared one by one (the delta method).
    """
    kept, due = float(worth.means[0]), float(plain.means[0])
    if due <= 0.0:
        return None
    ratio = kept / due
    of_lanes = [(own.sums - own.means * own.counts[:, None]) / (own.counts.mean() * due)
                for own in (worth, plain)]  # fmt: skip
    off = of_lanes[0] - ratio * of_lanes[1]
    # Deviations of lanes sum to 0: they are those of a mean over a block a lane.
    found = LaneMeans.of(off, np.ones(len(off))).interval([1.0], CONFIDENCE)
    half = found.high - found.mean
    return doc.Loss(mean=1.0 - ratio, ci_low=1.0 - ratio - half, ci_high=1.0 - ratio + half)


def _similarities(pair: TransformerPair, job: Job, number: int) -> tuple[doc.LayerSimilarity, ...]:
    """Compare passes on the prompts' beginnings, whose last gamma tokens are read fuzzily."""
    from simverify.drafting.similarity import layer_similarities

    length = min(int(median(map(len, job.prompts))), TEXT)
    texts = [prompt[:length] for prompt in job.prompts if len(prompt) >= length]
    exact = max(length - job.gamma, 0)
    return tuple(layer_similarities(pair.draft_model, np.array(texts), number, exact_tokens=exact))
