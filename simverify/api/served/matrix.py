"""``simverify.matrix``: which parameters of a request a server honours."""

import shlex
from pathlib import Path

from simverify.api.real import RealModels, json_iv, mask_of
from simverify.api.served.server import server_of
from simverify.errors import OptionError, UsageError
from simverify.options.modes import keywords
from simverify.options.served import MatrixOptions
from simverify.results import MatrixRun


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
    from simverify.emitted.law import STAGES
    from simverify.emitted.law.words import order_iv
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
    mask = mask_of(options.mask)
    server = server_of(options, options.endpoint, options.max_tokens)
    names = () if options.cells is None else tuple(options.cells.split(","))
    settings = MatrixSettings(
        tokens=options.tokens, alpha=options.alpha, ball=options.row_tolerance, gamma=options.gamma,
        seed=options.seed, cells=tuple(name.strip() for name in names),
        order=STAGES if options.order is None else order_iv(options.order), mask=mask,
        mask_body=json_iv(options.mask_body or {}, "mask_body", dict),
    )  # fmt: skip
    keep = None if options.keep is None else Path(options.keep)
    if keep is not None:
        _folder(keep)
    real = RealModels.of(options)
    prompts = real.texts() if real.prompts is None else read_asked(real.prompts)
    pair = real.load()
    return audit_matrix(
        server, prompts, pair, _command(options), settings, drafted=options.draft is not None,
        keep=keep, progress=options.progress,
    )  # fmt: skip


def _folder(keep: Path) -> None:
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"keep: {keep} cannot be made a folder: {error.strerror}") from None


def _command(options: MatrixOptions) -> str:
    return shlex.join(["simverify", "matrix", *options.words(without=("threads",))])
