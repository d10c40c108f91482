"""Engines that are libraries, behind /v1/completions.

It runs as a script in the environment of the engine, and needs nothing of simverify's. Prompts and
answers are token ids. One request is answered at a time, by the engine's own sampling.
"""

import argparse
import importlib
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

Ids = list[int]


class Setup(NamedTuple):
    """What an engine runs: its models, and ``gamma`` draft tokens a step, or drafts by lookup."""

    target: Path
    draft: Path | None
    gamma: int
    lookup: bool


class Question(NamedTuple):
    """A request. ``top_k`` 0 and ``top_p`` 1 cut nothing off; ``seed`` None is the engine's."""

    prompt: Ids
    max_tokens: int = 16
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None


Answer = Callable[[Question], Ids]
"""Returns the ids of an answer, without the prompt. The end token may be left out."""


def openvino_genai(setup: Setup) -> Answer:
    """``LLMPipeline`` of OpenVINO GenAI, in float32."""
    import numpy as np

    genai, openvino = map(importlib.import_module, ("openvino_genai", "openvino"))
    precision = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    more: dict[str, Any] = dict(precision)
    if setup.draft is not None:
        more["draft_model"] = genai.draft_model(setup.draft, "CPU", **precision)
        # 2026.4.1.0 raises after most rejections if it caches prefixes.
        more["scheduler_config"] = genai.SchedulerConfig()
        more["scheduler_config"].enable_prefix_caching = False
    if setup.lookup:
        more["prompt_lookup"] = True
    pipeline = genai.LLMPipeline(setup.target, "CPU", **more)

    def answer(question: Question) -> Ids:
        config = genai.GenerationConfig()
        config.max_new_tokens = question.max_tokens
        config.do_sample = question.temperature > 0
        if config.do_sample:
            config.temperature, config.top_p = question.temperature, question.top_p
            config.top_k = question.top_k or config.top_k
        if question.seed is not None:
            config.rng_seed = question.seed
        if setup.draft is not None or setup.lookup:
            config.num_assistant_tokens = setup.gamma
        if setup.lookup:
            config.max_ngram_size = 2
        ids = np.array([question.prompt], dtype=np.int64)
        given = genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))
        return [int(x) for x in pipeline.generate(given, config).tokens[0]]

    return answer


def onnxruntime_genai(setup: Setup) -> Answer:
    """``Generator`` of ONNX Runtime GenAI."""
    genai = importlib.import_module("onnxruntime_genai")
    config = genai.Config(str(setup.target))
    if setup.draft is not None:
        described = json.loads((setup.draft / "genai_config.json").read_text())["model"]["decoder"]
        file = setup.draft / described["filename"]
        described["filename"] = os.path.relpath(file, setup.target)
        config.overlay(json.dumps({"model": {"draft": described}}))
    model = genai.Model(config)
    speculative = {"max_draft_tokens": setup.gamma} if setup.draft or setup.lookup else {}
    if setup.lookup:
        speculative["ngram_size"] = 2

    def answer(question: Question) -> Ids:
        search: dict[str, Any] = {
            "max_length": len(question.prompt) + question.max_tokens,
            "do_sample": question.temperature > 0,
            "top_k": question.top_k,
            "top_p": question.top_p,
        }
        if question.temperature > 0:
            search["temperature"] = question.temperature
        if question.seed is not None:
            search["random_seed"] = question.seed
        options = genai.GeneratorParams(model)
        options.set_search_options(**search)
        if speculative:
            options.set_speculative_options(**speculative)
        generator = genai.Generator(model, options)
        generator.append_tokens(question.prompt)
        while not generator.is_done():
            generator.generate_next_token()
        return [int(x) for x in generator.get_sequence(0)][len(question.prompt) :]

    return answer


