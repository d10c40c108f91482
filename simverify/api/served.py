"""Engines that serve tokens, judged by their answers.

``simverify.audit_outputs``, ``audit_engine``, ``audit_against``, ``matrix``, ``triage`` and
``watch``.
"""

import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from simverify.api.real import (
    BUNDLED_MODEL,
    RealModelOptions,
    check_json,
    check_law,
    declared_law,
    mask_of,
)
from simverify.checks import pick_name
from simverify.errors import OptionError, UsageError
from simverify.options.modes import keywords
from simverify.options.option import Dtype, words_of
from simverify.options.served import (
    AgainstOptions,
    EngineOptions,
    MatrixOptions,
    OutputOptions,
    TriageOptions,
    TwoEngineOptions,
    WatchOptions,
)
from simverify.results import AgainstRun, AskedFor, MatrixRun, OutputRun, TriageRun, WatchRun
from simverify.results.reading import check_writable

if TYPE_CHECKING:
    from simverify.models.transformer import TransformerPair
    from simverify.served import Endpoint
    from simverify.served.answers import AgainstSettings
    from simverify.served.counters import Counters
    from simverify.served.requests import Request
    from simverify.served.triage_explanations import LoggedAnswer


# A server, as the options of any command name it.


def server_of(options: Any, address: str, usual: int | None = None) -> "Endpoint":
    """Return the server at ``address``; ``UsageError`` for an address that is none.

    ``usual``: limit of one completion if the options name none.
    """
    from simverify.served import Endpoint

    limit = (usual or Endpoint.max_tokens) if options.max_tokens is None else options.max_tokens
    seconds = Endpoint.timeout if options.timeout is None else options.timeout
    extra = check_extra_body(options)
    return Endpoint(address, options.served_model, limit, extra, seconds)


def check_extra_body(options: Any) -> Any:
    """Return the fields of ``extra_body``; ``UsageError`` for what is no object."""
    return check_json(options.extra_body or {}, "extra_body", dict)


def refuse_seed(options: Any) -> None:
    """Raise ``UsageError`` for one seed for all requests, whose answers share random numbers."""
    seed = check_extra_body(options).get("seed")
    if seed not in (None, -1) and getattr(options, "temperature", None) != 0.0:
        raise OptionError(
            f"{{extra_body}} has seed {seed}: all requests would share their random numbers, and "
            f"nothing could be judged; leave it out"
        )


def is_address(name: object) -> bool:
    """Tell the address of a server from the name of a file."""
    return str(name).startswith(("http://", "https://"))


T = TypeVar("T")


def _settings(kind: type[T], options: Any, **more: Any) -> T:
    """Return the settings that options give, by the names of their fields; the rest by default."""
    given = {name: getattr(options, name, None) for name in vars(kind())} | more
    return kind(**{name: value for name, value in given.items() if value is not None})


def _refuse(options: Any, names: Iterable[str], why: str) -> None:
    """Raise ``OptionError`` if one of the named options is given."""
    for name in names:
        if getattr(options, name) is not None:
            raise OptionError(f"{{{name}}} {why}")


# ``simverify.audit_against``: two servers, or two files of answers, against each other.


@keywords(TwoEngineOptions)
def audit_against(options: TwoEngineOptions) -> AgainstRun:
    """Judge whether two engines answer the same prompts by one distribution; it needs no model.

    Returns
    -------
    AgainstRun
        ``run.verdict``; ``print(run)`` shows it.

    Raises
    ------
    UsageError
        A value out of range, a missing file, answers that cannot be compared, a server that does
        not answer.
    """
    served = is_address(options.first)
    both = AgainstOptions(
        **{name: value for name, value in vars(options).items() if name not in ("first", "second")},
        outputs=None if served else options.first,
        endpoint=str(options.first) if served else None,
        against=str(options.second),
    )
    check_against(both)
    return compare_engines(both)


def compare_engines(options: AgainstOptions) -> AgainstRun:
    """Compare two engines, whose options were checked."""
    from simverify.served.answers import AgainstSettings, pair_answers, read_answers
    from simverify.served.two_sample import AnswerSources, audit_against, second_answer_file

    assert options.against is not None
    settings = _settings(AgainstSettings, options)
    if options.endpoint is not None:
        return _compare_servers(options, settings)
    first, second = str(options.outputs), options.against
    outputs, against = Path(first), Path(second)
    pairs = pair_answers(read_answers(outputs, "outputs"), read_answers(against, "against"))
    again = _against_command(options, first, second, settings.detect)
    together = second_answer_file(outputs) == against
    return audit_against(
        pairs, AnswerSources(first, second, again, side_by_side=together), settings
    )


