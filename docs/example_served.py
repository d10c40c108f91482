"""Example reports of served engines, which decode here with the bundled model and a planted fault.

``docs/example_reports.py`` writes them. Numbers of a model differ between machines in their last
digits, and so do these documents.
"""

import json
import random
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import simverify
from simverify.results import Document

PLACE = "http://localhost:8000"
"""Where the example's server is said to be."""


def compare_two_engines() -> Document:
    """Compare two files of answers, of which the second prefers one token."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("off.jsonl", "on.jsonl")]
        for seed, (file, weight) in enumerate(zip(files, (1, 3), strict=True)):
            rng = random.Random(seed)
            lines = [
                {"prompt": prompt, "tokens": rng.choices(range(10), [weight] + [1] * 9, k=4)}
                for prompt in ("def f(", "class A:", "import ") * 500
            ]
            file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        run = simverify.audit_against(*files, detect=0.3)
        return _without(run, folder)


def explain_greedy_answers() -> Document:
    """Say why two logs differ, of which the second reads a cache without its first token."""
    pair, prompts = _bundled(0.0)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("plain.jsonl", "speculative.jsonl")]
        for file, missing in zip(files, (False, True), strict=True):
            lines = []
            for prompt in prompts[:8]:
                tokens: list[int] = []
                for _ in range(16):
                    seen = tokens[1:] if missing else tokens
                    tokens.append(int(pair.target([*prompt, *seen]).argmax()))
                    if tokens[-1] in pair.eos:
                        break
                reason = "stop" if tokens[-1] in pair.eos else "length"
                lines.append({"prompt": prompt, "tokens": tokens, "finish_reason": reason})
            file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        run = simverify.triage(*files, target="tiny-llama", dtype="float32", threads=1)
        return _without(run, folder)


def watch_a_log() -> Document:
    """Watch a log whose engine samples at another temperature from its middle on."""
    pair, prompts = _bundled(1.0)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "served.jsonl"
        lines = [
            {"prompt": prompt, "tokens": tokens}
            | {"finish_reason": "stop" if tokens[-1] in pair.eos else "length"}
            for seed, temperature in ((0, 1.0), (1, 1.4))
            for prompt, tokens in zip(
                prompts, _drawn(pair, prompts, {"temperature": temperature}, 32, seed), strict=True
            )
        ]
        log.write_text("".join(json.dumps(line) + "\n" for line in lines))
        run = simverify.watch(
            outputs=log, target="tiny-llama", state=Path(folder) / "canary", once=True, threads=1
        )
        return _without(run, folder)


def ask_for_parameters() -> Document:
    """Ask a server that ignores min-p, swaps temperature and top-p, and knows no typical-p."""
    cells = "top-k,min-p,typical-p,temperature before top-p,seed"
    with _served() as address:
        run = simverify.matrix(
            address, target="tiny-llama", cells=cells, tokens=768, max_tokens=32, threads=1
        )
        return _without(run, address, PLACE)


SERVED = {
    "two-engines": compare_two_engines,
    "triage": explain_greedy_answers,
    "watch": watch_a_log,
    "matrix": ask_for_parameters,
}


def _bundled(temperature: float) -> tuple[Any, list[list[int]]]:
    from simverify.models.transformer import BUNDLED, Sampling, load_pair, read_prompts, use_threads

    use_threads(1)
    pair = load_pair("tiny-llama", None, sampling=Sampling(temperature))
    return pair, [pair.encode(text)[-32:] for text in read_prompts(BUNDLED / "prompts.jsonl")]


def _drawn(
    pair: Any, prompts: Sequence[Sequence[int]], asked: dict[str, Any], length: int, seed: int,
    order: str = "transformers",
) -> list[list[int]]:  # fmt: skip
    """Answers to each prompt, side by side, of ``length`` tokens or up to an end of sequence."""
    from simverify.models.distribution import ORDERS, Law

    law = Law(**asked, order=ORDERS[order])
    rng = np.random.default_rng(seed)
    model = pair.cached(pair.target_model, len(prompts))
    found: list[list[int]] = [[] for _ in prompts]
    feed = [list(prompt) for prompt in prompts]
    for _ in range(length):
        rows = [own[-1:] for own in model.feed(feed)]
        for prompt, own, logits in zip(prompts, found, rows, strict=True):
            (row,) = law.after(logits, prompt, own, len(own))
            own.append(int(rng.choice(len(row), p=row)))
        feed = [[own[-1]] for own in found]
    ends = [next((i for i, t in enumerate(own) if t in pair.eos), length) for own in found]
    return [own[: end + 1] for own, end in zip(found, ends, strict=True)]


@contextmanager
def _served() -> Iterator[str]:
    """Serve the bundled model on loopback; the fields that it honours are these."""
    pair, _ = _bundled(1.0)
    lock, seeds = threading.Lock(), count()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200, {"data": [{"id": "example", "owned_by": "vllm"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "typical_p" in body:
                self._send(400, {"error": "unknown field typical_p"})
                return
            asked = {
                "temperature": body["temperature"],
                "top_k": body["top_k"] if body["top_k"] > 0 else None,
                "top_p": body["top_p"],
            }
            with lock:
                (ids,) = _drawn(
                    pair, [body["prompt"]], asked, body["max_tokens"], next(seeds), "mlx-lm"
                )
            reason = "stop" if ids[-1] in pair.eos else "length"
            choice = {"text": "", "token_ids": ids, "finish_reason": reason}
            self._send(200, {"choices": [choice]})

        def _send(self, status: int, value: object) -> None:
            content = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def _without(run: Any, place: str, shown: str = "") -> Document:
    """Return a document as if its files stood here, or its server at ``shown``."""
    text = msgspec.json.encode(run).decode()
    text = text.replace(place + ("" if shown else "/"), shown)
    found: Document = msgspec.json.decode(text.encode(), type=type(run))
    return found