def ctranslate2(setup: Setup) -> Answer:
    """``Generator`` of CTranslate2, in float32. It takes one seed for all requests."""
    library = importlib.import_module("ctranslate2")
    library.set_random_seed(int.from_bytes(os.urandom(4)))
    generator = library.Generator(str(setup.target), compute_type="float32")
    words = json.loads((setup.target / "vocabulary.json").read_text())

    def answer(question: Question) -> Ids:
        (result,) = generator.generate_batch(
            [[words[i] for i in question.prompt]],
            max_length=question.max_tokens,
            sampling_topk=question.top_k if question.temperature > 0 else 1,
            sampling_topp=question.top_p,
            sampling_temperature=question.temperature or 1.0,
            include_prompt_in_result=False,
            return_end_token=True,
        )
        return [int(x) for x in result.sequences_ids[0]]

    return answer


def node_llama_cpp(setup: Setup) -> Answer:
    """``evaluate`` of node-llama-cpp, which npm installed in the working folder."""
    script = Path(__file__).with_name("node_llama_cpp.mjs")
    drafts = "lookup" if setup.lookup else str(setup.draft or "none")
    process = subprocess.Popen(
        ["node", script, setup.target, drafts, str(setup.gamma)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    questions, lines = process.stdin, process.stdout

    def read() -> Any:
        # Its library may print lines of its own.
        for line in lines:
            if line.startswith(("[", "{")):
                return json.loads(line)
        raise SystemExit("node-llama-cpp ended; its message is above")

    read()

    def answer(question: Question) -> Ids:
        questions.write(json.dumps(question._asdict()) + "\n")
        questions.flush()
        made: Ids = read()
        return made

    return answer


def mistralrs(setup: Setup) -> Answer:
    """``Runner`` of mistral.rs, in float32. It takes text, and tells each token's bytes."""
    library = importlib.import_module("mistralrs")
    words: dict[str, int] = json.loads((setup.target / "tokenizer.json").read_text())["model"][
        "vocab"
    ]
    as_bytes = {bytes(_byte_of(c) for c in word): i for word, i in words.items() if i}
    if len(as_bytes) != len(words) - 1:
        raise SystemExit("two tokens have the same bytes: their ids cannot be told apart")
    with tempfile.NamedTemporaryFile("w", suffix=".jinja", delete=False) as template:
        template.write("{% for m in messages %}{{ m['content'] }}{% endfor %}")
    runner = library.Runner(
        which=library.Which.Plain(
            model_id=str(setup.target),
            arch=library.Architecture.Llama,
            dtype=library.ModelDType.F32,
        ),
        no_paged_attn=True,
        jinja_explicit=template.name,
        max_seqs=1,
        prefix_cache_n=0,
    )
    os.unlink(template.name)
    of_ids = {i: text for text, i in as_bytes.items()}

    def answer(question: Question) -> Ids:
        text = b"".join(of_ids[i] for i in question.prompt).decode()
        request = library.ChatCompletionRequest(
            messages=[{"role": "user", "content": text}],
            model="default",
            max_tokens=question.max_tokens,
            temperature=question.temperature,
            top_k=question.top_k or None,
            top_p=question.top_p,
            logprobs=True,
            top_logprobs=len(words),
        )
        given = runner.send_chat_completion_request(request)
        if given.usage.prompt_tokens != len(question.prompt):
            raise ValueError("its tokenizer makes other tokens of the prompt")
        pieces = given.choices[0].logprobs.content
        made = []
        for piece in pieces:
            # Bytes of a part of a character are lost; the list of all tokens has ids.
            alike = [
                one
                for one in piece.top_logprobs
                if one.bytes == piece.token and one.logprob == piece.logprob
            ]
            if len(alike) != 1:
                raise ValueError(f"{len(alike)} tokens have the text and probability of one")
            made.append(int(alike[0].token))
        return made

    return answer


def _byte_of(character: str) -> int:
    """Return the byte that a character of a byte-level vocabulary stands for (GPT-2's table)."""
    code = ord(character)
    if code < 256:
        return code
    others = [b for b in range(256) if not (33 <= b <= 126 or 161 <= b <= 172 or b >= 174)]
    return others[code - 256]


def transformers(setup: Setup) -> Answer:
    """``generate`` of Transformers, in float32. Its draws come from torch's one generator."""
    import torch

    library = importlib.import_module("transformers")

    def load(folder: Path) -> Any:
        model = library.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        model.generation_config.top_k = None
        return model

    model, more = load(setup.target), {}
    if setup.draft is not None:
        more["assistant_model"] = draft = load(setup.draft)
        draft.generation_config.num_assistant_tokens = setup.gamma
        draft.generation_config.num_assistant_tokens_schedule = "constant"
        draft.generation_config.assistant_confidence_threshold = 0.0
    if setup.lookup:
        more["prompt_lookup_num_tokens"] = setup.gamma

    def answer(question: Question) -> Ids:
        ids = torch.tensor([question.prompt])
        sampling: dict[str, Any] = {"do_sample": question.temperature > 0}
        if question.temperature > 0:
            sampling["temperature"] = question.temperature
            sampling |= {"top_k": question.top_k, "top_p": question.top_p}
        if question.seed is not None:
            torch.manual_seed(question.seed)
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=question.max_tokens,
            **sampling,
            **more,
        )
        made: Ids = out[0, ids.shape[1] :].tolist()
        return made

    return answer


ENGINES: dict[str, Callable[[Setup], Answer]] = {
    "openvino-genai": openvino_genai,
    "onnxruntime-genai": onnxruntime_genai,
    "ctranslate2": ctranslate2,
    "node-llama-cpp": node_llama_cpp,
    "mistralrs": mistralrs,
    "transformers": transformers,
}


class _Handler(BaseHTTPRequestHandler):
    """Answers /v1/models and /v1/completions."""

    server: "EngineServer"
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(200, {"data": [{"id": self.server.name, "owned_by": "simverify"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            answer, status = self.server.completion(body), 200
        except Exception as error:  # whatever the engine raises is its answer
            answer, status = {"error": {"message": f"{type(error).__name__}: {error}"}}, 400
        self._send(status, answer)

    def _send(self, status: int, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


class EngineServer(ThreadingHTTPServer):
    """An engine that answers one request at a time.

    ``own_seed``: leave the seed of requests that name none to the engine. By default each gets
    another one.
    """

    daemon_threads = True

    def __init__(self, name: str, answer: Answer, port: int, *, own_seed: bool) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.name, self._answer, self._own_seed = name, answer, own_seed
        self._one, self._asked = threading.Lock(), int.from_bytes(os.urandom(3))

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request. Raises ``ValueError`` for one that it cannot answer."""
        fields = {"prompt", "max_tokens", "temperature", "top_k", "top_p", "seed"}
        unknown = sorted(
            name
            for name, value in body.items()
            if name not in fields | {"model", "return_token_ids"} and value
        )
        if unknown:
            raise ValueError(f"{unknown[0]} is not among {', '.join(sorted(fields))}")
        prompt = body.get("prompt")
        if not isinstance(prompt, list) or not prompt:
            raise ValueError("prompt is no list of token ids")
        question = Question(**{name: body[name] for name in fields & body.keys()})
        with self._one:
            self._asked += 1
            if question.seed is None and not self._own_seed:
                question = question._replace(seed=self._asked)
            tokens = self._answer(question)
        ended = len(tokens) < question.max_tokens
        reason = "stop" if ended else "length"
        return {"choices": [{"text": "", "token_ids": tokens, "finish_reason": reason}]}


def main() -> None:
    """Load the models, print the port, and serve until the end of standard input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("target", type=Path)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--lookup", action="store_true")
    parser.add_argument("--gamma", type=int, default=4)
    parser.add_argument("--own-seed", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    answer = ENGINES[given.engine](Setup(given.target, given.draft, given.gamma, given.lookup))
    with EngineServer(given.engine, answer, given.port, own_seed=given.own_seed) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(json.dumps({"port": server.server_port}), flush=True)
        # Whoever started it closes this pipe, or ends.
        while os.read(0, 4096):
            pass


if __name__ == "__main__":
    main()
