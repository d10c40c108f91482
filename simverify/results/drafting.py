"""What the document of a comparison says of drafts by layers in groups (EasySpec)."""

from simverify.results.accepted import Expected
from simverify.results.common import Struct


class LayerSimilarity(Struct, frozen=True):
    """Mean cosine similarities, in -1 to 1, of one layer in a fuzzy pass and in the exact one.

    Each is the mean over tokens of the cosine of two vectors, with all heads in one vector. In a
    document these are the tokens that a phase drafts fuzzily.

    ``layer``: its number, from 0. ``hidden``: what its attention block reads, before the norm; in
    a group the group's input. ``attention``: what the block gives, before it is added to the
    hidden state. ``q``, ``k``, ``v``: queries, keys and values as projected; rotary positions
    turn both passes alike and change no cosine.
    """

    layer: int
    hidden: float
    attention: float
    q: float
    k: float
    v: float


class Loss(Struct, frozen=True):
    """By what share fewer tokens are kept than of plain drafts; below 0 where more are."""

    mean: float
    ci_low: float
    ci_high: float


class DraftAcceptance(Struct, frozen=True):
    """E[tau] of recursive rejection on trees of ``width`` drafts; at 1 it is the token rule.

    The first level has ``width`` children, the others one each. ``calibration``: whether fuzzy
    entries of the cache were replaced; null for plain drafts. ``loss``: against plain drafts on
    trees as wide, an interval at the confidence of ``expected_accepted``; null for those.
    ``blocks``: calls that it is the mean over.
    """

    width: int
    calibration: bool | None
    expected_accepted: Expected
    blocks: int
    loss: Loss | None


class LayerParallel(Struct, frozen=True):
    """How drafts fare whose layers run in groups of ``layer_parallel``.

    ``groups``: the layers of each group. ``layers``: one a layer. ``acceptance``: with and without
    calibration, by width.
    """

    layer_parallel: int
    groups: tuple[tuple[int, ...], ...]
    layers: tuple[LayerSimilarity, ...]
    acceptance: tuple[DraftAcceptance, ...]
