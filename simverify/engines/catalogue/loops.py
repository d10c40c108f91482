"""Engines' decoding loops, which draft by themselves, in the order of their names.

Each is called with two models whose probabilities are the audit's rows, for one block or for as
many rounds as gamma + 1 tokens take.
"""

import itertools
import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from simverify.engines.declare import LOOP_FIELDS, loop_engine, make_engine, step_engine
from simverify.engines.extract import (
    NO_OPERATION,
    SAMPLING_SETTINGS,
    CoinSampler,
    jax,
    jax_key,
    load_function,
    load_names,
    load_pieces,
    mx,
    rearrange,
    sample_logits,
    torch,
)
from simverify.engines.fake_models import (
    BOS_TOKEN,
    BlockMask,
    FixedPromptTokenizer,
    LayerCache,
    LayeredModel,
    LoopEnded,
    PositionedCache,
    PositionedCacheModel,
    PositionedModel,
    RowFunction,
    RowsModel,
    loop_as_step,
    make_prompt,
    shift_rows,
    trim_cache,
)


class DrsyModel(RowsModel):
    """A model that remembers what it was fed last; the target is fed no token to begin with."""

    def __call__(self, input_ids: Any = None, *given: Any, **options: Any) -> Any:
        """Return what any :class:`RowsModel` does."""
        self.fed = input_ids
        return super().__call__(input_ids, *given, **options)


@loop_engine(
    "drsy",
    "/main.py:speculative_sampling",
    "DRSY/SpeculativeDecoding@404198a",
    "input_prompt tgt_model draft_model tokenizer k gen_kwargs",
    model=DrsyModel,
    given={
        "Color": SimpleNamespace(print=NO_OPERATION),
        "model": SimpleNamespace(device="cpu"),
        "time": itertools.count().__next__,
    },
)
def drsy(rule: Any, target: DrsyModel, draft: DrsyModel, ids: Any, gamma: int) -> Any:
    """DRSY's returns text: the prompt, its last token again, and what it drew but the last token.

    That is the last one that the draft model was fed.
    """
    options = {"max_new_tokens": 1, "top_p": 1.0, "temperature": 1.0}
    text = rule("", target, draft, FixedPromptTokenizer(ids), gamma, options)
    return [*text[ids.shape[1] + 1 :], int(draft.fed[0, -1])]


# ExLlamaV2: ``_gen_single_token_speculative`` of its streaming generator: a token a call.
#
# It drafts greedily, and keeps the draft and the target's rows between calls: a rule with state.
# Its sampler is C++ and is given ``random.random()``; an inverse distribution function stands for
# it.


EXLLAMAV2_METHOD = "ExLlamaV2StreamingGenerator._gen_single_token_speculative"
EXLLAMAV2_NONES = (
    "future_tokens future_logits input_mask position_offsets tokenizer active_loras "
    "current_blocked_tokens filters filter_prefer_eos"
)
EXLLAMAV2_ZEROS = (
    "total_draft_tokens accepted_draft_tokens total_tokens return_top_tokens "
    "speculative_prob_threshold"
)
"""What the method finds in its generator at the start."""


