"""The commands, their one-line helps and their examples. What a command does loads on use."""

from cyclopts import App, Parameter

from simverify.cli.settings import convert_option, option_sources

_COMMANDS = {
    "compare": ("compare:compare", "Compare verifiers on models."),
    "audit": ("audit:audit", "Put any verifier on trial."),
    "table": ("surveys:table", "Audit every available engine, side by side."),
    "sweep": ("surveys:sweep", "Compare on a grid, on a laptop or a cluster; can resume."),
    "bisect": ("surveys:bisect", "Find the release or commit that changed the distribution."),
    "capture": ("compare:capture", "Record the blocks of two real models, to replay later."),
    "matrix": ("served:matrix", "Test which request parameters a server honours."),
    "triage": ("served:triage", "Explain why the greedy answers of two engines differ."),
    "watch": ("served:watch", "Watch a server; raise an alarm if it strays from its target."),
    "plan": ("compare:plan", "Estimate what a claim costs, or what a budget detects."),
    "report": (
        "report:report",
        "Render a run file as HTML, Markdown, JUnit or GitHub annotations.",
    ),
    "figure": ("report:figure", "Draw a figure for a paper from run files."),
    "replay": ("history:replay", "Replay one failing path of an audit."),
    "baseline": ("history:baseline", "Save a run as a baseline, and test other runs against it."),
    "runs": ("history:runs", "List, search and compare recorded runs."),
    "verifiers": ("info:verifiers", "List the built-in verifiers."),
    "models": ("info:models", "List the built-in models."),
    "faults": ("info:faults", "List the catalogue of faulty verifiers."),
    "engines": ("info:engines", "List the engines that can be audited."),
    "doctor": ("info:doctor", "Check this installation; for bug reports."),
    "schema": ("info:schema", "Print the JSON Schema of result files."),
}
"""Where each command lives, and its line in ``--help``, which loads none of them."""

_FIRST = {
    "audit": "To start: simverify audit my_sampler.py:verify --gamma 2 --report report",
}
"""What stands above the options of a command that has many."""

_EXAMPLES = {
    "compare": (
        "simverify compare --gamma 8",
        "simverify compare --gamma 4 --verifiers token,block --models markov-256",
        "simverify compare --gamma 4 --models toy,my-pair.json --json run.json",
        "simverify compare --gamma 2 --models toy --calls 4",
    ),
    "audit": (
        "simverify audit my_sampler.py:verify",
        "simverify audit package.module:Rule --contract step",
        "simverify audit transformers --json run.json",
        "simverify audit --self-test",
        "simverify audit my_sampler.py:verify --target DIR --draft DIR --prompts prompts.txt",
        "simverify audit --outputs served.jsonl --target DIR",
    ),
    "table": (
        "simverify table",
        "simverify table --list",
        "simverify table --engine-path checkouts --report engines",
        "simverify table --engines transformers,sglang --jobs 2 --json table.json",
    ),
    "sweep": (
        "simverify sweep grid.toml --out grid",
        "simverify sweep --models markov-64 --gamma 2,4,8 --seeds 0,1 --out grid",
        "simverify sweep grid.toml --out grid --executor dask:tcp://10.0.0.1:8786",
        "simverify sweep --status grid",
    ),
    "bisect": (
        "simverify bisect transformers --good 4.40.0 --bad 5.0.0",
        "simverify bisect my_package.sampler:verify --good 1.0 --bad 2.0 --what verdict",
        "simverify bisect sampler.py:verify --engine-path . --good v1.0 --bad HEAD",
    ),
    "capture": (
        "simverify capture --models tiny-llama --gamma 4 --tokens 2000 --out trace",
        "simverify compare --gamma 4 --trace trace",
        "simverify audit my_sampler.py:verify --trace trace",
    ),
    "triage": (
        "simverify triage plain.jsonl speculative.jsonl --target DIR --dtype bfloat16",
        "simverify triage http://localhost:8000 http://localhost:8001 --prompts prompts.jsonl "
        "--target DIR",
    ),
    "watch": (
        "simverify watch --outputs served.jsonl --target DIR --state canary --metrics 9464",
        "simverify watch --endpoint http://localhost:8000 --prompts prompts.jsonl --target DIR "
        "--state canary",
    ),
    "matrix": (
        "simverify matrix --endpoint http://localhost:8000 --target DIR --prompts prompts.jsonl",
        "simverify matrix --endpoint http://localhost:8000 --target tiny-llama --cells top-k,seed",
    ),
    "plan": (
        "simverify plan --deviation 0.005 --vocab 1024 --gamma 4",
        "simverify plan --seconds 60",
        "simverify plan --samples 1000000 --json plan.json",
    ),
    "report": (
        "simverify report run.json --html report.html",
        "simverify report run.json --junit junit.xml --github",
    ),
    "figure": (
        "simverify figure fig3 run.json -o acceptance.svg",
        "simverify figure fig5 compact.json ngram.json -o speedup.pdf",
    ),
    "baseline": (
        "simverify baseline save main run.json",
        "simverify baseline check main run.json",
    ),
    "runs": (
        "simverify runs init",
        "simverify runs --search sampler --verdict FAIL",
        "simverify runs diff 3 4",
    ),
    "replay": ("simverify replay run.json#0",),
}


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
    config=option_sources(_COMMANDS),
    default_parameter=Parameter(converter=convert_option, negative=(), show_env_var=False),
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)
for _name, (_place, _help) in _COMMANDS.items():
    app.command(
        f"simverify.cli.commands.{_place}",
        name=_name,
        help=_help,
        help_prologue=_FIRST.get(_name, ""),
        help_epilogue="Examples:\n\n" + "\n\n".join(_EXAMPLES[_name]) if _name in _EXAMPLES else "",
    )
