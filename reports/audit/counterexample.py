"""An audit's counterexample, or a failing trial, as blocks of a report."""

from collections.abc import Iterator

from simverify.reports.audit import found as say
from simverify.reports.audit.drafted import call_lines
from simverify.reports.audit.lines import decided_words
from simverify.reports.view import Block, Cell, Node, Prose, Table, Tree
from simverify.reports.words import MOST_ROWS, first
from simverify.results import AuditRun, Branch, Breach, Counterexample, FailingTrial, Instance

_CAPTION = "Outputs by their first tokens: probability emitted, and due"
_MOST_PLACES, _MOST_BRANCHES = 32, 64


def counterexample_blocks(run: AuditRun, found: Counterexample) -> Iterator[Block]:
    """Yield the output that deviates most, its instance and the tree around it."""
    instance = found.instance
    if found.call is not None:
        yield Prose(f"V = {instance.vocab_size}.")
        for line in call_lines(found, found.call):
            yield Prose(line[0].upper() + line[1:])
        if resemblance := say.resemblance(run):
            yield Prose(resemblance)
        return
    before = say.before(instance)
    yield Prose(
        f"{say.size(instance)}. {before} An output that begins "
        f"{say.tokens(found.sequence)} has probability "
        f"{say.probability(found.probability_emitted)}; "
        f"it should have {say.probability(found.probability_expected)}."
    )
    yield _rows(instance)
    if found.tree:
        yield _tree(found)
    if run.localisation is not None:
        yield Prose(
            f"{say.place_words(run.localisation)}; TV of the whole "
            f"output {say.probability(found.tv)}. {decided_words(run.localisation)}".strip()
        )
    if resemblance := say.resemblance(run):
        yield Prose(resemblance)


def breach_blocks(found: Breach) -> Iterator[Block]:
    """Yield the call that broke its contract, by its drafted block and its instance."""
    instance = found.instance
    yield Prose(f"{say.size(instance)}{say.drafted(found)}. {say.before(instance)} {found.message}")
    yield _rows(instance)


def trial_blocks(trial: FailingTrial) -> Iterator[Block]:
    """Yield the trial, by its address in the run, and its instance."""
    instance = trial.instance
    words = (
        "the call broke its contract"
        if trial.emitted is None
        else f"emitted {say.tokens(trial.emitted)}"
    )
    yield Prose(
        f"{'Pilot trial' if trial.pilot else 'Trial'} {trial.trial:,} on {instance.name}, V = "
        f"{instance.vocab_size}, gamma = {instance.gamma}: {words}; {trial.why}."
    )
    yield _rows(instance)


def _rows(instance: Instance) -> Table:
    pairs = say.row_pairs(instance)
    rows, more = first(list(pairs.items()), MOST_ROWS)
    every = "after every prefix" if len(pairs) == 1 else None
    return Table(
        "The instance: target p and draft q",
        ("rows", "p", "q"),
        tuple(
            (Cell(every or say.after(prefixes, 60)), Cell(p), Cell(q)) for (p, q), prefixes in rows
        ),
        left_out=more,
    )


def _tree(found: Counterexample) -> Tree:
    """The first places' branches, those off the path as leaves.

    Each place is looked at once, so that the tree is no larger than the branches are many.
    """
    places = min(len(found.sequence), _MOST_PLACES)
    nodes: tuple[Node, ...] = ()
    shown = 0
    for place in reversed(range(places)):
        path = found.sequence[: place + 1]
        here = [branch for branch in found.tree if len(branch.sequence) == place + 1]
        # The path goes on whatever is left out beside it.
        here.sort(key=lambda branch: branch.sequence != path)
        kept = sorted(here[:_MOST_BRANCHES], key=lambda branch: branch.sequence)
        shown += len(kept)
        nodes = tuple(_node(branch, path, nodes) for branch in kept)
    return Tree(_CAPTION, nodes, left_out=len(found.tree) - shown)


def _node(branch: Branch, path: tuple[int, ...], after: tuple[Node, ...]) -> Node:
    on_path = branch.sequence == path
    return Node(
        token=branch.sequence[-1],
        emitted=branch.probability_emitted,
        due=branch.probability_expected,
        emitted_text=say.probability(branch.probability_emitted),
        due_text=say.probability(branch.probability_expected),
        on_path=on_path,
        children=after if on_path else (),
    )