def _compare_servers(options: AgainstOptions, settings: "AgainstSettings") -> AgainstRun:
    from simverify.served import two_sample
    from simverify.served.answers import MAX_TOKENS, pair_answers
    from simverify.served.requests import read_prompts_and_chats

    assert options.endpoint is not None
    assert options.against is not None
    real = RealModelOptions.of(options)
    law = real.sampling()
    assert real.prompts is not None
    first, second = options.endpoint, options.against
    endpoints = (
        server_of(options, first, MAX_TOKENS),
        server_of(replace(options, served_model=options.against_model), second, MAX_TOKENS),
    )
    limit = endpoints[0].max_tokens
    # Once each: what is asked twice as often would be two prompts of one name.
    prompts = tuple(dict.fromkeys(read_prompts_and_chats(real.prompts)))
    options.say(settings.plan(len(prompts), limit))
    keep = None if options.keep is None else Path(options.keep)
    answers = two_sample.collect_in_rounds(
        endpoints,
        prompts,
        law,
        settings,
        concurrency=options.concurrency,
        keep=keep,
        say=options.say,
    )
    if keep is not None:
        first, second = str(keep), str(two_sample.second_answer_file(keep))
    asked = {name: getattr(law, name) for name in ("temperature", "top_k", "top_p")}
    sources = two_sample.AnswerSources(
        options.endpoint,
        options.against,
        _against_command(options, first, second, settings.detect),
        planned=answers.planned,
        endpoint=True,
        side_by_side=True,
        notes=answers.notes,
        asked=AskedFor(max_tokens=limit, **asked),
    )
    pairs = pair_answers(answers.first, answers.second)
    return two_sample.audit_against(pairs, sources, settings)


def check_against(options: AgainstOptions) -> None:
    """Raise ``UsageError`` for options that do not go together, or a file that cannot be kept."""
    if options.outputs is not None and options.endpoint is not None:
        raise OptionError("{outputs} and {endpoint} are two sources: name one, and {against}")
    if options.outputs is None and options.endpoint is None:
        raise OptionError("{against} is one of two: name the other, as {outputs} or {endpoint}")
    assert options.against is not None
    served = is_address(options.against)
    if served and options.endpoint is None:
        raise OptionError("{against} is a server: name another as {endpoint}, or two files")
    if not served and options.endpoint is not None:
        expected = "expected http://HOST:PORT, as for {endpoint}"
        raise OptionError(f"{{against}} is {options.against}: {expected}")
    if options.endpoint is None:
        _refuse(options, _ASKED_OF_BOTH, "is for {endpoint}: two files hold what was asked")
        return
    if options.prompts is None:
        raise OptionError("{prompts} is missing: both are asked to answer them")
    if options.temperature == 0.0:
        raise OptionError(
            "{temperature} is 0: an engine would repeat its answer, and nothing is drawn that "
            "could be tested; expected more"
        )
    if options.max_tokens == 1:
        raise OptionError(
            "{max_tokens} is 1: what speculation does shows from an answer's second token on; "
            "expected 2 or more"
        )
    if options.endpoint == options.against and options.served_model == options.against_model:
        raise OptionError("{endpoint} and {against} are one address: name two, or {against_model}")
    if options.keep is not None:
        from simverify.served.two_sample import second_answer_file

        check_writable(Path(options.keep))
        check_writable(second_answer_file(Path(options.keep)))


_ENGINES = ("outputs", "endpoint", "against")
_ASKED_OF_BOTH = tuple(
    name for name in AgainstOptions.names() if name not in (*_ENGINES, "alpha", "detect", "seed")
)
"""Options of two servers, which two files of their answers do not need."""


def _against_command(options: AgainstOptions, first: str, second: str, detect: float) -> str:
    """Return the command that compares the same answers again, or asks again if none are kept."""
    asks = options.endpoint is not None and options.keep is None
    words = replace(options, detect=detect).words(
        always=("alpha", "detect", "seed"),
        without=(*_ENGINES, *(() if asks else _ASKED_OF_BOTH)),
    )
    source = "--endpoint" if asks else "--outputs"
    return shlex.join(["simverify", "audit", source, first, "--against", second, *words])


# ``simverify.matrix``: which parameters of a request a server honours.


