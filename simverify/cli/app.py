"""The commands, their one-line helps and their examples. What a command does loads on use."""

from collections.abc import Callable
from typing import Any, NamedTuple

from cyclopts import App, Parameter

from simverify.cli.settings import convert_option, option_sources


class Command(NamedTuple):
    """Where a command is, its line in ``--help``, and examples.

    ``place``: its function, or ``module:function`` for one that loads on use. ``first``: what
    stands above the options of a command that has many.
    """

    place: Callable[..., Any] | str
    help: str
    examples: tuple[str, ...] = ()
    first: str = ""


_HERE = "simverify.cli.commands."

COMMANDS: dict[str, Command] = {}
"""The commands by name, which may be tables in pyproject.toml."""


def _version() -> str:
    from importlib.metadata import version  # a tenth of what --help takes

    return version("simverify")


app = App(
    name="simverify",
    help="Is a speculative-decoding verifier lossless, and how far is it from optimal?",
    help_epilogue=(
        "Examples:\n\nsimverify compare --gamma 8\n\n"
        "simverify compare --gamma 4 --models my-pair.json --json run.json\n\n"
        "simverify audit my_sampler.py:verify"
    ),
    version=_version,
    config=option_sources(COMMANDS),
    default_parameter=Parameter(converter=convert_option, negative=(), show_env_var=False),
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)


def register_command(name: str, command: Command) -> None:
    """Add a command; what makes it is :func:`simverify.cli.common.document_command`.

    Raises ``ValueError`` for a name that is taken.
    """
    if name in COMMANDS:
        raise ValueError(f"{name} is a command already: choose another name")
    COMMANDS[name] = command
    app.command(
        command.place,
        name=name,
        help=command.help,
        help_prologue=command.first,
        help_epilogue="\n\n".join(["Examples:", *command.examples]) if command.examples else "",
    )


