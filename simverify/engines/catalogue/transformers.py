"""Transformers: ``_speculative_sampling``, Gemma 4 drafts, ``generate`` as a whole, lossy variants.

``generation.utils._speculative_sampling`` takes logits and draws from torch's global generator;
batch 1; since 4.37. Older releases (5.17 is one) also ask whether the draft ends the text, and the
oldest how many drafts may be kept. Copies of it: Hierarchical Speculative Decoding, Spec-Bench.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.adapt import VerifyFunction, as_verify
from simverify.engines.base import Engine
from simverify.engines.declare import LOGITS, LOOP_FIELDS, block_engine, make_engine
from simverify.engines.extract import function_parameters, import_package, load_function, torch
from simverify.engines.fake_models import (
    IdTokenizer,
    RowsModel,
    loop_as_step,
    model_maker,
    without_weight_draws,
)
from simverify.errors import SimverifyError

FUNCTION, FILE = "_speculative_sampling", "transformers/generation/utils.py"
DRAFT_END_ARGUMENTS = ("is_done_candidate", "last_assistant_token_is_eos")
PARAMETERS = "candidate_input_ids candidate_logits candidate_length new_logits"


def wrap_speculative_sampling(
    function: Any, *, dtype: str = "float64", **options: Any
) -> VerifyFunction:
    """Return Transformers' function itself, called with these options, as a ``verify`` callable.

    ``dtype``: of the logits, by torch's name.
    """
    parameters = inspect.signature(function).parameters
    options |= {name: False for name in DRAFT_END_ARGUMENTS if name in parameters}

    def sample(draft_tokens: Any, target: Any, draft: Any, _: Any) -> Any:
        gamma = draft_tokens.shape[1]
        room = {"max_matches": gamma} if "max_matches" in parameters else {}
        return function(draft_tokens, draft, gamma, target, **options, **room)[0]

    return as_verify(sample, replace(LOGITS, dtype=dtype))


def load_transformers_function(path: Path) -> Any:
    """Return Transformers' function from the file where it lies."""
    return load_function(path, FUNCTION)


def _speculative_sampling_engine(
    name: str, versions: str, more_parameters: str = "", note: str = "", **options: Any
) -> Engine:
    def load(path: Path) -> VerifyFunction:
        return wrap_speculative_sampling(load_transformers_function(path), **options)

    place, parameters = f"{FILE}:{FUNCTION}", f"{PARAMETERS} {more_parameters}"
    return make_engine(
        name, place, f"transformers{versions}", parameters, load, tolerance=1e-9, note=note
    )


transformers = _speculative_sampling_engine("transformers", ">=4.37,<6")


# Drafts for Gemma 4: greedy, and reported as if they were sampled.
#
# Its own candidate generator drafts, its own rule judges. The assistant is a stand-in.


TESTED_FILES = ("generation/utils.py", "generation/candidate_generator.py")
GEMMA_CANDIDATE_GENERATOR = "SinglePositionMultiTokenCandidateGenerator"
GEMMA_NOTE = (
    "the assistant is a stand-in; in 5.22.2 to 5.24.0 the mistake is in get_candidates, "
    "whose drafts are greedy and reported as sampled: "
    "docs/reference/findings-servers.md"
)


class Gemma4AssistantStandIn:
    """An assistant that answers with the draft's rows; a token's embedding is 1 in its place."""

    def __init__(self, rows: RowsModel, ids: Sequence[int], settings: Any) -> None:
        self.rows, self.ids, self.generation_config = rows, list(ids[:-1]), settings
        self.device = torch.device("cpu")

    def __call__(self, inputs_embeds: Any, **_: Any) -> Any:
        """Return the row after one more token; the first that comes is the prompt's last."""
        self.ids.append(int(inputs_embeds[0, 0, : self.rows.vocab].argmax()))
        logits = self.rows.logits(self.ids, len(self.ids) - 1)
        return SimpleNamespace(logits=logits, last_hidden_state=torch.zeros(1, 1, 1))


def _load_gemma(path: Path) -> Callable[..., Any]:
    library = import_package(path.parents[1], TESTED_FILES)
    drafters, rule = library.generation.candidate_generator, library.generation.utils
    made = getattr(drafters, GEMMA_CANDIDATE_GENERATOR)

    def loop(target: RowsModel, draft: RowsModel, ids: Any, gamma: int) -> Any:
        settings = library.GenerationConfig(max_length=1_000, num_assistant_tokens=gamma)
        assistant = Gemma4AssistantStandIn(draft, ids[0].tolist(), settings)
        ones = torch.nn.Embedding.from_pretrained(torch.eye(target.vocab))
        generator = made(assistant, ones, settings)
        before = SimpleNamespace(hidden_states=[torch.zeros(1, 1, 1)], shared_kv_states={})
        ids_drafted, q = generator.get_candidates(ids, {}, before, False, 0)
        p = target.logits(ids_drafted[0].tolist(), ids.shape[1] - 1)
        return rule._speculative_sampling(ids_drafted, q, gamma, p)[0][0]

    return loop_as_step(loop, counted=(rule._speculative_sampling, made))


hf_argmax_raw_q = make_engine(
    "hf-argmax-raw-q",
    f"transformers/generation/candidate_generator.py:{GEMMA_CANDIDATE_GENERATOR}.get_candidates",
    "transformers>=5.22,<6",
    "input_ids model_kwargs model_outputs is_first_iteration",
    _load_gemma,
    contract="step",
    tolerance=1e-9,
    note=GEMMA_NOTE,
    whole=True,
)


