"""Transformers' own ``generate`` behind /v1/completions, right or wrong in a known way.

    python benchmarks/serving/generate_server.py --port 8401 assisted
    python benchmarks/serving/generate_server.py --port 8402 lenient --leniency .5

Answers have token ids. One request is answered at a time. Its temperature, top-p, top-k and
max_tokens are passed on; top-k is off if it names none. What came of it: docs/reference/servers.md.
"""

import argparse
import json
import threading
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LogitsProcessor,
    LogitsProcessorList,
)
from transformers.generation import utils

BUNDLED = Path(__file__).parents[2] / "simverify/models/tiny_llama"
KINDS = ("plain", "assisted", "lenient", "ensemble", "synthetic", "universal")
DRAW = "_speculative_sampling"
"""The name of Transformers' function that accepts and rejects drafts."""


class Frequency(LogitsProcessor):
    """A frequency penalty on the answer's own tokens, which no request asked for."""

    def __init__(self, penalty: float, prompt_length: int) -> None:
        self.penalty = penalty
        self.prompt_length = prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Take the penalty off each logit as often as its token has come.

        Parameters
        ----------
        input_ids : Tensor of shape (1, n)
            The prompt and the answer so far.
        scores : Tensor of shape (1, V)
            Logits of the next token.
        """
        answer = input_ids[0, self.prompt_length :]
        counts = torch.bincount(answer, minlength=scores.shape[-1])
        return scores - self.penalty * counts.to(scores.dtype)


def lenient(right: Callable[..., Any], leniency: float, *args: Any, **named: Any) -> Any:
    """Accept as if a draft's probability were ``leniency`` times what it is.

    Transformers accepts where ``torch.rand_like`` gives at most p/q, and draws nothing else by it.
    """
    uniform = torch.rand_like
    with patch.object(torch, "rand_like", lambda ratio: leniency * uniform(ratio)):
        return right(*args, **named)


def synthetic(
    length: int,
    candidate_input_ids: torch.Tensor,
    candidate_logits: torch.Tensor,
    candidate_length: int,
    new_logits: torch.Tensor,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Accept ``length`` drafts whatever their ratio, as benchmarks of speculation do.

    Shapes are those of Transformers: (1, n) ids, (1, gamma, V) and (1, gamma + 1, V) logits.
    """
    drafts = candidate_input_ids[:, -candidate_length:]
    kept = min(length, int(candidate_length))
    row = new_logits[:, kept, :].softmax(dim=-1)
    last = torch.multinomial(row, num_samples=1)
    return torch.cat((drafts[:, :kept], last), dim=-1), torch.tensor(kept)