for _name, _command in {
    "compare": Command(
        _HERE + "compare:compare",
        "Compare verifiers on models.",
        (
            "simverify compare --gamma 8",
            "simverify compare --gamma 4 --verifiers token,block --models markov-256",
            "simverify compare --gamma 4 --models toy,my-pair.json --json run.json",
            "simverify compare --gamma 2 --models toy --calls 4",
        ),
    ),
    "audit": Command(
        _HERE + "audit:audit",
        "Test whether a verifier is lossless.",
        (
            "simverify audit my_sampler.py:verify",
            "simverify audit package.module:Rule --contract step",
            "simverify audit transformers --json run.json",
            "simverify audit --self-test",
            "simverify audit my_sampler.py:verify --target DIR --draft DIR --prompts prompts.txt",
            "simverify audit --outputs served.jsonl --target DIR",
        ),
        first="To start: simverify audit my_sampler.py:verify --gamma 2 --report report",
    ),
    "table": Command(
        _HERE + "surveys:table",
        "Audit every available engine, side by side.",
        (
            "simverify table",
            "simverify table --list",
            "simverify table --engine-path checkouts --report engines",
            "simverify table --engines transformers,sglang --jobs 2 --json table.json",
        ),
    ),
    "sweep": Command(
        _HERE + "surveys:sweep",
        "Compare on a grid, on a laptop or a cluster; can resume.",
        (
            "simverify sweep grid.toml --out grid",
            "simverify sweep --models markov-64 --gamma 2,4,8 --seeds 0,1 --out grid",
            "simverify sweep grid.toml --out grid --executor dask:tcp://10.0.0.1:8786",
            "simverify sweep --status grid",
        ),
    ),
    "bisect": Command(
        _HERE + "surveys:bisect",
        "Find the release or commit that changed the distribution.",
        (
            "simverify bisect transformers --good 4.40.0 --bad 5.0.0",
            "simverify bisect my_package.sampler:verify --good 1.0 --bad 2.0 --what verdict",
            "simverify bisect sampler.py:verify --engine-path . --good v1.0 --bad HEAD",
        ),
    ),
    "capture": Command(
        _HERE + "compare:capture",
        "Record the blocks of two real models, to replay later.",
        (
            "simverify capture --models tiny-llama --gamma 4 --tokens 2000 --out trace",
            "simverify compare --gamma 4 --trace trace",
            "simverify audit my_sampler.py:verify --trace trace",
        ),
    ),
    "matrix": Command(
        _HERE + "served:matrix",
        "Test which request parameters a server honours.",
        (
            "simverify matrix --endpoint http://localhost:8000 --target DIR --prompts "
            "prompts.jsonl",
            "simverify matrix --endpoint http://localhost:8000 --target tiny-llama --cells "
            "top-k,seed",
        ),
    ),
    "triage": Command(
        _HERE + "served:triage",
        "Explain why the greedy answers of two engines differ.",
        (
            "simverify triage plain.jsonl speculative.jsonl --target DIR --dtype bfloat16",
            "simverify triage http://localhost:8000 http://localhost:8001 --prompts "
            "prompts.jsonl --target DIR",
        ),
    ),
    "watch": Command(
        _HERE + "served:watch",
        "Watch a server; raise an alarm if it strays from its target.",
        (
            "simverify watch --outputs served.jsonl --target DIR --state canary --metrics 9464",
            "simverify watch --endpoint http://localhost:8000 --prompts prompts.jsonl "
            "--target DIR --state canary",
        ),
    ),
    "plan": Command(
        _HERE + "compare:plan",
        "Estimate what a claim costs, or what a budget detects.",
        (
            "simverify plan --deviation 0.005 --vocab 1024 --gamma 4",
            "simverify plan --seconds 60",
            "simverify plan --samples 1000000 --json plan.json",
        ),
    ),
    "report": Command(
        _HERE + "report:report",
        "Render a run file as HTML, Markdown, JUnit or GitHub annotations.",
        (
            "simverify report run.json --html report.html",
            "simverify report run.json --junit junit.xml --github",
        ),
    ),
    "figure": Command(
        _HERE + "report:figure",
        "Draw a figure for a paper from run files.",
        (
            "simverify figure fig3 run.json -o acceptance.svg",
            "simverify figure fig5 compact.json ngram.json -o speedup.pdf",
        ),
    ),
    "replay": Command(
        _HERE + "history:replay",
        "Replay one failing path of an audit.",
        ("simverify replay run.json#0",),
    ),
    "baseline": Command(
        _HERE + "history:baseline",
        "Save a run as a baseline, and test other runs against it.",
        (
            "simverify baseline save main run.json",
            "simverify baseline check main run.json",
        ),
    ),
    "runs": Command(
        _HERE + "history:runs",
        "List, search and compare recorded runs.",
        (
            "simverify runs init",
            "simverify runs --search sampler --verdict FAIL",
            "simverify runs diff 3 4",
        ),
    ),
    "sampler": Command(
        _HERE + "served:sampler",
        "Judge a library's sampler alone, such as torch.multinomial.",
        (
            "simverify sampler torch.multinomial --vocab 1000",
            "simverify sampler jax.random.categorical --dtype bfloat16",
        ),
    ),
    "generators": Command(
        _HERE + "served:generators",
        "Show measurements of libraries' random numbers and samplers.",
        ("simverify generators", "simverify generators torch"),
    ),
    "verifiers": Command(_HERE + "info:verifiers", "List the built-in verifiers."),
    "models": Command(_HERE + "info:models", "List the built-in models."),
    "faults": Command(_HERE + "info:faults", "List the catalogue of faulty verifiers."),
    "engines": Command(_HERE + "info:engines", "List the engines that can be audited."),
    "doctor": Command(_HERE + "info:doctor", "Check this installation; for bug reports."),
    "schema": Command(_HERE + "info:schema", "Print the JSON Schema of result files."),
}.items():
    register_command(_name, _command)
