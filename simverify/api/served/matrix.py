"""``simverify.matrix``: which parameters of a request a server honours."""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from simverify.api.real import RealModels, mask_named
from simverify.api.served.options import extra_body_iv, server_iv
from simverify.api.ways import called_from_python
from simverify.errors import OptionError
from simverify.results import MatrixRun

if TYPE_CHECKING:
    from simverify.emitted import Mask

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class MatrixOptions:
    """Options of a matrix; None: not given.

    Attributes
    ----------
    endpoint
        A server that speaks /v1/completions, such as http://localhost:8000.
    target
        The model that it serves: a folder or a name that Transformers loads, or tiny-llama.
    draft
        The engine's draft or a model near it, which shows parameters on one side alone.
    prompts
        Prompts or conversations to send, JSONL or a text file with one a paragraph; of tiny-llama
        its own if not given.
    cells
        Cells that are asked, comma-separated, such as top-k,seed; all if not given.
    tokens
        Emitted tokens of each cell.
    max_tokens
        Limit of one completion, 64 if not given.
    served_model
        Name of the model there; by default the first that it lists.
    keep
        A folder for the answers of each cell; one that an earlier run began is gone on with.
    extra_body
        Fields of every request beside the cell's own, JSON.
    timeout
        Seconds that one answer may take, 300 if not given.
    order
        In which the parameters are to act: transformers (the default), vllm, sglang, llamacpp,
        mlx-lm, or some of them, such as top-p,temperature.
    mask
        Structured output in a cell of its own: path/file.py:attr of a function that returns the ids
        that may come next, given those of the prompt and of the answer so far.
    mask_body
        Fields that ask the server for it, JSON.
    gamma
        The engine's draft length; several are tried if not given.
    ball
        TV of the engine's own rows from the rescored ones, on average; by default what the
        precision moves.
    alpha
        False-alarm rate of all cells together.
    device
        Where the models compute; cpu by default.
    dtype
        In what they compute; float32 by default.
    threads
        Threads of torch.
    seed
        Seed of the randomised tests.
    """

    endpoint: str | None = None
    target: str | None = None
    draft: str | None = None
    prompts: Path | None = None
    cells: str | None = None
    tokens: int = 2048
    max_tokens: int = 64
    served_model: str | None = None
    keep: Path | None = None
    extra_body: str | None = None
    timeout: float | None = None
    order: str | None = None
    mask: str | None = None
    mask_body: str | None = None
    gamma: int | None = None
    ball: float | None = None
    alpha: float = 1e-6
    device: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    threads: int | None = None
    seed: int = 0


def matrix(
    endpoint: str,
    *,
    target: str,
    draft: str | None = None,
    prompts: str | PathLike[str] | None = None,
    cells: str | None = None,
    tokens: int = 2048,
    max_tokens: int = 64,
    served_model: str | None = None,
    keep: str | PathLike[str] | None = None,
    extra_body: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    order: str | None = None,
    mask: str | Callable[..., Any] | None = None,
    mask_body: Mapping[str, Any] | None = None,
    gamma: int | None = None,
    ball: float | None = None,
    alpha: float = 1e-6,
    device: str | None = None,
    dtype: Literal["float32", "bfloat16", "float16"] | None = None,
    threads: int | None = None,
    seed: int = 0,
    progress: Say | None = None,
) -> MatrixRun:
    """Ask a server for each parameter at a value that matters, and name what it does with it.

    Parameters
    ----------
    endpoint
        A server that speaks /v1/completions.
    target, draft
        The model that it serves; one near its draft, for parameters on one side alone.
    prompts, max_tokens, served_model, extra_body, timeout
        What is sent: prompts, the limit of a completion, the model's name, further fields; seconds
        that one answer may take.
    cells
        Those that are asked, comma-separated; all if None.
    tokens
        Emitted tokens of each cell.
    keep
        A folder for the answers.
    order, gamma
        In which parameters are to act; the engine's draft length.
    mask, mask_body
        Structured output in a cell of its own: a function, or path/file.py:attr, that returns the
        ids that may come next, given those of the prompt and of the answer; how it is asked for.
    ball, alpha, seed
        TV that the engine's rows may be off by; false-alarm rate of all cells; of the tests.
    device, dtype, threads
        Where and in what the models compute.
    progress
        Receives a line when a cell begins.

    Returns
    -------
    MatrixRun
        ``run.cells``, each with its outcome; ``print(run)`` shows the table.

    Raises
    ------
    UsageError
        A value out of range, a missing file, a server that does not answer.
    """
    options = MatrixOptions(
        endpoint=endpoint, target=target, draft=draft,
        prompts=None if prompts is None else Path(prompts), cells=cells, tokens=tokens,
        max_tokens=max_tokens, served_model=served_model,
        keep=None if keep is None else Path(keep),
        extra_body=None if extra_body is None else json.dumps(extra_body), order=order,
        mask=getattr(mask, "__qualname__", None) if callable(mask) else mask,
        mask_body=None if mask_body is None else json.dumps(mask_body),
        gamma=gamma, ball=ball, alpha=alpha, device=device, dtype=dtype, threads=threads,
        seed=seed, timeout=timeout,
    )  # fmt: skip
    own = None
    if callable(mask):
        from simverify.emitted import Mask

        own = Mask(str(options.mask), mask)
    with called_from_python():
        return run_matrix(options, progress=progress, mask=own)


def run_matrix(
    options: MatrixOptions, *, progress: Say | None = None, mask: "Mask | None" = None
) -> MatrixRun:
    """As :func:`matrix`, with its options as the command line has them.

    ``mask``: in the place of the function that is named.
    """
    from simverify.emitted.law import STAGES
    from simverify.emitted.law.words import object_iv, order_iv
    from simverify.emitted.matrix import MatrixSettings, audit_matrix
    from simverify.emitted.reading.chat import read_asked

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
    if mask is None and options.mask is not None:
        mask = mask_named(options.mask)
    extra = extra_body_iv(options.extra_body)
    server = server_iv(
        options.endpoint, options.served_model, options.max_tokens, extra, options.timeout
    )
    names = () if options.cells is None else tuple(options.cells.split(","))
    settings = MatrixSettings(
        tokens=options.tokens, alpha=options.alpha, ball=options.ball, gamma=options.gamma,
        seed=options.seed, cells=tuple(name.strip() for name in names),
        order=STAGES if options.order is None else order_iv(options.order), mask=mask,
        mask_body=object_iv(options.mask_body or "{}", "mask-body", dict),
    )  # fmt: skip
    if options.keep is not None:
        _folder(options.keep)
    known = {field.name for field in fields(RealModels)} & set(vars(options))
    real = RealModels(**{name: getattr(options, name) for name in known})
    prompts = real.texts() if options.prompts is None else read_asked(options.prompts)
    pair = real.load()
    return audit_matrix(
        server, prompts, pair, _command(options), settings, drafted=options.draft is not None,
        keep=options.keep, progress=progress,
    )  # fmt: skip


def _folder(keep: Path) -> None:
    from simverify.errors import UsageError

    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"keep: {keep} cannot be made a folder: {error.strerror}") from None


def _command(options: MatrixOptions) -> str:
    words = ["simverify", "matrix"]
    given = replace(options, threads=None)
    for field in fields(MatrixOptions):
        value = getattr(given, field.name)
        if value is not None and value != field.default:
            words += [f"--{field.name.replace('_', '-')}", str(value)]
    return shlex.join(words)