@keywords(MatrixOptions)
def matrix(options: MatrixOptions) -> MatrixRun:
    """Ask a server for each parameter at a value that matters, and name what it does with it.

    Returns
    -------
    MatrixRun
        ``run.cells``, each with its outcome; ``print(run)`` shows the table.

    Raises
    ------
    UsageError
        A value out of range, a missing file, a server that does not answer.
    """
    return run_matrix(options)


def run_matrix(options: MatrixOptions) -> MatrixRun:
    """As :func:`matrix`, whose errors name options as the command line does."""
    from simverify.models.distribution import STAGES, check_order
    from simverify.served.matrix import MatrixSettings, audit_matrix
    from simverify.served.requests import read_prompts_and_chats

    if options.endpoint is None:
        raise OptionError("{endpoint} is missing: the server that is asked")
    if options.target is None:
        raise OptionError("{target} is missing: answers are judged by the target's rows")
    if options.prompts is None and options.target != "tiny-llama":
        raise OptionError("{prompts} is missing: the server is asked to answer them")
    if (options.mask is None) != (options.mask_body is None):
        raise OptionError(
            "{mask} and {mask_body} belong together: what may come, and how the server is told"
        )
    refuse_seed(options)
    server = server_of(options, options.endpoint)
    names = () if options.cells is None else tuple(options.cells.split(","))
    settings = _settings(
        MatrixSettings,
        options,
        ball=options.row_tolerance,
        cells=tuple(name.strip() for name in names),
        order=STAGES if options.order is None else check_order(options.order),
        mask=mask_of(options.mask),
        mask_body=check_json(options.mask_body or {}, "mask_body", dict),
    )
    keep = None if options.keep is None else Path(options.keep)
    if keep is not None:
        try:
            keep.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"keep: {keep} cannot be made a folder: {error.strerror}") from None
    real = RealModelOptions.of(options)
    return audit_matrix(
        server,
        real.texts() if real.prompts is None else read_prompts_and_chats(real.prompts),
        real.load(),
        shlex.join(["simverify", "matrix", *options.words(without=("threads",))]),
        settings,
        drafted=options.draft is not None,
        keep=keep,
        progress=options.progress,
    )


# ``simverify.audit_outputs``: tokens that another engine emitted, in a file or on a server.


@keywords(OutputOptions)
def audit_outputs(options: OutputOptions) -> OutputRun:
    """Judge tokens that an engine emitted by the target model that it should follow.

    Returns
    -------
    OutputRun
        ``run.verdict``, ``run.passed``, ``run.findings``; ``print(run)`` shows it.

    Raises
    ------
    UsageError
        A value out of range, a missing file, answers that cannot be judged.
    SimverifyError
        A model that does not load, a server that does not answer.
    """
    check_outputs(options)
    return judge_outputs(options)


@keywords(EngineOptions)
def audit_engine(options: EngineOptions) -> OutputRun:
    """Start an engine, such as openvino-genai, ask it, and judge its tokens.

    Returns
    -------
    OutputRun
        ``run.verdict``; ``print(run)`` shows it.

    Raises
    ------
    UsageError
        An engine that is not known or not installed, a value out of range.
    SimverifyError
        An engine that does not start, or does not answer.
    """
    return judge_engine(options)


def judge_engine(options: EngineOptions) -> OutputRun:
    """As :func:`audit_engine`, whose errors name options as the command line does."""
    from simverify.models.tiny_llama import BUNDLED
    from simverify.served.launch import LOCAL_ENGINES, started

    engine = LOCAL_ENGINES[pick_name(options.rule, LOCAL_ENGINES, "engine")]
    written = options.model is None
    if not written and options.target is None:
        raise OptionError("{target} is missing: the model of {model}, for Transformers")
    if written and options.draft is not None:
        raise OptionError("{draft} needs {model}: the target in the format of the engine")
    with started(
        engine,
        target=None if written else Path(str(options.model)),
        draft=None if options.draft is None else Path(options.draft),
        speculation=options.speculation,
        gamma=options.gamma,
        own_seed=options.own_seed,
        say=options.say,
    ) as running:
        shared = {*OutputOptions.names()} & {*EngineOptions.names()}
        given: dict[str, Any] = {name: getattr(options, name) for name in shared}
        given["endpoint"] = running.address
        given["target"] = options.target or BUNDLED_MODEL
        given["order"] = options.order or engine.order
        given["prompts"] = options.prompts or BUNDLED / "prompts.jsonl"
        bundled = written and options.target in (None, BUNDLED_MODEL)
        given["draft"] = BUNDLED_MODEL if bundled else None
        outputs = OutputOptions(**given, progress=options.progress)
        check_outputs(outputs)
        words = options.words(always=("alpha", "seed"), without=("rule", "threads"))
        again = shlex.join(["simverify", "audit", options.rule, *words])
        return judge_outputs(outputs, running.title, again)


