"""An audit's counterexample, or a failing trial, as blocks of a report."""

from collections.abc import Iterator, Sequence

from simverify.reports import found as say
from simverify.reports.view import Block, Cell, Node, Prose, Table, Tree
from simverify.reports.words import MOST_ROWS, first
from simverify.results import AuditRun, Branch, Counterexample, FailingTrial, Instance


def counterexample_blocks(run: AuditRun, found: Counterexample) -> Iterator[Block]:
    """Yield the output that deviates most, its instance and the tree around it."""
    instance = found.instance
    before = say.before(instance)
    yield Prose(
        f"V = {instance.vocab_size}, gamma = {instance.gamma}. {before} An output that begins "
        f"{say.tokens(found.sequence)} has probability "
        f"{say.probability(found.probability_emitted)}; "
        f"it should have {say.probability(found.probability_expected)}."
    )
    yield _rows(instance)
    if found.tree:
        yield Tree(
            "Outputs by their first tokens: probability emitted, and due",
            _tree(found.tree, found.sequence),
        )
    if run.localisation is not None:
        yield Prose(
            f"{say.place_words(run.localisation)}; TV of the whole "
            f"output {say.probability(found.tv)}."
        )
    if resemblance := say.resemblance(run):
        yield Prose(resemblance)


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


def _tree(branches: Sequence[Branch], path: tuple[int, ...]) -> tuple[Node, ...]:
    """Return the nodes at the first place; those on ``path`` hold the next place's."""

    def at(place: int) -> tuple[Node, ...]:
        here = [branch for branch in branches if len(branch.sequence) == place + 1]
        return tuple(
            Node(
                token=branch.sequence[-1],
                emitted=branch.probability_emitted,
                due=branch.probability_expected,
                emitted_text=say.probability(branch.probability_emitted),
                due_text=say.probability(branch.probability_expected),
                on_path=(taken := branch.sequence == path[: place + 1]),
                children=at(place + 1) if taken else (),
            )
            for branch in here
        )

    return at(0)
