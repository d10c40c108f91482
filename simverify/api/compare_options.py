"""The options of ``compare``: their names, types, defaults and explanations."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from simverify.api.real import OfRealModels

NO_GAMMA = "{gamma} requires an argument: the draft length, such as {gamma} 8"


@dataclass(frozen=True, kw_only=True)
class CompareOptions(OfRealModels):
    """Options of a comparison but its models and verifiers; None: not given.

    Attributes
    ----------
    gamma
        Draft length: tokens proposed per target call; a trace has its own. With a tree it is the
        depth that the tree may have at most.
    blocks
        Simulated blocks per verifier; by default what the promised power needs.
    calls
        Also give the tokens out after 1 to this many calls.
    eos
        Token that ends a generation; matters to --calls.
    drafts
        So many independent drafts of gamma tokens instead of one, for rules that judge several.
    tree
        Or the draft tree: children per level, such as 3,2,1, or a JSON file
        {"parents": [-1, 0, ...]}.
    scheme
        How its siblings are drafted: iid (the default), without-replacement, top-k,
        argmax-first or last-sampled.
    cost_ratio
        Time of one draft token over time of one target call.
    batch_size
        Sequences that are decoded at a time, for the predicted speed-up; 1 by default.
    free_rows
        Rows that a call computes while it reads its weights; time grows with what is above. All
        by default: some 150 on an A100, fewer where texts are long.
    draft_distance
        markov-V: share of noise in the draft's rows, 0 to 1; .4 by default.
    temperature
        markov-V and real models: temperature of target and draft, 1 by default; 0 is one-hot.
    target
        Real models instead of --models: a folder or a name that Transformers loads.
    draft
        Its draft, another such; none where drafts come from the texts alone.
    prompts
        Real models: prompts, JSONL or a text file with one a paragraph.
    tokens
        Real models: emitted tokens per verifier; by default what the promised power needs.
    lanes
        Real models: requests decoded side by side, 32 by default; fewer take less memory.
    top_k
        Real models: tokens that are kept, of target and draft; all by default.
    top_p
        Real models: share of the probability that is kept, of both; all by default.
    device
        Where real models compute; cpu by default.
    dtype
        In what real models compute; float32 by default.
    drafter
        Real models: how drafts are made: plain, token by token with the draft model (the
        default); easyspec, with its layers in groups; prompt-lookup or ngram, from the texts
        alone.
    layer_parallel
        Layers a group of easyspec, 4 by default, or a list to compare, such as 1,2,4.
    no_calibration
        Leave the fuzzy entries of easyspec in the draft's cache.
    trace
        Replay this trace instead, as simverify capture wrote it.
    alpha
        False-alarm rate of the whole run.
    detect
        Deviation (mean one-token TV) to be found with power .9: .01, for real models .04.
    seed
        Seed of the run: same seed, same results, whatever the threads. By default 0, or that
        of the trace.
    threads
        Threads; all processors by default.
    """

    gamma: int | None = None
    blocks: int | None = None
    calls: int = 0
    eos: int | None = None
    drafts: int | None = None
    tree: str | None = None
    scheme: str | None = None
    cost_ratio: float = 0.1
    batch_size: int | None = None
    free_rows: float | None = None
    draft_distance: float | None = None
    temperature: float | None = None
    target: str | None = None
    draft: str | None = None
    prompts: Path | None = None
    tokens: int | None = None
    lanes: int | None = None
    top_k: int | None = None
    top_p: float | None = None
    device: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    drafter: str | None = None
    layer_parallel: str | None = None
    no_calibration: bool = False
    trace: Path | None = None
    alpha: float = 1e-6
    detect: float | None = None
    seed: int | None = None
    threads: int | None = None