def judge_outputs(
    options: OutputOptions, title: str | None = None, again: str | None = None
) -> OutputRun:
    """Judge the tokens of a file or of a server, whose options were checked.

    ``title``: what is judged, and ``again``: the command that does so again; by default, what the
    options name.
    """
    from simverify import served
    from simverify.models.distribution import PARAMETER_NAMES
    from simverify.served.judge import count_changed_tokens, retokenisation_words
    from simverify.served.requests import prompt_ids, read_prompts_and_chats

    say = options.say
    name = options.endpoint if options.outputs is None else str(options.outputs)
    assert name is not None
    settings = _settings(served.OutputSettings, options, ball=options.row_tolerance)
    real = RealModelOptions.of(options)
    real.sampling()  # out of its range before anything is read
    check_law(options)
    proxy = options.draft is not None
    counters = _counters_of(options)
    plan = settings.plan(proxy)
    server = None
    if options.endpoint is not None:
        server = server_of(options, options.endpoint)
        assert real.prompts is not None
        prompts = read_prompts_and_chats(real.prompts)
    say(plan)
    pair = real.load()
    law = declared_law(options, pair)
    pair = replace(pair, sampling=law)
    planned = settings.planned(proxy)
    begun, spent = None, False
    if server is None:
        assert options.outputs is not None
        requests = served.read_requests(Path(options.outputs), pair)
        given = {
            name: getattr(law, name)
            for name in PARAMETER_NAMES
            if getattr(options, name, None) is not None
        }
        notes = tuple(served.contradictions([request.law for request in requests], given))
        for note in notes:
            say(note)
    else:

        def text_alone(_first: "Request") -> None:
            blank = [
                served.Request(prompt_ids(prompt, pair), (), from_text=True) for prompt in prompts
            ]
            drawn, changed = count_changed_tokens(blank, pair, settings.seed)
            say(retokenisation_words(drawn, changed, settings, proxy))

        begun = served.StreamingEvidence(pair, settings, proxy, say)
        answers = served.collect_answers(
            server,
            prompts,
            pair,
            planned,
            options.samples,
            keep=None if options.keep is None else Path(options.keep),
            progress=say,
            text_alone=text_alone,
            concurrency=options.concurrency,
            budget=options.max_tokens_total,
            enough=begun.enough,
        )
        requests, notes, spent = answers.requests, answers.notes, answers.spent
    source = served.RequestSource(
        title or name,
        again or _outputs_command(options, planned, settings.detect),
        endpoint=server is not None,
        notes=notes,
        budget=options.max_tokens_total,
        spent=spent,
        counters=counters,
    )
    return served.audit_outputs(
        requests, pair, source, settings, proxy=proxy, begun=begun, progress=say
    )


def _counters_of(options: OutputOptions) -> "Counters | None":
    """Return what the engine counted between two pages, or up to one."""
    from simverify.served.counters import read_counters

    if options.counters is None:
        return None
    after = read_counters(Path(options.counters))
    if options.counters_before is None:
        return after
    path = Path(options.counters_before)
    before = read_counters(path, "counters-before")
    return after.since(before, f"counters-before: {path}")


def check_outputs(options: OutputOptions) -> None:
    """Raise ``UsageError`` for options that do not go together, or a file that cannot be kept."""
    if options.outputs is not None and options.endpoint is not None:
        raise OptionError("{outputs} and {endpoint} are two sources: name one")
    if options.outputs is None and options.endpoint is None:
        raise OptionError("name what to judge: {outputs} or {endpoint}")
    if options.target is None:
        raise OptionError("{target} is missing: emitted tokens are judged by the target's rows")
    if options.endpoint is not None and options.prompts is None:
        raise OptionError("{prompts} is missing: an endpoint is asked to answer them")
    refuse_seed(options)
    if options.counters_before is not None and options.counters is None:
        raise OptionError("{counters_before} needs {counters}: the page after the answers")
    if options.endpoint is not None and options.counters is not None:
        raise OptionError(
            "{counters} is for {outputs}: a page that was read before the answers does not count "
            "them; {keep} the answers, then read the page"
        )
    if options.outputs is not None:
        _refuse(options, _ASKING[1:], "is for {endpoint}: a file of outputs holds its prompts")
    if options.keep is not None:
        check_writable(Path(options.keep))


