"""Requests as an engine with a given verifier answers them, and a server that gives them out."""

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from simverify.models.transformer import BUNDLED, read_prompts
from simverify.served import Endpoint, collect_answers
from simverify.simulators.decoding.loop import Job, decode, verifier_factory

PROMPTS = read_prompts(BUNDLED / "prompts.jsonl")


class ArgmaxDraft:
    """One drafted token, the draft's likeliest, judged as if it had been drawn from q."""

    def reset(self):
        pass

    def judge(self, position, p, q, drafts, rng):
        top = int(q[0].argmax())
        if rng.random() < p[0][top] / q[0][top]:
            return [top]
        residual = np.maximum(p[0] - q[0], 0.0)
        return [int(rng.choice(len(residual), p=residual / residual.sum()))]


class Ensemble:
    """A token of .8 p + .2 q: an engine that mixes its draft into the target."""

    def reset(self):
        pass

    def judge(self, position, p, q, drafts, rng):
        law = 0.8 * p[0] + 0.2 * q[0]
        return [int(rng.choice(len(law), p=law / law.sum()))]


OWN = (ArgmaxDraft, Ensemble)
"""Rules that draw for themselves, whatever they are called with."""


def emitted(pair, rule, tokens, *, gamma=4, lanes=64, length=64, seed=0, prompts=PROMPTS):
    """Objects of a JSONL file, ``tokens`` tokens or a little more in all."""
    ids = tuple(tuple(pair.encode(text)) for text in prompts)
    found = [[] for _ in range(lanes)]

    def see(block):
        if block.first:
            found[block.lane].append([])
        found[block.lane][-1] += block.emitted

    job = Job(ids, gamma, lanes, -(-tokens // lanes), length, seed)
    decode(pair, job, rule if rule in OWN else verifier_factory(rule), see)
    return [
        {
            "prompt": list(ids[(lane + k * lanes) % len(ids)]),
            "tokens": own,
            "finish_reason": "stop" if own[-1] in pair.eos else "length",
        }
        for lane, requests in enumerate(found)
        for k, own in enumerate(requests)
    ]


def write_lines(path, objects):
    """Write a JSONL file; return its path."""
    path.write_text("".join(json.dumps(value) + "\n" for value in objects))
    return path


@dataclass
class Reply:
    """What a server answers, when it is not a choice; no ``content``: it hangs up."""

    content: bytes | None = None
    status: int = 200
    headers: dict = field(default_factory=dict)


@contextmanager
def serving(complete, *, status=200, owner=None, seen=None, models=None):
    """Serve ``complete(body) -> choice`` (or bytes, or a Reply) on loopback; yield the address.

    ``models``: what stands in the place of the list of models.
    ``owner``: by whom the model is said to be. ``seen``: list that takes every request's headers.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self._note()
            model = {"id": "served"} | ({} if owner is None else {"owned_by": owner})
            listed = json.dumps({"data": [model]}).encode() if models is None else models
            self._send(Reply(listed))

        def do_POST(self):
            self._note()
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            choice = complete(body)
            if isinstance(choice, bytes):
                choice = Reply(choice, status)
            if isinstance(choice, dict):
                choice = Reply(json.dumps({"choices": [choice]}).encode())
            if choice.content is not None:
                self._send(choice)

        def _note(self):
            if seen is not None:
                seen.append(dict(self.headers))

        def _send(self, reply):
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.content)))
            self.end_headers()
            self.wfile.write(reply.content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def asked(pair, complete, tokens=6, *, most=3, model=None, **serve):
    """Ask a server with these answers for as many tokens, of one prompt."""
    with serving(complete, **serve) as address:
        return collect_answers(Endpoint(address, model, most), PROMPTS[:1], pair, tokens)
