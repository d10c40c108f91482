"""Transformers' drafts for Gemma 4: greedy, and reported as if they were sampled.

Its own candidate generator drafts, its own rule judges. The assistant is a stand-in.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simverify.engines.base import Engine
from simverify.engines.loading.loops import as_step
from simverify.engines.loading.packages import import_package
from simverify.engines.loading.rows_model import RowsModel
from simverify.engines.loading.stubs import torch

ON_TRIAL = ("generation/utils.py", "generation/candidate_generator.py")
GENERATOR = "SinglePositionMultiTokenCandidateGenerator"
NOTE = ("the assistant is a stand-in; in 5.22.2 to 5.24.0 the mistake is in get_candidates, "
        "whose drafts are greedy and reported as sampled: "
        "docs/reference/findings-servers.md")  # fmt: skip


class Gemma4AssistantStandIn:
    """An assistant that answers with the draft's rows; a token's embedding is 1 in its place."""

    def __init__(self, rows: RowsModel, ids: Sequence[int], settings: Any) -> None:
        self.rows, self.ids, self.generation_config = rows, list(ids[:-1]), settings
        self.device = torch.device("cpu")

    def __call__(self, inputs_embeds: Any, **_: Any) -> Any:
        """Return the row after one more token; the first that comes is the prompt's last."""
        self.ids.append(int(inputs_embeds[0, 0, : self.rows.vocab].argmax()))
        logits = self.rows.logits(self.ids, len(self.ids) - 1)
        return SimpleNamespace(logits=logits, last_hidden_state=torch.zeros(1, 1, 1))


def load(path: Path) -> Callable[..., Any]:
    """Return the generator, and the rule behind it, as a ``step`` callable."""
    library = import_package(path.parents[1], ON_TRIAL)
    drafters, rule = library.generation.candidate_generator, library.generation.utils
    made = getattr(drafters, GENERATOR)

    def loop(target: RowsModel, draft: RowsModel, ids: Any, gamma: int) -> Any:
        settings = library.GenerationConfig(max_length=1_000, num_assistant_tokens=gamma)
        assistant = Gemma4AssistantStandIn(draft, ids[0].tolist(), settings)
        ones = torch.nn.Embedding.from_pretrained(torch.eye(target.vocab))
        generator = made(assistant, ones, settings)
        before = SimpleNamespace(hidden_states=[torch.zeros(1, 1, 1)], shared_kv_states={})
        ids_drafted, q = generator.get_candidates(ids, {}, before, False, 0)
        p = target.logits(ids_drafted[0].tolist(), ids.shape[1] - 1)
        return rule._speculative_sampling(ids_drafted, q, gamma, p)[0][0]

    return as_step(loop, counted=(rule._speculative_sampling, made))


ENGINES = (
    Engine(name="hf-argmax-raw-q", package="transformers", loader=load, note=NOTE, whole=True,
           source="generation/candidate_generator.py", function=f"{GENERATOR}.get_candidates",
           contract="step", tier="exact", tolerance=1e-9, versions=">=5.22,<6", needs=("torch",),
           parameters=("input_ids", "model_kwargs", "model_outputs", "is_first_iteration")),
)  # fmt: skip
