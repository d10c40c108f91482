"""``simverify audit SPEC --target``: the pair of real models on which code decodes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from simverify.errors import UsageError

if TYPE_CHECKING:
    from simverify.auditing.real.live import Live


def live_of(given: Mapping[str, Any]) -> "Live":
    """Return what the options say, by parameter name; None: not given.

    Raises ``UsageError`` if one is missing or out of its range.
    """
    bundled = given["target"] == "tiny-llama"
    missing = {
        "draft": "real models are a target and a draft",
        "prompts": "name a file of prompts, JSONL or text",
    }
    for name, why in missing.items():
        if given[name] is None and not bundled:
            raise UsageError(f"--{name} is missing: {why}")
    from simverify.auditing.real.live import Live
    from simverify.models.real.sampling import Sampling

    temperature = 1.0 if given["temperature"] is None else given["temperature"]
    own = ("gamma", "tokens", "contract", "device", "dtype", "threads")
    return Live(
        target=given["target"],
        draft=given["draft"] or "tiny-llama",
        prompts=given["prompts"],
        sampling=Sampling(temperature, given["top_k"], given["top_p"]),
        **{name: given[name] for name in own if given[name] is not None},
    )
