"""Llama and Qwen2 in plain formulas, in float64, with layers in groups: slow and sure."""

import torch


class NaiveLlama:
    """One request, fed piece by piece; ``keys`` and ``values`` (heads, n, d) by layer."""

    def __init__(self, model, same_input=False):
        self.config = model.config
        self.weights = {name: x.detach().double() for name, x in model.state_dict().items()}
        self.keys = [None] * self.config.num_hidden_layers
        self.values = [None] * self.config.num_hidden_layers
        self.same_input = same_input
        """A wrong way: every MLP of a group is given the group's input, and none hears another."""

    def feed(self, ids, groups, positions=None, visible=None):
        """Return logits (n, V) after each of ``ids``, their layers run in ``groups``.

        ``visible``: bool (n, m) of the m = past + n tokens; causal if it is not given.
        """
        past = 0 if self.keys[0] is None else self.keys[0].shape[1]
        n = len(ids)
        if positions is None:
            positions = torch.arange(past, past + n)
        if visible is None:
            visible = torch.ones(n, past + n, dtype=torch.bool).tril(past)
        h = self.weights["model.embed_tokens.weight"][torch.as_tensor(ids)]
        for group in groups:
            attended = [self.attention(i, h, torch.as_tensor(positions), visible) for i in group]
            start, others = h, torch.zeros_like(h)
            for i, attention in zip(group, attended, strict=True):
                if self.same_input:
                    others = others + attention + self.mlp(i, start + attention)
                else:
                    mixed = h + attention
                    h = mixed + self.mlp(i, mixed)
            h = h + others
        head = self.weights.get("lm_head.weight", self.weights["model.embed_tokens.weight"])
        return self.norm("model.norm", h) @ head.T

    def norm(self, name, x):
        size = (x**2).mean(dim=-1, keepdim=True) + self.config.rms_norm_eps
        return x / size.sqrt() * self.weights[f"{name}.weight"]

    def linear(self, name, x):
        return x @ self.weights[f"{name}.weight"].T + self.weights.get(f"{name}.bias", 0)

    def mlp(self, i, h):
        x = self.norm(f"model.layers.{i}.post_attention_layernorm", h)
        up, gate = (self.linear(f"model.layers.{i}.mlp.{part}_proj", x) for part in ("up", "gate"))
        return self.linear(f"model.layers.{i}.mlp.down_proj", up * gate / (1 + (-gate).exp()))

    def attention(self, i, h, positions, visible):
        x = self.norm(f"model.layers.{i}.input_layernorm", h)
        of = f"model.layers.{i}.self_attn"
        wide = self.config.hidden_size // self.config.num_attention_heads
        q, k, v = (
            self.linear(f"{of}.{part}_proj", x).unflatten(-1, (-1, wide)).transpose(0, 1)
            for part in "qkv"
        )
        q, k = (self.turned(y, positions) for y in (q, k))
        if self.keys[i] is not None:
            k, v = torch.cat([self.keys[i], k], dim=1), torch.cat([self.values[i], v], dim=1)
        self.keys[i], self.values[i] = k, v
        shared = self.config.num_attention_heads // self.config.num_key_value_heads
        found = []
        for head in range(self.config.num_attention_heads):
            scores = q[head] @ k[head // shared].T / wide**0.5
            weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
            found.append(weights @ v[head // shared])
        return self.linear(f"{of}.o_proj", torch.cat(found, dim=-1))

    def turned(self, x, positions):
        """Rotary positions: pair (j, j + d/2) is a complex number, turned by its angle."""
        half = x.shape[-1] // 2
        theta = self.config.rope_parameters["rope_theta"]
        angles = positions[:, None].double() / theta ** (torch.arange(half).double() / half)
        turn = torch.polar(torch.ones_like(angles), angles)
        pairs = torch.complex(x[..., :half], x[..., half:]) * turn
        return torch.cat([pairs.real, pairs.imag], dim=-1)