def _load_exllamav2(path: Path) -> Callable[..., Any]:
    call = load_function(path, EXLLAMAV2_METHOD, ExLlamaV2Sampler=CoinSampler)

    class Rule:
        """The generator's state, of one generation."""

        def reset(self) -> None:
            self.state = SimpleNamespace(
                **dict.fromkeys(EXLLAMAV2_NONES.split()),
                **dict.fromkeys(EXLLAMAV2_ZEROS.split(), 0),
            )

        def step(self, prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> list[int]:
            state, ids = self.state, make_prompt(prefix)
            if not hasattr(state, "cache"):
                seen = ids[0, :-1].tolist()  # The prompt but its end is cached.
                state.cache, state.draft_cache = map(PositionedCache, [seen, seen])
            state.model, state.draft_model = (
                PositionedCacheModel(of, prefix) for of in (target, draft)
            )
            state.sequence_ids, state.num_speculative_tokens = ids, gamma
            return [int(call(state, SAMPLING_SETTINGS)[0])]

    return Rule


exllamav2 = make_engine(
    "exllamav2",
    f"exllamav2/generator/streaming.py:{EXLLAMAV2_METHOD}",
    "exllamav2>=0.3.2,<0.4",
    "gen_settings",
    _load_exllamav2,
    **LOOP_FIELDS,
)


# LLMSpeculativeSampling: ``speculative_sampling`` (Google's) and ``_v2`` (DeepMind's).
#
# Its ``sample`` raises ``RuntimeError`` where token 0 is drawn. ``feifeibear-google`` and
# ``feifeibear-deepmind`` never draw it: ids are one higher; ``feifeibear-as-is`` does.


FEIFEIBEAR_NOTE = (
    "the adapter makes ids one higher, as its code raises on token 0: see feifeibear-as-is"
)


def _load_feifeibear(function: str, shift: int, path: Path) -> Callable[..., Any]:
    given = load_names(path.parent / "utils.py", ("norm_logits", "sample", "max_fn"))
    given |= {"BloomForCausalLM": SimpleNamespace}
    cache = load_names(path.parent / "kvcache_model.py", ["KVCacheModel"], **given)
    bar = nullcontext(SimpleNamespace(n=0, update=lambda _: None))
    rule = load_function(path, function, **given, **cache, tqdm=lambda **_: bar, Decoder=None)

    def step(prefix: Any, target: RowFunction, draft: RowFunction, gamma: int, rng: Any) -> Any:
        context = tuple(token + shift for token in prefix)
        models = (RowsModel(shift_rows(rows, shift), context) for rows in (draft, target))
        ids = make_prompt(context)
        tokens = rule(ids, *models, 1, gamma=gamma)[0, ids.shape[1] :]
        return [token - shift for token in tokens.tolist()]

    return step


FEIFEIBEAR_ENGINES = tuple(
    make_engine(
        f"feifeibear-{name}",
        f"sampling/speculative_sampling.py:{function}",
        "feifeibear/LLMSpeculativeSampling@59a209d",
        "prefix approx_model target_model max_len gamma",
        partial(_load_feifeibear, function, shift),
        note=FEIFEIBEAR_NOTE if shift else "",
        **LOOP_FIELDS,
    )
    for name, function, shift in (
        ("google", "speculative_sampling", 1),
        ("deepmind", "speculative_sampling_v2", 1),
        ("as-is", "speculative_sampling", 0),
    )
)


# gpt-fast: ``speculative_decode``, one block drafted and verified.
#
# At this commit it does not run: its ``sample`` keeps the batch axis, and drafts of shape (k, 1) do
# not join the current token. ``gpt-fast-as-is`` is that; ``gpt-fast`` drops the axis, for the rule.


class GptFastModel(PositionedModel):
    """Called with the mask before the ids, as its drafts are, or without, as its target is."""

    max_seq_length = 64

    def __call__(self, *given: Any) -> Any:  # type: ignore[override]
        """Return the logits (1, L, V)."""
        return super().__call__(*given[-2:])


def _load_gpt_fast(path: Path, *, flat: bool) -> Any:
    mask = lambda *_, **__: BlockMask()  # noqa: E731
    pieces = load_pieces(path, ["speculative_decode"], create_block_mask=mask)
    drafting = pieces.decode_n_tokens

    def flattened(*given: Any, **options: Any) -> Any:
        return [[x.view(-1) for x in each] for each in drafting(*given, **options)]

    if flat:
        vars(pieces)["decode_n_tokens"] = flattened
    return pieces.speculative_decode


def _gpt_fast(rule: Any, target: Any, draft: Any, ids: Any, gamma: int) -> Any:
    return rule(target, draft, ids[0, -1], ids.shape[1] - 1, gamma)


GPT_FAST_NOTE = (
    "the adapter takes the batch axis off its drafts, or it would not run: see gpt-fast-as-is"
)
GPT_FAST_ENGINES = tuple(
    loop_engine(
        name,
        "/generate.py:speculative_decode",
        "meta-pytorch/gpt-fast@6ecad9b",
        "model draft_model cur_token input_pos speculate_k",
        model=GptFastModel,
        load=partial(_load_gpt_fast, flat=bool(note)),
        note=note,
    )(_gpt_fast)
    for name, note in (("gpt-fast", GPT_FAST_NOTE), ("gpt-fast-as-is", ""))
)


# GPTFast: ``speculative_decode_eager``, given a draft that returns as many rows as its assertion
# wants, and ``speculative_decode_kv_cache``, on its own ``KVCacheModel`` over rows.


GPTFAST_FILE, GPTFAST = "GPTFast/Core/Decode/SpeculativeDecode.py", "MDK8888/GPTFast@926b755"


@step_engine(
    "gptfast-eager",
    f"{GPTFAST_FILE}:speculative_decode_eager",
    GPTFAST,
    "cur_tokens speculate_k",
)
def gptfast_eager(rule: Any, prefix: Any, target: Any, draft: Any, gamma: int, _: Any) -> Any:
    """The function without a cache."""
    drafting = RowsModel(draft, prefix)

    def drafts(input_ids: Any, length: int) -> Any:
        tokens, rows = input_ids, []
        for _ in range(length):
            rows.append(drafting.logits(tokens[0].tolist())[0, -1].exp())
            tokens = torch.cat([tokens, torch.multinomial(rows[-1], 1)[None]], 1)
        return tokens[:, -length:], torch.stack([*rows, rows[-1]])

    model = SimpleNamespace(
        draft_model=SimpleNamespace(decode_function=drafts),
        forward=RowsModel(target, prefix),
        sample=lambda row: torch.multinomial(row, 1)[0],
    )
    return rule(model, make_prompt(prefix), gamma)[0]


GPTFAST_UNUSED_NAMES = (
    "BloomForCausalLM KVCache add_default_parameter add_input_pos_to_func_str add_str_as_func "
    "get_method_str modify_function_block modify_if_block shift_right"
)
"""Names by which the cache changes a model's source when it is built, which it is not here."""


def _load_gptfast_kv(path: Path) -> tuple[Any, Any]:
    file = path.parents[1] / "KVCache" / "KVCacheModel.py"
    unused: dict[str, Any] = dict.fromkeys(GPTFAST_UNUSED_NAMES.split())
    make = load_function(file, "KVCacheModel", **unused)
    return load_function(path, "speculative_decode_kv_cache", KVCacheModel=make), make


@step_engine(
    "gptfast-kv",
    f"{GPTFAST_FILE}:speculative_decode_kv_cache",
    GPTFAST,
    "uncached_tokens speculate_k",
    load=_load_gptfast_kv,
)
def gptfast_kv(pieces: Any, prefix: Any, target: Any, draft: Any, gamma: int, _: Any) -> Any:
    """The function with a cache."""
    rule, make = pieces

    def cached(rows: RowFunction) -> Any:
        fed = PositionedModel(rows, prefix)
        model = make.__new__(make)
        torch.nn.Module.__init__(model)
        model.device, model._cached_len = torch.device("cpu"), len(prefix)
        model._model = lambda input_ids, input_pos, **_: SimpleNamespace(
            logits=fed(input_ids, input_pos)
        )
        # The row of the current token's own place comes before all: one token at least is cached.
        model._prob_history = torch.zeros(1, len(prefix) or 1, fed.vocab, dtype=fed.dtype)
        model._full_key_values = model._dummy_key_values = torch.zeros(1, 2, 1, 1, 64, 1)
        model.sample = lambda row, **_: torch.multinomial(row.reshape(1, -1), 1)
        return model

    model, model.draft_model = cached(target), cached(draft)
    return rule(model, make_prompt(prefix)[:, -1:], gamma)[0]


@step_engine(
    "jaymody",
    "/main.py:speculative_sampling",
    "jaymody/speculative-sampling@03b4759",
    "x draft_model target_model N K",
    given={"tqdm": lambda **_: nullcontext(SimpleNamespace(update=NO_OPERATION))},
)
def jaymody(rule: Any, prefix: Any, target: Any, draft: Any, gamma: int, _: Any) -> Any:
    """Jaymody's is in numpy: a model gives the probabilities (L, V) after each of its ids (L,)."""

    def model(rows: RowFunction) -> Callable[[Any], Any]:
        logits = RowsModel(rows, prefix).logits
        return lambda ids: logits(ids.tolist())[0].exp().numpy()

    ids = np.array([BOS_TOKEN, *prefix])
    return rule(ids, model(draft), model(target), 1, gamma)[len(ids) :]


class LimeiModel(RowsModel):
    """A model that appends what it is fed to the cache that it is handed, a list of tokens."""

    def __call__(self, ids: Any, past_key_values: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """Return the logits (1, L, V) of the ids (1, L), in a tuple."""
        return (self.continued(past_key_values, ids),)


@loop_engine(
    "limei",
    "/speculative_decoding.py:SpeculativeDecoder._verify_draft_tokens",
    "limei1221/speculative_decoding@42f2bd1",
    "draft_tokens draft_token_probs",
    model=LimeiModel,
    load=partial(load_pieces, names=["SpeculativeDecoder", "SpeculativeConfig"], truncate_kv=None),
)
def limei(pieces: Any, target: Any, draft: Any, ids: Any, gamma: int) -> Any:
    """limei1221's is a round of its ``SpeculativeDecoder``, its two methods in a row."""
    config = pieces.SpeculativeConfig(gamma=gamma, temperature=1.0, top_p=1.0, top_k=0)
    decoder = pieces.SpeculativeDecoder(target, draft, None, config, "cpu")
    decoder.next_token = ids[:, -1:]
    decoder.draft_kv_cache, decoder.target_kv_cache = (ids[0, :-1].tolist() for _ in range(2))
    accepted, _, token = decoder._verify_draft_tokens(*decoder._generate_draft_tokens())
    return [*accepted[0].tolist(), token.item()]


# LitGPT: at temperature 1, and on doubled logits at 2: softmax(2 log p / 2) = p, so that the target
# is the same.


class LitgptModel(PositionedModel):
    """A model under the names of LitGPT's."""

    def __call__(self, idx: Any, input_pos: Any, input_pos_maxp1: int) -> Any:  # type: ignore[override]
        """Return the logits (1, L, V) of ``idx`` (1, L) at the positions (L,)."""
        return super().__call__(idx, input_pos)


def _litgpt(rule: Any, target: Any, draft: Any, ids: Any, gamma: int) -> Any:
    place = ids.shape[1] - 1
    options = {} if target.temperature == 1 else {"temperature": target.temperature}
    given = draft, target, ids[0, -1:], torch.tensor([place]), place + 1, gamma
    return rule(*given, **options)


LITGPT_ENGINES = tuple(
    loop_engine(
        name,
        "litgpt/generate/speculative_decoding.py:speculative_decoding",
        "litgpt>=0.5.13,<0.6",
        "draft_model target_model token input_pos input_pos_maxp1 speculative_k sample_kwargs",
        model=partial(LitgptModel, temperature=temperature),
        given={
            # Its own asks torch._dynamo first whether it is compiled, and is this if it is not.
            "multinomial_num_samples_1": lambda probs: torch.multinomial(probs, num_samples=1),
            "sample_top_p": None,
        },
    )(_litgpt)
    for name, temperature in (("litgpt", 1.0), ("litgpt-hot", 2.0))
)


# llama-ssp: ``_ssp_iteration``, one block drafted and verified.
#
# It samples at its constant ``TEMPERATURE``, which the rows undo.


def _load_llama_ssp(path: Path) -> Callable[..., Any]:
    tokenizer = SimpleNamespace(decode=lambda *_, **__: "")
    names = ["get_temperature_distribution", "sample_fn", "stream_token_if_required", "TEMPERATURE"]
    base = load_names(path.parent / "base.py", names, tokenizer=tokenizer)
    given = {**base, "tokenizer": tokenizer, "debug": NO_OPERATION}
    rule = load_function(path, "_ssp_iteration", **given)
    return loop_as_step(rule, partial(RowsModel, temperature=base["TEMPERATURE"]))


llama_ssp = make_engine(
    "llama-ssp",
    "lssp/ssp.py:_ssp_iteration",
    "dust-tt/llama-ssp@29bed13",
    "target_model draft_model input_ids K",
    _load_llama_ssp,
    **LOOP_FIELDS,
)


class LucidrainsModel(RowsModel):
    """A net whose cache is its tokens, along the axis that the loop cuts."""

    calls: float = math.inf

    def __call__(self, out: Any, **_: Any) -> tuple[Any, Any]:  # type: ignore[override]
        """Return the logits (1, L, V) of all ids (1, L), and the cache (1, L, 1)."""
        if not self.calls:
            raise LoopEnded(out)
        self.calls -= 1
        return self.logits(out[0].tolist()), (out.double()[..., None], None)


@loop_engine(
    "lucidrains",
    "speculative_decoding/speculative_decoding.py:speculative_decoding",
    "speculative-decoding>=0.2,<0.3",
    "net small_net prompt seq_len gamma filter_thres",
    model=LucidrainsModel,
    given={"rearrange": rearrange},
)
def lucidrains(
    rule: Any, target: LucidrainsModel, draft: LucidrainsModel, ids: Any, gamma: int
) -> Any:
    """Lucidrains' is a round of a loop; ``filter_thres=0`` keeps every token.

    It runs until enough tokens are out: the draft's net ends it where a second round begins.
    """
    draft.calls, length = gamma, ids.shape[1] + gamma + 1
    return rule(target, draft, ids, length, gamma=gamma, filter_thres=0.0)[0][0]


class MiniInferModel(RowsModel):
    """A model that returns its logits and nothing for a cache."""

    def __call__(self, ids: Any) -> tuple[Any, None]:  # type: ignore[override]
        """Return the logits (1, L, V) of all ids (1, L)."""
        return self.logits(ids[0].tolist()), None


@loop_engine(
    "mini-infer",
    "mini_infer/speculative/verifier.py:speculative_step",
    "mini-infer>=0.2.5,<0.3",
    "target_model draft_model prefix_ids k_draft temperature",
    model=MiniInferModel,
)
def mini_infer(rule: Any, target: Any, draft: Any, ids: Any, gamma: int) -> Any:
    """mini-infer's, at temperature 1 and without a cache."""
    return rule(target, draft, ids, k_draft=gamma, temperature=1.0)[0]


@loop_engine(
    "mlx-lm",
    "mlx_lm/generate.py:speculative_generate_step",
    "mlx-lm>=0.32.2,<0.33",
    "prompt model draft_model num_draft_tokens max_tokens sampler",
    model=LayeredModel,
    given={
        "mx": mx,
        "make_prompt_cache": lambda model: [LayerCache()],
        "can_trim_prompt_cache": lambda cache: True,
        "trim_prompt_cache": trim_cache,
        "maybe_quantize_kv_cache": NO_OPERATION,
        "generation_stream": None,
        "greedy_sampler": None,
    },
)
def mlx_lm(rule: Any, target: Any, draft: Any, ids: Any, gamma: int) -> list[int]:
    """MLX-LM's up to the first token that is no draft.

    The target samples at every place, and drafts that match are kept. Its arrays are numpy's here,
    and the sampler, which it is given, draws with torch: mlx draws in compiled code.
    """
    tokens: list[int] = []
    options = {"num_draft_tokens": gamma, "max_tokens": gamma + 1, "sampler": sample_logits}
    for token, _, drafted in rule(ids[0].numpy(), target, draft, **options):
        tokens.append(int(token))
        if not drafted:
            break
    return tokens


def _load_romsto(path: Path) -> tuple[Any, Any]:
    names = ("GreedyProcessor", "MultinomialProcessor")
    processors = load_pieces(path.parents[1] / "utils" / "logits_processor.py", names)
    given = {"GreedyProcessor": processors.GreedyProcessor, "printing": None, "prune_cache": None}
    rule = load_function(path, "speculative_generate", **given)
    return rule, processors.MultinomialProcessor(1.0)


@loop_engine(
    "romsto",
    "sampling/speculative_decoding.py:speculative_generate",
    "romsto/Speculative-Decoding@db7db67",
    "inputs drafter target gamma logits_processor max_gen_len eos_tokens_id first_target",
    load=_load_romsto,
)
def romsto(pieces: Any, target: Any, draft: Any, ids: Any, gamma: int) -> Any:
    """Romsto's is asked for gamma + 1 tokens, in as many rounds as that needs.

    It has no cache, and draws no first token of the target's, which would come before any draft.
    """
    rule, sampling = pieces
    options = {"max_gen_len": gamma + 1, "eos_tokens_id": -1, "first_target": False}
    given = ids[0].tolist(), draft, target
    return rule(*given, gamma=gamma, logits_processor=sampling, **options)[0]


# sequential-speculative-decoding: its steps, standard and hierarchical (naive and capped).


def _seqspec(rule: Any, target: Any, draft: Any, ids: Any, gamma: int) -> Any:
    temperatures = {"draft_temperature": 1.0, "target_temperature": 1.0}
    return rule(draft, target, ids, gamma=gamma, **temperatures)[0]


SEQSPEC_ENGINES = tuple(
    loop_engine(
        f"seqspec-{name}",
        f"seqspecdecod/{file}.py:{function}",
        "sequential-speculative-decoding>=0.1.1,<0.2",
        "draft_model target_model input_ids gamma draft_temperature target_temperature",
        beside={"sampling.py": "get_logits apply_temperature sample_from_probs"},
    )(_seqspec)
    for name, file, function in (
        ("standard", "standard_sd", "standard_speculative_step"),
        ("naive", "naive_hsd", "naive_hsd_step"),
        ("capped", "capped_hsd", "capped_hsd_step"),
    )
)


@loop_engine(
    "shreyansh-old",
    "/speculative_sampling.py:speculative_sampling",
    "shreyansh26/Speculative-Sampling@81fb3b2",
    "target_model draft_model initial_prompt_seq target_len tokenizer lookahead debug",
    beside={"utils.py": "sample_from_draft_model get_distribution sample"},
)
def shreyansh_old(rule: Any, target: Any, draft: Any, ids: Any, gamma: int) -> Any:
    """shreyansh26's, of the older of two repositories."""
    return rule(target, draft, ids, ids.shape[1] + 1, None, lookahead=gamma, debug=False)


SQUISH_METHOD = "SpeculativeGenerator._stateless_spec_stream"


@step_engine(
    "squish",
    f"squish/speculative/speculative.py:{SQUISH_METHOD}",
    "konjoai/squish@4dd6f62",
    "ids max_tokens temperature top_p stop_ids eos_id",
    given={
        "logger": SimpleNamespace(debug=NO_OPERATION),
        "_get_logits": lambda model, ids: model.logits(ids)[0, -1].numpy(),
        "_get_all_logits": lambda model, ids, n: model.logits(ids)[0, -n:].numpy(),
    },
)
def squish(rule: Any, prefix: Any, target: Any, draft: Any, gamma: int, _: Any) -> Any:
    """Squish's is a stream in numpy; the two functions that run mlx are rows here.

    It is asked for gamma + 1 tokens, and takes as many rounds as that needs.
    """
    generator = SimpleNamespace(
        _draft=RowsModel(draft, prefix),
        _target=RowsModel(target, prefix),
        _k=gamma,
        accepted_total=0,
        proposed_total=0,
        steps=0,
        acceptance_rate=0.0,
        _tok_text=int,
        _update_fsm=NO_OPERATION,
    )
    stream = rule(generator, [BOS_TOKEN, *prefix], gamma + 1, 1.0, 1.0, [], -1)
    return [token for token, _ in stream]


# toyllm: ``SpsTextGenerator.generate``.
#
# It draws tokens from torch's global generator, and coins from a numpy generator that every object
# seeds with 42. ``toyllm`` hands it another generator; ``toyllm-as-is`` leaves it as it is.


class ToyllmModel(RowsModel):
    """A model that is asked for probabilities, and for its device by a call."""

    def __init__(self, rows: RowFunction, prefix: Any) -> None:
        super().__init__(rows, prefix)
        self.device = lambda: "cpu"

    def inference(self, tokens: Any, _: Any) -> Any:
        """Return the probabilities (L, V) after each of the tokens (L,)."""
        return self.logits(tokens.tolist())[0].exp()


def _load_toyllm(path: Path, *, seeded: bool) -> Callable[..., Any]:
    given: dict[str, Any] = {"GenerationConfig": object, "print": NO_OPERATION}
    make = load_function(path, "SpsTextGenerator", **given)

    def step(prefix: Any, target: RowFunction, draft: RowFunction, gamma: int, rng: Any) -> Any:
        tokenizer = FixedPromptTokenizer([BOS_TOKEN, *prefix])
        generator = make(tokenizer, ToyllmModel(target, prefix), ToyllmModel(draft, prefix), gamma)
        if not seeded:
            generator.rng = rng
        return generator.generate("", SimpleNamespace(max_new_tokens=1))[1 + len(prefix) :]

    return step


TOYLLM_NOTE = (
    "the adapter replaces the generator of coins, which is seeded with 42: see toyllm-as-is"
)
TOYLLM_ENGINES = tuple(
    make_engine(
        name,
        "toyllm/sps/generate.py:SpsTextGenerator.generate",
        "ai-glimpse/toyllm@1a3c832",
        "prompt config",
        partial(_load_toyllm, seeded=not note),
        note=note,
        **LOOP_FIELDS,
    )
    for name, note in (("toyllm", TOYLLM_NOTE), ("toyllm-as-is", ""))
)


# tunix: the sampler of its rollouts, in JAX. It drafts nothing: one token a call.


@step_engine(
    "tunix",
    "tunix/generate/sampler.py:sample_top_p",
    "google-tunix>=0.1.7,<0.2",
    "logits key temperature top_p top_k",
    needs=("jax",),
)
def tunix(rule: Any, prefix: Any, target: Any, draft: Any, gamma: int, rng: Any) -> list[int]:
    """Draw by Tunix at temperature 1; its top-k is the whole vocabulary, so nothing is cut."""
    row = jax.numpy.asarray(target(prefix))
    logits = jax.numpy.log(row)[None, None]
    return rule(logits, jax_key(rng), 1.0, 1.0, len(row))[0].tolist()  # type: ignore[no-any-return]