_ASKING = (
    "endpoint",
    "prompts",
    "samples",
    "max_tokens",
    "served_model",
    "keep",
    "concurrency",
    "max_tokens_total",
    "timeout",
    "extra_body",
)
"""Options of a server, which a file of its answers does not need."""


def _outputs_command(options: OutputOptions, planned: int, detect: float) -> str:
    """Return the command that judges the same answers again, or asks again if none are kept."""
    if options.keep is not None:
        asked_no_more: dict[str, Any] = dict.fromkeys(_ASKING)
        options = replace(options, **asked_no_more, outputs=options.keep, tokens=planned)
    words = replace(options, detect=detect).words(
        always=("alpha", "detect", "seed"), without=("threads",)
    )
    return shlex.join(["simverify", "audit", *words])


# ``simverify.triage``: why the greedy answers of two engines differ.


_ASKING_OPTIONS = ("prompts", "max_tokens", "served_model", "extra_body", "timeout", "keep")


@keywords(TriageOptions)
def triage(options: TriageOptions) -> TriageRun:
    """Say why two logs of greedy answers differ: rounding, or which fault.

    Returns
    -------
    TriageRun
        ``run.verdict``, ``run.counts``, ``run.cases``; ``print(run)`` shows it.

    Raises
    ------
    UsageError
        A missing file, answers that were not greedy, no request in both logs.
    SimverifyError
        A model that does not load, a server that does not answer.
    """
    check_triage(options)
    return run_triage(options)


def check_triage(options: TriageOptions) -> None:
    """Raise ``UsageError`` for options that do not go together."""
    asked = is_address(options.a) or is_address(options.b)
    if options.target is None:
        raise OptionError("{target} is missing: tokens are judged by the target's rows")
    if asked and options.prompts is None:
        raise OptionError("{prompts} is missing: a server is asked to answer them")
    check_extra_body(options)
    if not asked:
        _refuse(options, _ASKING_OPTIONS, "is for servers: both logs are files")


def run_triage(options: TriageOptions) -> TriageRun:
    """Read or ask both, and say why they differ; the options were checked."""
    from simverify.served.triage import TriageSource
    from simverify.served.triage import triage as explain_logs
    from simverify.served.triage_explanations import match_answers

    options.say(f"loading {options.target}")
    pair = _load_pair(options, options.dtype or "float32")
    notes: list[str] = []
    a, b = str(options.a), str(options.b)
    logs = [_load_answers(name, side, pair, options, notes) for name, side in ((a, "a"), (b, "b"))]
    other: Dtype = "float32" if options.dtype in ("bfloat16", "float16") else "bfloat16"
    again, declared = _triage_command(options), options.dtype is not None
    source = TriageSource(a, b, again, declared, lambda: _load_pair(options, other), tuple(notes))
    return explain_logs(
        match_answers(*logs), pair, source, proxy=options.draft is not None, progress=options.say
    )


def _load_pair(options: TriageOptions, dtype: Dtype) -> "TransformerPair":
    return replace(RealModelOptions.of(options), temperature=0.0, dtype=dtype).load()


def _load_answers(
    name: str, side: str, pair: "TransformerPair", options: TriageOptions, notes: list[str]
) -> "tuple[LoggedAnswer, ...]":
    from simverify.served import collect_answers
    from simverify.served.requests import read_prompts_and_chats
    from simverify.served.triage_explanations import LoggedAnswer, read_answers

    if not is_address(name):
        return read_answers(Path(name), pair)
    assert options.prompts is not None
    prompts = read_prompts_and_chats(Path(options.prompts))
    keep = None
    if options.keep is not None:
        Path(options.keep).mkdir(parents=True, exist_ok=True)
        keep = Path(options.keep) / f"{side}.jsonl"
        check_writable(keep)
    server = server_of(options, name)
    answers = collect_answers(
        server, prompts, pair, server.max_tokens * len(prompts), 1, keep=keep, progress=options.say
    )
    notes += [f"{side.upper()}: {note}" for note in answers.notes]
    if keep is not None:
        return read_answers(keep, pair)

    def end_reason(request: "Request") -> str | None:  # it was asked without stop strings
        if request.unfinished:
            return None
        return "stop" if request.restored or request.tokens[-1] in pair.eos else "length"

    return tuple(
        LoggedAnswer(request, line, reason=end_reason(request))
        for line, request in enumerate(answers.requests, 1)
    )