def load(folder: Path, tokenizer: Path, dtype: str) -> tuple[Any, Any]:
    """Return a model and its tokenizer, with no cut of the generation config left."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    model.generation_config.top_k = None
    return model, AutoTokenizer.from_pretrained(tokenizer)


class Engine:
    """What answers: models, the way of verifying, and one answer at a time."""

    def __init__(self, own: argparse.Namespace) -> None:
        self.own = own
        self.lock = threading.Lock()
        self.model, self.tokenizer = load(own.target, own.tokenizer, own.dtype)
        self.more: dict[str, Any] = {}
        if own.kind != "plain":
            self._assist()
        right = getattr(utils, DRAW)
        if own.kind == "lenient":
            setattr(utils, DRAW, partial(lenient, right, own.leniency))
        if own.kind == "synthetic":
            setattr(utils, DRAW, partial(synthetic, own.accept))

    def _assist(self) -> None:
        """Load the draft; ``universal`` gives it a vocabulary of one more word."""
        draft, other = load(self.own.draft, self.own.tokenizer, "float32")
        settings = draft.generation_config
        settings.num_assistant_tokens = self.own.gamma
        settings.num_assistant_tokens_schedule = "constant"
        settings.assistant_confidence_threshold = 0.0
        self.more = {"assistant_model": draft}
        if self.own.kind == "ensemble":
            for model in (draft, self.model):
                model.generation_config.assistant_ensemble_weight = self.own.weight
        if self.own.kind == "universal":
            other.add_tokens(["<|more|>"])
            draft.resize_token_embeddings(len(other), mean_resizing=False)
            self.more |= {"tokenizer": self.tokenizer, "assistant_tokenizer": other}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request of /v1/completions."""
        prompt = request["prompt"]
        ids = prompt if isinstance(prompt, list) else self.tokenizer(prompt).input_ids
        temperature = float(request.get("temperature", 1.0))
        if self.own.kind == "universal" and temperature <= 0:
            # Transformers has another way for greedy requests, which the draft no longer fits.
            raise ValueError("universal answers above temperature 0 alone")
        settings: dict[str, Any] = {
            "do_sample": temperature > 0,
            "max_new_tokens": int(request.get("max_tokens", 16)),
        }
        if temperature > 0:
            settings["temperature"] = temperature
            settings["top_p"] = self.own.top_p or float(request.get("top_p", 1.0))
            settings["top_k"] = max(int(request.get("top_k") or 0), 0)
        if self.own.frequency:
            penalty = Frequency(self.own.frequency, len(ids))
            settings["logits_processor"] = LogitsProcessorList([penalty])
        prefix = torch.tensor([ids])
        with self.lock, torch.inference_mode():
            if self.own.seed is not None:
                torch.manual_seed(self.own.seed)
            whole = self.model.generate(
                prefix,
                attention_mask=torch.ones_like(prefix),
                pad_token_id=0,
                **settings,
                **self.more,
            )
        tokens = whole[0, len(ids) :].tolist()
        ended = bool(tokens) and tokens[-1] == self.tokenizer.eos_token_id
        choice = {
            "index": 0,
            "text": self.tokenizer.decode(tokens, skip_special_tokens=True),
            "token_ids": tokens,
            "finish_reason": "stop" if ended else "length",
        }
        usage = {"prompt_tokens": len(ids), "completion_tokens": len(tokens)}
        return {"object": "text_completion", "choices": [choice], "usage": usage}


def handler(engine: Engine) -> type[BaseHTTPRequestHandler]:
    """Return the class that reads requests for ``engine``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Say nothing of each request."""

        def send(self, value: dict[str, Any], code: int = 200) -> None:
            body = json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            listed = {"id": engine.own.kind, "object": "model", "owned_by": "benchmark"}
            self.send({"object": "list", "data": [listed]})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if not self.path.endswith("/v1/completions"):
                self.send({"error": f"no {self.path} here: /v1/completions alone"}, 404)
                return
            try:
                answer = engine.answer(json.loads(body))
            except (KeyError, TypeError, ValueError) as error:
                self.send({"error": f"{type(error).__name__}: {error}"}, 400)
                return
            self.send(answer)

    return Handler


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=KINDS, help="how drafts are made and accepted")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--target", type=Path, default=BUNDLED / "target")
    parser.add_argument("--draft", type=Path, default=BUNDLED / "draft")
    parser.add_argument("--tokenizer", type=Path, default=BUNDLED / "tokenizer")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--gamma", type=int, default=4, help="drafts a round")
    parser.add_argument(
        "--leniency", type=float, default=0.5, help="of lenient: q counts as this much"
    )
    parser.add_argument("--weight", type=float, default=0.8, help="of ensemble: the target's share")
    parser.add_argument(
        "--accept", type=int, default=2, help="of synthetic: drafts accepted a round"
    )
    parser.add_argument("--seed", type=int, help="one for every request, which is wrong")
    parser.add_argument(
        "--frequency", type=float, help="a penalty nobody asked for, which is wrong"
    )
    parser.add_argument("--top-p", type=float, help="in the place of what is asked, which is wrong")
    return parser.parse_args()


def main() -> None:
    """Serve until the process is ended."""
    own = arguments()
    torch.set_num_threads(1)
    server = ThreadingHTTPServer(("127.0.0.1", own.port), handler(Engine(own)))
    print(f"http://127.0.0.1:{own.port}: {own.kind}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
