"""Conversations: messages and tools, and the prompt that a chat template makes of them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simverify.errors import UsageError
from simverify.models.real.prompts import prompt_iv, read_prompts, unicode_iv
from simverify.models.real.transformer import TransformerPair

FIELDS = ("messages", "tools", "chat_template_kwargs")
"""What of a request a chat template is given."""


@dataclass(frozen=True)
class Chat:
    """A conversation that waits for its next turn, as the JSON of its fields."""

    text: str

    @property
    def fields(self) -> dict[str, Any]:
        """What a request says of it: ``messages``, and ``tools`` and more if it has any."""
        found: dict[str, Any] = json.loads(self.text)
        return found


Prompt = str | Chat
"""What a server is asked to go on with."""


def prompt_fields(prompt: Prompt) -> dict[str, Any]:
    """Return what a line of a file, or the body of a request, says of a prompt."""
    return {"prompt": prompt} if isinstance(prompt, str) else prompt.fields


def prompt_ids(prompt: Prompt, pair: TransformerPair) -> tuple[int, ...]:
    """Return the ids that the target's tokenizer, and its chat template, make of a prompt."""
    if isinstance(prompt, Chat):
        return chat_ids(prompt, pair, "prompts")
    return tuple(pair.encode(prompt))


def read_asked(path: Path) -> tuple[Prompt, ...]:
    """Return the prompts of a file as :func:`read_prompts` does, conversations among them.

    A line of a ``.jsonl`` file with ``messages`` is one: a list of objects with ``role``, and
    ``content`` or ``tool_calls``, the last not the assistant's; ``tools`` may stand beside it.

    Raises
    ------
    UsageError
        As :func:`read_prompts`, and for messages that are none.
    """
    if path.suffix != ".jsonl":
        return read_prompts(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError):
        return read_prompts(path)  # which says what is wrong
    found: list[Prompt] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and "messages" in value:
            found.append(chat_iv(value, f"prompts: {where}"))
        elif text := prompt_iv(where, line):
            found.append(text)
    return tuple(found) or read_prompts(path)


def chat_iv(value: dict[str, Any], where: str) -> Chat:
    """Return the conversation of an object; ``UsageError`` if its messages are none."""
    messages = value.get("messages")
    if not isinstance(messages, list) or not messages:
        raise UsageError(f"{where}: messages is no list: expected one message or more")
    for i, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise UsageError(f"{where}: messages[{i}] has no role: expected user, or another")
        if not any(message.get(name) is not None for name in ("content", "tool_calls")):
            raise UsageError(f"{where}: messages[{i}] has neither content nor tool_calls")
    if messages[-1]["role"] == "assistant":
        raise UsageError(f"{where}: the last message is the assistant's: expected one to answer")
    if value.get("tools") is not None and not isinstance(value["tools"], list):
        raise UsageError(f"{where}: tools is {type(value['tools']).__name__}: expected a list")
    own = {name: value[name] for name in FIELDS if value.get(name)}
    text = json.dumps(own, ensure_ascii=False)
    return Chat(unicode_iv(text, where))


def chat_ids(chat: Chat, pair: TransformerPair, where: str) -> tuple[int, ...]:
    """Return the ids that the target's chat template makes of a conversation, as a server does.

    Raises
    ------
    UsageError
        If the tokenizer has no template, or the template refuses the conversation.
    """
    own = chat.fields
    tokenizer = pair.tokenizer
    if getattr(tokenizer, "chat_template", None) is None:
        raise UsageError(
            f"{where} has messages, and the tokenizer of {pair.target_name} has no chat template: "
            f"give prompt, the text or the ids that the server made of them"
        )
    more = own.get("chat_template_kwargs") or {}
    messages = [_with_arguments(message) for message in own["messages"]]
    try:
        text = tokenizer.apply_chat_template(
            messages, tools=own.get("tools"), add_generation_prompt=True, tokenize=False, **more
        )
    except Exception as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise UsageError(
            f"{where}: the chat template of {pair.target_name} refuses its messages: {words}"
        ) from None
    return tuple(tokenizer(text, add_special_tokens=False).input_ids)


def _with_arguments(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose calls of tools have their arguments as objects, as templates want."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    return message | {"tool_calls": [_call(call) for call in calls]}


def _call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        return call
    return call | {"function": function | {"arguments": arguments}}