def _triage_command(options: TriageOptions) -> str:
    """Return the command that judges the same answers again, or asks again if none are kept."""
    keep = None if options.keep is None else Path(options.keep)
    names = [
        str(keep / f"{side}.jsonl") if keep is not None and is_address(name) else str(name)
        for name, side in ((options.a, "a"), (options.b, "b"))
    ]
    asking = () if keep is None else _ASKING_OPTIONS
    words = options.words(without=("a", "b", "threads", *asking))
    return shlex.join(["simverify", "triage", *names, *words])


# ``simverify.watch``: an alarm when a server strays from its target, at one rate for all time.


@keywords(WatchOptions)
def watch(options: WatchOptions) -> WatchRun:
    """Watch a log that grows, or a server, until it strays from the target.

    Returns
    -------
    WatchRun
        At an alarm, or with ``once`` at the end: ``run.verdict``, ``run.alarm``.

    Raises
    ------
    UsageError
        A value out of range, a state of another watch or that is damaged, a server that refuses.
    """
    check_watch(options)
    return run_watch(options)


def check_watch(options: WatchOptions) -> None:
    """Raise ``UsageError`` for options that are missing, out of range or do not go together."""
    if (options.outputs is None) == (options.endpoint is None):
        raise OptionError("name what to watch, one of them: {outputs} or {endpoint}")
    if options.target is None:
        raise OptionError("{target} is missing: emitted tokens are judged by the target's rows")
    if options.state is None:
        raise OptionError("{state} is missing: a folder that keeps what was seen")
    if options.endpoint is not None and options.prompts is None:
        raise OptionError("{prompts} is missing: an endpoint is asked to answer them")
    refuse_seed(options)
    if options.outputs is not None:
        names = ("prompts", "max_tokens", "served_model", "extra_body", "timeout")
        _refuse(options, names, "is for {endpoint}: a log holds its prompts")


def run_watch(options: WatchOptions) -> WatchRun:
    """Watch as the options say, which were checked."""
    from simverify.models.transformer import read_prompts
    from simverify.served import watch
    from simverify.served.monitor import WatchSettings, WatchState
    from simverify.served.rescore import dtype_name

    settings = WatchSettings(options.alpha, options.detect, options.seed, options.weights)
    address = None if options.metrics is None else watch.parse_address(options.metrics)
    proxy = options.draft is not None
    name = options.endpoint or str(options.outputs)
    real = RealModelOptions.of(options)
    real.sampling()  # out of its range before anything is read
    options.say(settings.plan(proxy))
    pair = real.load()
    if options.weights and (dtype := dtype_name(pair)) != "float32":
        raise OptionError(
            f"{{weights}} is {options.weights} and the target computes in {dtype}: what rounding "
            f"of the rows may come to hides rounded weights; {{dtype}} float32, or leave "
            f"{{weights}} out"
        )
    assert options.state is not None
    folder = Path(options.state)
    asker, usual = None, 1.0
    if options.endpoint is not None:
        assert options.prompts is not None
        server, prompts = server_of(options, name), read_prompts(Path(options.prompts))
        asker = watch.PromptClient(server, prompts, pair, folder / "answers.jsonl", options.say)
        usual = 10.0
    first = ("outputs", "endpoint", "target", "state")
    words = [word for option in first for word in words_of(option, getattr(options, option))]
    watched = watch.WatchSubject(
        name,
        Path(options.outputs or "") if asker is None else asker.file,
        folder,
        shlex.join(["simverify", "watch", *words, *options.words(without=(*first, "threads"))]),
        asker,
        options.once,
        options.stay,
        usual if options.every is None else options.every,
    )
    with WatchState(folder, watch.state_key(pair, settings, name, proxy), settings, proxy) as state:
        running = watch.Watch(watched, pair, settings, state, proxy=proxy, say=options.say)
        labels = {"source": name, "target": str(options.target)}
        end = None if address is None else watch.serve_metrics(*address, running.metrics, labels)
        try:
            return running.run()
        except KeyboardInterrupt as interrupt:
            how = "interrupted" if type(interrupt) is KeyboardInterrupt else "ended by SIGTERM"
            raise KeyboardInterrupt(f"{how}; {running.fate}") from None
        finally:
            if asker is not None:
                asker.leave()
            if end is not None:
                end()
