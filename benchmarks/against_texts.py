"""How often two servers of real texts are told apart, by the design that is asked of servers.

Both are simulated: the bundled target and draft, the bundled prompts. The first draws from the
target; the second verifies drafts, rightly or not, and each token is drawn as it would. Prompts
are tried, chosen and asked as ``audit --endpoint A --against B`` does.

    python benchmarks/against_texts.py --runs 20              # a minute or two of each run
    python benchmarks/against_texts.py --runs 200 --only right --detect .3 --alpha .05
    python benchmarks/against_texts.py --runs 20 --only "late lenient" --detect .15
"""

import argparse
import time
from collections import Counter

import numpy as np
import torch
from transformers import DynamicCache

from simverify import stats
from simverify.models.transformer import BUNDLED, load_pair, read_prompts
from simverify.served.answers import MAX_TOKENS, AgainstSettings, Answer, pair_answers
from simverify.served.two_sample import AnswerSources, BothAnswers, audit_against, run_schedule

HERE = AnswerSources("first", "second", "python benchmarks/against_texts.py", side_by_side=True)
PROMPTS = read_prompts(BUNDLED / "prompts.jsonl")
GAMMA = 4


def right(p, q):
    """Law of a drafted token, and the part of it that is the draft's own, accepted."""
    return p, np.minimum(p, q)


def lenient(p, q):
    """Accept with chance min(1, p / (.5 q)), and draw from the residual otherwise."""
    kept, residual = np.minimum(q, p / 0.5), np.maximum(p - q, 0.0)
    return kept + (1.0 - kept.sum()) * residual / max(residual.sum(), 1e-300), kept


def ensemble(p, q):
    """Verify against .8 p + .2 q."""
    law = 0.8 * p + 0.2 * q
    return law, np.minimum(law, q)


ENGINES = {
    "right": (right, True),
    "lenient": (lenient, True),
    "ensemble": (ensemble, True),
    "late lenient": (lenient, False),
    "late ensemble": (ensemble, False),
}
"""By name the law of a drafted token, and whether the first token of an answer is drafted; the
others take it from the target's prefill, as vLLM does."""


class Texts:
    """Rows of target and draft behind the beginnings of answers, each computed once."""

    def __init__(self, most=150_000):
        self.pair = load_pair("tiny-llama", "tiny-llama")
        self.models = (self.pair.target_model, self.pair.draft_model)
        self.ids = [self.pair.encode(text) for text in PROMPTS]
        self._rows, self._memory, self._most = {}, {}, most

    def rows(self, prompt, beginnings):
        """Rows (2, V) float32 of each beginning of an answer to a prompt."""
        if len(self._rows) > self._most:
            self._rows = {key: own for key, own in self._rows.items() if len(key[1]) < 2}
        todo = [start for start in beginnings if (prompt, start) not in self._rows]
        for at in range(0, len(todo), 256):
            part = todo[at : at + 256]
            for start, own in zip(part, self._computed(prompt, part), strict=True):
                self._rows[prompt, start] = own
        return self._rows

    @torch.inference_mode()
    def _computed(self, prompt, part):
        ids = self.ids[prompt]
        if prompt not in self._memory:
            self._memory[prompt] = [
                [(layer.keys, layer.values) for layer in
                 model(torch.tensor([ids[:-1]]), use_cache=True).past_key_values.layers]
                for model in self.models
            ]  # fmt: skip
        found = []
        for model, memory in zip(self.models, self._memory[prompt], strict=True):
            cache = DynamicCache()
            for i, own in enumerate(memory):
                cache.update(*(x.expand(len(part), -1, -1, -1) for x in own), i)
            text = torch.tensor([[ids[-1], *start] for start in part])
            logits = model(text, past_key_values=cache, use_cache=True).logits[:, -1]
            found.append(logits.softmax(-1).numpy())
        return np.stack(found, axis=1)


def answers(texts, prompt, count, length, engine, rng):
    """Draw answers of an engine to a prompt: ids, a tuple each."""
    law, drafted = ENGINES[engine]
    out, place = [()] * count, np.full(count, 0 if drafted else GAMMA)
    for _ in range(length):
        groups = {}
        for i, start in enumerate(out):
            groups.setdefault((start, place[i] == GAMMA), []).append(i)
        rows = texts.rows(prompt, {start for start, _ in groups})
        for (start, bonus), who in groups.items():
            p, q = rows[prompt, start].astype(np.float64)
            own, kept = (p, p) if bonus else law(p, q)
            cdf = np.cumsum(own)
            drawn = np.searchsorted(cdf, rng.random(len(who)) * cdf[-1], side="right")
            for i, token, u in zip(who, drawn, rng.random(len(who)), strict=True):
                accepted = not bonus and u * own[token] < kept[token]
                place[i] = place[i] + 1 if accepted else 0
                out[i] = (*out[i], int(token))
    return out


def asking(texts, engine, length, rng):
    """Return what asks both servers, of which the second is ``engine``."""
    place = {text: number for number, text in enumerate(PROMPTS)}

    def ask(schedule, before):
        done = 0 if before is None else len(before.first)
        sides = [[], []] if before is None else [list(before.first), list(before.second)]
        todo = Counter(schedule[done:])
        for side, name in enumerate(("right", engine)):
            drawn = {t: answers(texts, place[t], n, length, name, rng) for t, n in todo.items()}
            for text in schedule[done:]:
                ids = drawn[text].pop()
                sides[side].append(Answer(text, {"ids": ids}, False, {}, True, True))
        return BothAnswers(tuple(sides[0]), tuple(sides[1]), ())

    return ask


def main() -> None:
    """Compare, count and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--alpha", type=float, default=1e-6)
    parser.add_argument("--detect", type=float, default=AgainstSettings.detect)
    parser.add_argument("--repeats", type=int, help="all prompts, as often")
    parser.add_argument("--max-tokens", type=int, default=MAX_TOKENS)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--only", choices=tuple(ENGINES))
    given = parser.parse_args()
    torch.set_num_threads(1)
    texts = Texts()
    settings = AgainstSettings(given.repeats, given.alpha, given.detect)
    print(settings.plan(len(PROMPTS), given.max_tokens))
    for engine in ENGINES:
        if given.only not in (None, engine):
            continue
        verdicts, by, promised, spent, began = Counter(), Counter(), [], [], time.process_time()
        for run in range(given.runs):
            rng = np.random.default_rng(given.seed + run)
            asked = run_schedule(PROMPTS, settings, asking(texts, engine, given.max_tokens, rng))
            found = audit_against(pair_answers(asked.first, asked.second), HERE, settings)
            verdicts[found.verdict] += 1
            by.update(test.name for test in found.tests if test.rejected)
            promised.append(found.detectable)
            spent.append(sum(found.tokens))
        failed, n = verdicts["FAIL"], given.runs
        (low,), (high,) = stats.rate_interval([failed], n, error=0.05)
        print(f"{engine}: of {n} runs {failed} FAIL (rate {low:.3f} to {high:.3f} at 95%), "
              f"{verdicts['PASS']} PASS, {verdicts['INCONCLUSIVE']} INCONCLUSIVE; TV "
              f"{np.median(promised):.3f} promised; {np.median(spent):,.0f} tokens of both; "
              f"{(time.process_time() - began) / n:.0f} s a run", flush=True)  # fmt: skip
        for test, count in by.most_common():
            print(f"  {count} by {test}", flush=True)


if __name__ == "__main__":
    main()
