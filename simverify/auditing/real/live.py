"""Code under audit on a pair of real models: it decodes, and its own tokens are judged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from simverify import results as doc
from simverify.auditing.exact.generations.trees import takes_tree_arguments
from simverify.auditing.real.calls import BlockCaller, Kept, StepCaller, TreeCaller
from simverify.auditing.real.rows import Ground, audit_on, repeated
from simverify.auditing.settings import AuditSettings
from simverify.auditing.subject import Contract, Subject, contract_iv
from simverify.battery.by_position import output_detectable, output_tokens
from simverify.checks import MAX_GAMMA
from simverify.drafting.method import DraftMethod
from simverify.errors import OptionError, UsageError
from simverify.models.real.prompts import read_prompts
from simverify.models.real.sampling import Sampling
from simverify.models.real.transformer import (
    BUNDLED,
    Dtype,
    TransformerPair,
    load_pair,
    use_threads,
)
from simverify.simulators.decoding.job import make_job
from simverify.simulators.decoding.loop import decode
from simverify.simulators.decoding.steps import decode_steps
from simverify.simulators.decoding.trees.loop import decode_trees
from simverify.trees import SCHEMES, Drafting, TreeShape, get_scheme, parse_levels, shape_of_levels


@dataclass(frozen=True)
class Live:
    """A pair of models, and how code decodes on it.

    ``target``, ``draft``: as :func:`~simverify.models.real.transformer.load_pair` takes them.
    ``method``: how drafts are made.
    ``prompts``: a file, None for the bundled ones. ``gamma``: draft length, 1 to 64.
    ``tokens``: emitted tokens; None for as many as ``detect`` needs. ``contract``: None where
    the code says its own. ``threads``: of torch; None leaves them.

    Raises ``UsageError`` if gamma is out of range.
    """

    target: str
    draft: str | None
    prompts: Path | None = None
    gamma: int = 4
    tokens: int | None = None
    contract: Contract | None = None
    sampling: Sampling = field(default_factory=Sampling)
    device: str = "cpu"
    dtype: Dtype = "float32"
    threads: int | None = None
    scheme: str | None = None
    tree: str | None = None
    method: DraftMethod = field(default_factory=DraftMethod)

    def __post_init__(self) -> None:
        if not 1 <= self.gamma <= MAX_GAMMA:
            raise UsageError(f"gamma is {self.gamma}: expected 1 to {MAX_GAMMA}")

    def load(self) -> tuple[TransformerPair, Sequence[str]]:
        """Return the models and the texts of the prompts."""
        texts = read_prompts(self.prompts or BUNDLED / "prompts.jsonl")
        pair = load_pair(
            self.target, self.draft, sampling=self.sampling, device=self.device, dtype=self.dtype
        )
        return pair, texts

    def drafting(self, subject: Subject, contract: Contract) -> Drafting | None:
        """Return how trees are drafted for ``subject``; None for code that judges no trees.

        Raises ``UsageError`` for a scheme or a tree that is missing, or not for this code.
        """
        if contract != "tree":
            for option, value in (("scheme", self.scheme), ("tree", self.tree)):
                if value is not None:
                    raise UsageError(
                        f"--{option} {value} is for draft trees: name --contract tree too"
                    )
            return None
        name = self.scheme or subject.scheme
        if name is None:
            raise UsageError(
                f"--contract tree needs --scheme, how siblings are drafted: {', '.join(SCHEMES)}"
            )
        if self.tree is not None:
            shape = parse_levels(self.tree)
        else:
            two, one = (shape_of_levels([k] + [1] * (self.gamma - 1)) for k in (2, 1))
            shape = two if subject.fits(two) else one
        if shape.depth > self.gamma:
            raise UsageError(
                f"the tree has a depth of {shape.depth}, above gamma {self.gamma}: cut it, or "
                "raise gamma"
            )
        if not subject.fits(shape):
            raise UsageError(
                f"{subject.name} does not take the tree {_levels(shape)}: name another one"
            )
        return Drafting(shape, get_scheme(name))

    def command(self, spec: str, settings: AuditSettings) -> str:
        """Return the command that repeats the audit of ``spec``."""
        law = self.sampling
        given = {
            "--target": self.target, "--draft": self.draft, "--prompts": self.prompts,
            "--gamma": self.gamma, "--tokens": self.tokens, "--contract": self.contract,
            "--scheme": self.scheme, "--tree": self.tree,
            "--temperature": law.temperature, "--top-k": law.top_k, "--top-p": law.top_p,
            "--device": self.device, "--dtype": self.dtype, "--threads": self.threads,
            "--drafter": self.method.name,
        }  # fmt: skip
        plain = {
            "--temperature": 1.0, "--device": "cpu", "--dtype": "float32", "--drafter": "plain"
        }  # fmt: skip
        words = ["simverify", "audit", spec]
        for name, value in given.items():
            if value is not None and value != plain.get(name):
                words += [name, str(value)]
        if self.method.name == "easyspec":
            words += ["--layer-parallel", str(self.method.layer_parallel)]
            words += [] if self.method.calibration else ["--no-calibration"]
        return repeated(words, settings)


def audit_live(
    subject: Subject,
    live: Live,
    settings: AuditSettings,
    *,
    loaded: tuple[TransformerPair, Sequence[str]] | None = None,
    progress: Callable[[str], None] | None = None,
) -> doc.AuditRun:
    """Put ``subject`` on trial in the decoding loop, on a pair of real models.

    A ``verify`` rule is handed the blocks of a batch of requests, and a ``tree`` rule their draft
    trees; a ``step`` rule decodes request after request and asks for any row. Every emitted token
    is judged against the target's row before it. Of ``settings``, the error rates, the seed and
    what is strict count. ``loaded``: the pair and the prompts, if they
    are there already.

    Raises
    ------
    UsageError
        If the code is under another contract or takes whole batches, a model does not load, a
        prompt is missing or too long, or the code looks beyond the models' context.
    """
    contract = contract_iv(subject, live.contract, settings.batch)
    if contract == "draft":
        raise UsageError(
            f"{subject.name} is a drafter: audit it on small instances, without --target"
        )
    if settings.batch or subject.batch or subject.company:
        raise UsageError(f"{subject.name} takes whole batches: blocks come one by one here")
    drafting = live.drafting(subject, contract)
    if contract == "step" and live.method != DraftMethod():
        raise OptionError("{drafter} is not for the step contract, whose code drafts for itself: "
                          "leave it out")  # fmt: skip
    if drafting is not None:
        live.method.trees_iv()
    gamma = live.gamma if drafting is None else drafting.shape.depth
    say = progress or (lambda _: None)
    tokens = output_tokens(settings.detect, settings.alpha) if live.tokens is None else live.tokens
    if loaded is None:
        say(f"loading {live.target}" + (f" and {live.draft}" if live.draft else ""))
        loaded = live.load()
    pair, texts = loaded
    job = make_job(pair, texts, gamma=gamma, tokens=tokens, seed=settings.seed)
    total = job.lanes * job.lane_tokens
    found = output_detectable(total, settings.alpha)
    name = live.method.on(pair)
    ground = Ground(
        name=name,
        gamma=job.gamma,
        vocab_size=pair.vocab_size,
        plan=f"{total:,} tokens of {name}: power .9 against TV {found:.3g}",
        why=f"called in the decoding loop of real models, {name}",
        more="take more --tokens",
        command=live.command(subject.name, settings),
        scheme=None if drafting is None else drafting.scheme.name,
        tree=None if drafting is None else _levels(drafting.shape),
    )
    builds = drafting is not None and _builds(subject)
    kept = Kept(
        gamma=job.gamma, lanes=job.lanes, seed=job.seed, drafted=contract != "step",
        drafting=drafting, state=builds,
    )  # fmt: skip
    rule = subject.generator_rule()

    def call() -> None:
        use_threads(live.threads)
        if drafting is not None:
            caller = partial(TreeCaller, rule, pair.vocab_size, builds=builds)
            decode_trees(pair, job, drafting, caller, kept.tree, live.method)
        elif contract == "verify":
            judge = partial(BlockCaller, rule, pair.vocab_size)
            decode(pair, job, judge, kept, method=live.method)
        else:
            decode_steps(pair, job, lambda: StepCaller(rule, pair.vocab_size), kept)

    probed = None
    if drafting is not None:
        pair.trees_iv()
        probed = subject.drafting_itself(drafting, "tree")
    return audit_on(ground, subject, contract, settings, kept, call, say, probed=probed)


def _builds(subject: Subject) -> bool:
    """Tell a class or a factory from a rule for draft trees; ``UsageError`` for other code."""
    try:
        return not takes_tree_arguments(subject.rule)
    except ValueError as error:
        raise UsageError(f"{subject.name}: {error}") from None


def _levels(shape: TreeShape) -> str:
    return shape.words().removesuffix(" children per level")