# The whole ``generate``, sampled, with three ways to draft.
#
# With an assistant model; with n-grams of the prompt, in which every token stands once; and with an
# assistant that has one word more than the target, and lists its words in another order. It is
# asked for gamma + 1 tokens, in as many rounds as that takes, at temperature 2 of doubled logits.


CANDIDATE_GENERATORS = {
    "generate": "AssistedCandidateGenerator",
    "lookup": "PromptLookupCandidateGenerator",
    "universal": "UniversalSpeculativeDecodingGenerator",
}


def _load_generate(way: str, path: Path) -> Callable[..., Any]:
    library = import_package(path.parents[1], TESTED_FILES)
    made, drafters = model_maker(library), library.generation.candidate_generator

    @functools.cache
    def pair(size: int) -> Any:
        lead = torch.arange(size if way == "lookup" else 0)[None]
        more = way == "universal"
        words = IdTokenizer(range(size)), IdTokenizer(range(size, -1, -1))
        with without_weight_draws():
            model, assistant = made(size, lead.shape[1]), made(size + more)
            if more:
                drafters.AssistantVocabTranslatorCache.get_translator(*words, size, assistant, True)
        named = dict(zip(("tokenizer", "assistant_tokenizer"), words, strict=True)) if more else {}
        return model, assistant, lead, {"assistant_model": assistant, **named}

    def loop(target: RowsModel, draft: RowsModel, ids: Any, gamma: int) -> Any:
        model, assistant, lead, options = pair(target.vocab)
        model.table, assistant.table = target, draft
        assistant.generation_config.num_assistant_tokens = gamma
        options = {"prompt_lookup_num_tokens": gamma} if way == "lookup" else options
        options |= {"do_sample": True, "top_k": 0, "temperature": 2.0, "max_new_tokens": gamma + 1}
        return model.generate(torch.cat([lead, ids], dim=1), **options)[:, lead.shape[1] :]

    counted = (
        library.GenerationMixin._assisted_decoding,
        getattr(drafters, CANDIDATE_GENERATORS[way]),
    )
    return loop_as_step(loop, partial(RowsModel, temperature=2.0), counted)


GENERATE_NOTE = (
    "in 5.22.2 to 5.24.0 the mistake is in get_target_logits of candidate_generator.py, far "
    "before the line named here: docs/reference/findings-servers.md"
)
GENERATE_ENGINES = tuple(
    make_engine(
        f"transformers-{way}",
        f"{FILE}:GenerationMixin.generate",
        "transformers>=5.22,<6",
        "inputs assistant_model kwargs",
        partial(_load_generate, way),
        whole=True,
        note=GENERATE_NOTE if way == "universal" else "",
        **LOOP_FIELDS | {"vocab": 2},
    )
    for way in CANDIDATE_GENERATORS
)


# The function with its own option, as an ensemble of target and draft: lossy by design.
#
# ``hf-ensemble-0.9`` and ``hf-ensemble-0.99`` are so by a known amount. With v = w p + (1-w) q its
# acceptance is min(1, v/q), and the residual (v - q)+ normalises to (p - q)+: speculative sampling
# of v, and TV(v, p) = (1 - w) TV(p, q), a dose of known size.


ENSEMBLE_ENGINES = tuple(
    _speculative_sampling_engine(
        f"hf-ensemble-{weight:g}",
        ">=5.23,<6",
        "assistant_ensemble_weight",
        "called with the option assistant_ensemble_weight, which is lossy by design",
        assistant_ensemble_weight=weight,
    )
    for weight in (0.9, 0.99)
)


# Hierarchical Speculative Decoding: ``_speculative_sampling`` of its Transformers.
#
# Three of its rules: backward and clever, which the paper calls lossless; block; token. Its file
# mixes tabs and spaces, so that Python does not read it: tabs are taken for four columns here.


HSD_TAB_SIZE = 4
HSD_RULE_OPTIONS: dict[str, dict[str, bool]] = {
    "clever": {"backward": True, "clever": True},
    "blockwise": {"blockwise": True},
    "tokenwise": {},
}


def _load_hsd(options: dict[str, bool], path: Path) -> VerifyFunction:
    known = function_parameters(path, FUNCTION, tab=HSD_TAB_SIZE)
    if missing := sorted({*options, "is_done_candidate", "stop"}.difference(known)):
        raise SimverifyError(f"{FUNCTION} of {path} takes no {', '.join(missing)}")
    rule = load_function(path, FUNCTION, tab=HSD_TAB_SIZE)

    def verify(draft_tokens: Any, target: Any, draft: Any, draft_len: Any) -> Any:
        gamma, done = draft_tokens.shape[1], draft_len < 0
        never = lambda *_, **__: False  # noqa: E731
        return rule(draft_tokens, draft, gamma, target, done, stop=never, **options)[0]

    return as_verify(verify, LOGITS)


HSD_ENGINES = tuple(
    make_engine(
        f"hsd-{name}",
        f"{FILE}:{FUNCTION}",
        "ZhouYuxuanYX/Hierarchical-Speculative-Decoding@b8575e2",
        "",
        partial(_load_hsd, options),
    )
    for name, options in HSD_RULE_OPTIONS.items()
)


@block_engine(
    "spec-bench-sps",
    f"model/sps/decoding.py:{FUNCTION}",
    "hemingkx/Spec-Bench@fd2c1cd",
    f"{PARAMETERS} last_assistant_token_is_eos max_matches",
)
def spec_bench(rule: Any, draft_tokens: Any, target: Any, draft: Any, _: Any) -> Any:
    """Spec-Bench's, of its plain speculative decoding, with room for every match and no end."""
    gamma = draft_tokens.shape[1]
    return rule(draft_tokens, draft, gamma, target, False, gamma + 1)[0]
