"""What README and docs say, done: every block of every page, every command and option it names."""

import io
import re
import shlex
import shutil

import pytest
from cyclopts import MissingArgumentError
from docs.examples import HOME, PAGES, ROOT, alike, blocks, stories, tell
from rich.console import Console
from support.levels import at_night

from simverify.cli.app import app

IDS = [str(page.relative_to(ROOT)) for page in PAGES]
TEXTS = [page.read_text(encoding="utf-8") for page in PAGES]
STORIES = {
    f"{name}#{story}" if story else name: part
    for name, text in zip(IDS, TEXTS, strict=True)
    for story, part in stories(text).items()
}


def test_a_page_is_its_stories():
    assert ["".join(stories(text).values()) for text in TEXTS] == TEXTS


LONG = (
    "docs/how-to/drafters.md",
    "docs/how-to/drafters.md#easyspec",
    "docs/how-to/gpu.md#gpu",
    "docs/how-to/gpu.md#triton",
    "docs/how-to/real-models.md",
    "docs/how-to/trees.md#multi-draft",
    "docs/how-to/batches.md",
)
"""Stories that take five seconds or more, run at night."""


@pytest.mark.parametrize(
    "name", at_night(STORIES, but=[name for name in STORIES if name not in LONG])
)
@pytest.mark.thorough
def test_a_page_is_what_happens(name):
    """To write outputs anew: python tests/docs/examples.py."""
    text = STORIES[name]
    if "$ g++ " in text and shutil.which("g++") is None:
        pytest.skip("the page compiles its example, and there is no g++")
    assert "\n\n".join(tell(text).problems) == ""


FILE = "<!-- file: a.py -->\n```python\nprint(5)\n```\n"
RUN = "```console\n$ python a.py\n5\n```\n"
PRINT = "```python\nprint(6)\n```\n"
PRINTED = "```text\n6\n```\n"


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        (FILE + RUN.replace("\n5", "\n6"), "the page says"),
        (RUN, "the page says"),  # the file is missing
        (PRINT + PRINTED.replace("6", "7"), "the page says"),
        (PRINT, "not on the page"),
        (PRINT + FILE + PRINTED, "not on the page"),
        (PRINTED, "no one runs this text"),
        ("```toml\na = 1\n```\n", "no one runs this toml"),
    ],
)
def test_what_is_wrong_is_found(page, problem):
    assert problem in "".join(tell(page).problems)


def test_a_right_page_has_no_problems_and_stays_as_it_is():
    page = f"Words.\n\n{FILE}\n{RUN}\n{PRINT}\n{PRINTED}"
    story = tell(page)
    assert (story.problems, story.page) == ([], page)


def test_a_wrong_page_is_written_anew():
    right = FILE + RUN + PRINT + PRINTED
    assert tell(right.replace("\n5", "\n6").replace("\n6\n`", "\n8\n`")).page == right


def test_exit_codes_and_standard_error_are_shown():
    page = "```console\n$ ls missing 2>/dev/null; exit 3\n$ echo $?\n3\n```\n"
    assert tell(page).problems == []
    assert "simverify: " in tell("```console\n$ simverify audit no-such\n```\n").page


def test_only_timings_and_folds_around_paths_may_differ():
    row = "token    PASS exact 2.27 enum 2.2738±0.0082 3.273  74.4% 1.82x  7.6"
    assert alike(row) == alike(row.replace("7.6", "12.9"))
    assert alike(row) != alike(row.replace("1.82x", "1.83x"))
    assert alike(row) != alike(row.replace("2.27 ", "2.28 "))
    assert alike("1 passed in 2.31s") == alike("1 passed in 12.07s") != alike("2 passed in 2.31s")
    assert alike(f"at\n  {HOME}/a.py:3") == alike(f"at {HOME}/a.py:3") != alike(f"at {HOME}/a.py:4")
    assert alike("two\n words") != alike("two words")


@pytest.mark.parametrize("text", TEXTS, ids=IDS)
@pytest.mark.thorough
def test_every_command_it_names_can_be_given(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # no pyproject.toml here
    quoted = re.findall(r"`(simverify [^`]+)`", text.replace("\n", " "))
    installed = [block.text for block in blocks(text) if block.language == "sh"]
    for command in quoted + [
        c for t in installed for c in re.findall(r"simverify [a-z][^&\n]*", t)
    ]:
        assert parses(command), command


def parses(command):
    try:
        app.parse_args(shlex.split(command)[1:], exit_on_error=False, print_error=False)
    except MissingArgumentError:
        return True  # a command's bare name
    except Exception:
        return False
    return True


def test_commands_that_cannot_be_given_are_seen():
    assert parses("simverify compare")
    assert parses("simverify audit x.py:verify --batch 4")
    for wrong in ("simverify compere", "simverify audit x --gama 3", "simverify compare --gamma x"):
        assert not parses(wrong)


@pytest.fixture(scope="module")
def helps():
    """What ``--help`` of every command prints, asked for once."""
    text = io.StringIO()
    for name in app:
        if not name.startswith("-"):
            app.help_print([name], console=Console(file=text, width=200))
    assert "--cost-ratio" in text.getvalue()
    return text.getvalue()


@pytest.mark.parametrize("text", TEXTS, ids=IDS)
def test_every_option_it_names_exists(text, helps):
    named = set(re.findall(r"`(--[a-z-]+)", text))
    assert {option for option in named if not re.search(rf"{option}\b(?!-)", helps)} == set()


@pytest.mark.parametrize(("page", "text"), list(zip(PAGES, TEXTS, strict=True)), ids=IDS)
def test_every_file_it_links_to_exists(page, text):
    targets = re.findall(r'(?:\]\(|src=")([^)"#]+)', text)
    for target in targets:
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_module_of_the_architecture_exists():
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)+)(?:\.py)?`", text)
    assert len(named) > 30
    tops = (ROOT / "simverify", ROOT)
    missing = [
        name
        for name in named
        if not any((top / f"{name}.py").is_file() or (top / name).is_dir() for top in tops)
    ]
    assert missing == []
