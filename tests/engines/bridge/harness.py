"""A program on trial: the token rule, and every way to break the protocol, one of which is named.

Run as ``python harness.py WAY``; plain Python, so that it starts fast.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time

WAY = sys.argv[1]
HELLO = {"simverify": 1, "bits": 53, "dtype": "float64"}
HELLOS = {
    "no hello": None,
    "garbage hello": "ready!",
    "hello of version 2": json.dumps(HELLO | {"simverify": 2}),
    "hello without bits": json.dumps({"simverify": 1, "dtype": "float64"}),
    "hello with too many bits": json.dumps(HELLO | {"dtype": "float32"}),
    "hello in bfloat16": json.dumps(HELLO | {"bits": 8, "dtype": "bfloat16"}),
    "hello with more": json.dumps(HELLO | {"vocab": 3}),
    "hello in latin-1": None,
    "in float32": json.dumps(HELLO | {"bits": 24, "dtype": "float32"}),
}


def say(text, end="\n"):
    sys.stdout.write(text + end)
    sys.stdout.flush()


def invert(weights, u):
    goal, total, last = u * sum(weights), 0.0, 0
    for token, weight in enumerate(weights):
        if weight > 0:
            total, last = total + weight, token
            if goal < total:
                break
    return last


def verify(p, q, x, coins, *, wrong_row=False, last=False):
    for i, t in enumerate(x):
        if coins[i] * q[i][t] >= p[i][t]:
            other = p[i + 1] if wrong_row else p[i]
            residual = [max(a - b, 0.0) for a, b in zip(other, q[i], strict=True)]
            at = len(x) if last else i + 1
            return [*x[:i], invert(residual, coins[at])], at + 1
    return [*x, invert(p[-1], coins[len(x)])], len(x) + 1


def misbehave(call, tokens, used, given):
    """Answer a call in the way that was named."""
    answer = {"call": call, "tokens": tokens, "coins": used}
    vocab = len(given["target_probs"][0])
    lines = {
        "garbage": "Segmentation fault (core dumped)",
        "nothing on the line": "",
        "NaN": f'{{"call": {call}, "tokens": [NaN], "coins": 1}}',
        "floats": json.dumps(answer | {"tokens": [float(t) for t in tokens]}),
        "text": json.dumps(answer | {"tokens": [str(t) for t in tokens]}),
        "a list": json.dumps(tokens),
        "no coins": json.dumps({"call": call, "tokens": tokens}),
        "negative coins": json.dumps(answer | {"coins": -1}),
        "another call": json.dumps(answer | {"call": call + 1}),
        "too many tokens": json.dumps(answer | {"tokens": [*given["draft_tokens"], 0, 0]}),
        "no tokens": json.dumps(answer | {"tokens": []}),
        "ids beyond V": json.dumps(answer | {"tokens": [vocab]}),
        "negative ids": json.dumps(answer | {"tokens": [-1]}),
        "no prefix": json.dumps(answer | {"tokens": [1 - given["draft_tokens"][0], 0]}),
        "says too few coins": json.dumps(answer | {"coins": 0}),
        "needs more coins": json.dumps(answer | {"tokens": [], "coins": len(given["coins"]) + 3}),
        "a huge id": json.dumps(answer | {"tokens": [10**30]}),
        "deep": "[" * 100_000,
    }
    if WAY in lines:
        say(lines[WAY])
    elif WAY == "not UTF-8":
        os.write(1, b'{"call": \xff\xfe}\n')
    elif WAY == "two lines":
        say(json.dumps(answer) + "\n" + json.dumps(answer))
    elif WAY == "a log line":
        say("accepted " + str(len(tokens)) + "\n" + json.dumps(answer))
    elif WAY == "half a line":
        say('{"call": 0, "tok', end="")
        time.sleep(600)
    elif WAY == "half a line and out":
        say('{"call": 0, "tok', end="")
        sys.exit(3)
    elif WAY == "a huge line":
        say("x" * 3_000_000)
    elif WAY == "no end of line":
        while True:
            say("x" * 65536, end="")
    elif WAY == "hangs":
        time.sleep(600)
    elif WAY == "spins":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            pass
    elif WAY == "never flushes":
        sys.stdout.write(json.dumps(answer) + "\n")
    elif WAY == "exits":
        print("panicked at 'index out of bounds'", file=sys.stderr)
        sys.exit(101)
    elif WAY == "segfaults" or (WAY == "segfaults on one input" and given["draft_tokens"] == [1]):
        os.kill(os.getpid(), signal.SIGSEGV)
    elif WAY == "closes its output":
        os.close(1)
        time.sleep(600)
    elif WAY == "leaves a child":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", sys.argv[-1]])
        sys.exit(0)
    elif WAY == "draws itself":
        other = {**given, "coins": [random.random() for _ in given["coins"]]}
        say(json.dumps(answer | {"tokens": verify(*map(other.get, NAMES))[0]}))
    elif WAY == "keeps something":
        kept.append(tokens)
        say(json.dumps(answer | {"tokens": kept[0] if len(kept) % 40 == 0 else tokens}))
    elif WAY == "fills standard error":
        while True:
            os.write(2, b"full " * 10_000)
    elif WAY == "floods standard error":
        sys.stderr.write("warning: slow path taken\n" * 40)
        say(json.dumps(answer))
    else:
        say(json.dumps(answer))


NAMES = ("target_probs", "draft_probs", "draft_tokens", "coins")
kept = []

if WAY == "ends before hello":
    print("no such model", file=sys.stderr)
    sys.exit(5)
if WAY == "hello in latin-1":
    os.write(1, b"\xe9t\xe9\n")
hello = HELLOS.get(WAY, json.dumps(HELLO))
if hello is not None:
    say(hello)
if WAY == "reads nothing":
    time.sleep(600)
if WAY == "reads all first":
    lines = sys.stdin.readlines()
for line in sys.stdin:
    given = json.loads(line)
    assert list(given) == ["call", "gamma", "vocab", *NAMES]
    assert len(given["target_probs"]) == given["gamma"] + 1
    tokens, used = verify(
        *map(given.get, NAMES), wrong_row=WAY == "wrong row", last=WAY == "last coin"
    )
    misbehave(given["call"], tokens, used, given)
