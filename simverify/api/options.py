"""The options of ``audit``: their names, types, defaults and explanations.

The command is made of these classes, and the functions for Python fill them in.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from simverify.api.real import LawOptions, OfRealModels


@dataclass(frozen=True, kw_only=True)
class _OwnAuditOptions(OfRealModels):
    """Options of an audit; None: not given.

    Attributes
    ----------
    contract
        verify (a drafted block is given; the default), step (the code drafts itself), tree
        (a draft tree is given) or draft (it drafts, and says from which law).
    drafter, verifier
        Instead of SPEC: a drafter, and a verifier of the verify or the tree contract, audited
        together: one drafts, the other judges by the rows that are reported. With --target the
        drafter is one of compare's: plain, easyspec, prompt-lookup or ngram.
    command
        Instead of SPEC: a program in any language that answers a line of JSON for each call,
        such as ./harness. It is started once and kept; no shell is.
    library
        Instead of SPEC: a function of a shared library with the C ABI, path.so:symbol.
    coins
        Coins that a call of a program or a library is given; gamma + 1 if not given.
    scheme
        How the siblings of draft trees are drafted: iid, without-replacement, top-k,
        argmax-first or last-sampled. Of a drafter, what it declares; iid if not given.
    tree
        Children per level of the one tree that the code takes, such as 3,2,1; many if not given,
        of real models two drafts of gamma tokens.
    gamma
        Largest draft length of the instances, 1 to 4; 4 if not given. Of real models the draft
        length, 1 to 64.
    vocab
        Largest vocabulary of the instances, 2 to 12; 12 if not given.
    self_test
        Turn the audit on every catalogued fault and every must-pass control instead.
    strict_probes
        Warnings of the edge probes fail the audit too.
    strict_coverage
        Lines of the code that no call reached fail the audit; every call is then watched.
    batch
        Blocks per call of batched code: arrays with a batch axis in, rows padded with -1 out.
        A catalogued fault of whole batches has its own.
    company
        Kinds of requests that batched code is judged among, such as ragged,greedy, or all: of
        ragged, stale, placeholder, padded, unmasked, greedy, one-hot, mixed, seeds.
    eos
        Id that the code takes for end of sequence; what a call emits after it is dropped.
    trace
        Call the code on the blocks of this trace instead, as simverify capture wrote it.
    engine_path
        Checkout of an engine, in the place of the installed package.
    tolerance
        Largest deviation that is rounding; by the code's precision if not given.
    max_paths
        Budget of the exact tier.
    max_samples
        Budget of the sampled tier.
    seconds
        Limit of each tier, which only aborts, to INCONCLUSIVE. Processor seconds in the exact
        tier (the wall clock where the code waits), the wall clock in the sampled one; 60 if
        not given.
    alpha
        False-alarm rate of the sampled tier.
    detect
        Deviation (mean one-token TV) that the sampled tier finds with power .9: .01, or
        up to .05 where slow code leaves no time for it; .04 on a trace, on real models and of
        emitted tokens; .1, of an answer's first two tokens, with --against.
    seed
        Seed of all draws.
    outputs
        Instead of SPEC: tokens that another engine emitted, a JSONL file with prompt, and
        tokens (ids) or text, a line.
    endpoint
        Instead of SPEC: a server that speaks /v1/completions, such as http://localhost:8000.
    against
        No target: another server beside --endpoint, or another file beside --outputs.
    against_model
        Name of the model at --against; by default the first that it lists.
    repeats
        Two servers: how often each prompt is asked of each; by default a few are chosen, and asked
        as often as the power needs.
    concurrency
        Endpoint: requests under way at a time, 8 if not given; as one is answered the next is sent.
    max_tokens_total
        Endpoint: tokens that the server may emit in all; the run is INCONCLUSIVE if they end first.
    timeout
        Endpoint: seconds that one answer may take, 300 if not given; a longer one ends the run.
    target
        SPEC decodes on real models: the target, a folder or a name that Transformers loads, or
        tiny-llama, which ships. Emitted tokens: the model whose law they should follow.
    draft
        Real models: the draft; of tiny-llama its own if not given. Emitted tokens: a proxy for
        the engine's draft, for a third order of PITs.
    prompts
        Real models and endpoint: prompts, JSONL or a text file with one a paragraph; of
        tiny-llama its own if not given.
    samples
        Endpoint: completions of each prompt at most; by default until N tokens are there.
    tokens
        Emitted tokens that are judged, fixed beforehand; by default what the promised power
        needs.
    max_tokens
        Endpoint: limit of one completion, 128 if not given.
    served_model
        Endpoint: name of the model there; by default the first that it lists.
    keep
        Endpoint: write every answer to this file, as --outputs reads it; one that an earlier
        run began is gone on with.
    ball
        Emitted tokens: TV of the engine's own rows from the rescored ones, on average; by
        default what computing rows again shows.
    temperature
        Of the law that real models sample, or that the engine was asked for; 1 if not given.
    top_k
        Tokens that this law keeps; all by default.
    top_p
        Share of its probability that is kept; all by default.
    device
        Where real models compute; cpu by default.
    dtype
        In what real models compute; float32 by default.
    threads
        Threads of torch; with SPEC one by default.
    layer_parallel
        Real models: layers a group of easyspec, 4 by default.
    no_calibration
        Real models: leave the fuzzy entries of easyspec in the draft's cache.
    """

    contract: Literal["verify", "step", "tree", "draft"] | None = None
    drafter: str | None = None
    verifier: str | None = None
    command: str | None = None
    library: str | None = None
    coins: int | None = None
    scheme: str | None = None
    tree: str | None = None
    gamma: int | None = None
    vocab: int | None = None
    self_test: bool = False
    strict_probes: bool = False
    strict_coverage: bool = False
    batch: int | None = None
    company: str | None = None
    eos: int | None = None
    trace: Path | None = None
    engine_path: Path | None = None
    tolerance: float | None = None
    max_paths: int | None = None
    max_samples: int | None = None
    seconds: float | None = None
    alpha: float = 1e-6
    detect: float | None = None
    seed: int = 0
    outputs: Path | None = None
    endpoint: str | None = None
    against: str | None = None
    against_model: str | None = None
    repeats: int | None = None
    concurrency: int | None = None
    max_tokens_total: int | None = None
    timeout: float | None = None
    target: str | None = None
    draft: str | None = None
    prompts: Path | None = None
    samples: int | None = None
    tokens: int | None = None
    max_tokens: int | None = None
    served_model: str | None = None
    keep: Path | None = None
    ball: float | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    device: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    threads: int | None = None
    layer_parallel: str | None = None
    no_calibration: bool = False


@dataclass(frozen=True, kw_only=True)
class AuditOptions(LawOptions, _OwnAuditOptions):
    """Options of an audit, those of the law of emitted tokens last; None: not given."""
