"""``simverify.sampler``: a library's function that draws tokens, judged alone."""

import shlex
from typing import cast

from simverify.battery.battery import start_meta
from simverify.errors import UsageError
from simverify.options.modes import keywords
from simverify.options.samplers import Dtype, SamplerOptions
from simverify.results import SamplerRun
from simverify.results.common import overall
from simverify.samplers.catalogue import SAMPLERS, check_installed, get_sampler, known_versions
from simverify.samplers.judge import POWER, ROWS, judge_row


@keywords(SamplerOptions)
def sampler(options: SamplerOptions) -> SamplerRun:
    """Judge whether a library's sampler emits the row that it is given.

    Its distribution is computed where its random numbers are few enough, and where its own draws
    are those that are expected of a seed; else it is sampled.

    Returns
    -------
    SamplerRun
        ``run.verdict``, ``run.rows``; ``print(run)`` shows it.

    Raises
    ------
    UsageError
        A name that does not exist, a type that the sampler does not take, a library that is not
        installed.
    """
    if options.function is None:
        raise UsageError(f"name a sampler to judge: {', '.join(SAMPLERS)}")
    stamp, judged = start_meta(), get_sampler(options.function)
    version = check_installed(judged)
    dtype = options.dtype or cast("Dtype", judged.dtypes[0])
    if dtype not in judged.dtypes:
        raise UsageError(f"{judged.name} is judged in {', '.join(judged.dtypes)}, not in {dtype}")
    rows = []
    for kind in ROWS if options.row is None else (options.row,):
        options.say(f"{judged.name} on a {kind} row")
        rows.append(
            judge_row(
                judged,
                kind,
                dtype,
                options.vocab,
                seed=options.seed,
                alpha=options.alpha,
                detect=options.detect,
            )
        )
    words = options.words(always=("seed",), without=("function",))
    return SamplerRun(
        schema_version=1,
        name=judged.name,
        package=judged.package,
        package_version=version,
        known=version in known_versions(judged.package),
        method=judged.method,
        dtype=dtype,
        vocab_size=options.vocab,
        seed=options.seed,
        alpha=options.alpha,
        detect=options.detect,
        power=POWER,
        rows=tuple(rows),
        verdict=overall([row.verdict for row in rows]),
        reproduce=shlex.join(["simverify", "sampler", judged.name, *words]),
        meta=stamp(),
    )
