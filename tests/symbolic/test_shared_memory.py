"""Arrays and tensors that share their memory: what is written into one is seen in the other."""

import pytest
from support.fuzzing.differential import Finding, run_twice

from simverify.symbolic import symbolic_tensor

torch = pytest.importorskip("torch")

SAME = (
    "a = torch.rand(3); b = torch.as_tensor(a); b[0] = 0.0; return int(a[0] < .3)",
    "a = torch.rand(3); b = torch.asarray(a); b.mul_(2); return int(a[0] < .3)",
    "a = torch.rand(3); b = torch.asarray(a, copy=True); b.mul_(2); return int(a[0] < .3)",
    "a = torch.rand(3); b = torch.asarray(a, dtype=torch.float64); b *= 2; return int(a[0] < .3)",
    "x = rng.random(3); t = torch.from_numpy(x); t[0] = 0.0; return int(x[0] < .3)",
    "x = rng.random(3); t = torch.as_tensor(x); x[0] = 0.0; return int(t[0] < .3)",
    "x = rng.random(3); t = torch.asarray(x, dtype=torch.float32); x *= 2; return int(t[0] < .3)",
    "x = rng.random(3); t = torch.tensor(x); x[0] = 0.0; return int(t[0] < .3)",
    "x = rng.random(3); t = torch.from_numpy(x); x *= 2; return int(t[0] < .3)",
    "x = rng.random(3); t = torch.from_numpy(x[1:]); t.mul_(2); return int(x[1] < .3)",
    "x = rng.random((3, 2)); t = torch.from_numpy(x)[:, 1]; t.mul_(2); return int(x[2, 1] < .3)",
    "x = np.float32(rng.random(3)); t = torch.from_numpy(x); t.mul_(2); return int(x[0] < .3)",
    "a = torch.rand(3); y = a.numpy(); y[0] = 0; return int(a[0] < .3)",
    "a = torch.rand(3); y = a.numpy(); a[0] = 0; return int(y[0] < .3)",
    "a = torch.rand(3); y = np.asarray(a); a.mul_(2); return int(y[0] < .3)",
    "a = torch.rand(3); y = np.array(a); a.mul_(2); return int(y[0] < .3)",
    "a = torch.rand((2, 3)); y = a.T.numpy(); y *= 2; return int(a[1, 2] < .3)",
    "a = rng.random(3); b = a.astype(float, copy=False); b *= 0; return int(a[0] < .3)",
    "a = rng.random(3); b = a.astype(float); b *= 0; return int(a[0] < .3)",
    # What torch refuses to write into itself, also through another name of it.
    "a = torch.rand(3); a.copy_(torch.as_tensor(a[0])); return int(a[1] < .3)",
    # Several elements that are one number: torch writes one of them, and never all of them.
    "a = torch.rand(1).expand(2); a[:] = torch.tensor([1], dtype=torch.uint8); return int(a[0])",
    "a = torch.rand(1).expand(2); a[:] = .3; return int(a[1] < .4)",
    "a = torch.rand(1).expand(2); a[0] = .3; return int(a[1] < .4)",
    "a = torch.rand(1).expand(2); a[torch.tensor([0])] = .3; return int(a[1] < .4)",
    "a = torch.zeros(1).expand(2); a[1] = torch.rand(()); return int(a[0] < .4)",
    "a = torch.zeros(1).expand(2); a += torch.rand(2); return int(a[1] < .4)",
    "a = torch.rand(2).broadcast_to(2, 2); a.zero_(); return int(a[1, 0] < .4)",
    "a = torch.rand(3).unfold(0, 2, 1); a[0, 1] = .3; return int(a[1, 0] < .4)",
    "a = torch.randint(0, 9, (1,)).expand(2); a[0] += 1; return int(a[1])",
    # numpy shows them as they are, and lets nobody write.
    "a = rng.random(2); b = np.broadcast_to(a, (2, 2)); a[0] = .2; return int(b[1, 0] < .3)",
    "a = np.broadcast_to(rng.random(1), 2); a[0] = .2; return int(a[1] < .3)",
    "a = np.broadcast_to(random.random(), 2); a += .2; return int(a[1] < .3)",
    "a, _ = np.broadcast_arrays(rng.random(2), W[:2]); a[1] = .2; return int((a < .3).sum())",
    # Numbers alone are left of an array that held draws.
    "a = rng.random(3).astype(np.float16); np.place(a, a < .125, True)\n"
    "    np.multiply(a, 2, where=a < .125, out=a); return int(a[0] == 1)",
    "a = torch.trunc(torch.rand(3).half() * -3)\n    b = torch.from_numpy(rng.random(3))\n"
    "    return int(np.minimum(a[0], b[0]) < 1/3)",
)


@pytest.mark.parametrize("text", SAME)
def test_what_is_written_into_shared_memory_is_seen(text):
    assert run_twice(f"def program(rng):\n    {text}\n", seed=21) == "same"


def test_a_copy_in_the_place_of_shared_memory_is_told(monkeypatch):
    """Negative control."""
    monkeypatch.setattr(symbolic_tensor.SymbolicStorages, "shared", lambda *_, **__: None)
    assert isinstance(run_twice(f"def program(rng):\n    {SAME[0]}\n", seed=21), Finding)


def test_a_written_tensor_that_shares_no_memory_with_itself_is_told(monkeypatch):
    """Negative control: torch is asked on a copy in which every element is its own."""
    monkeypatch.setattr(symbolic_tensor.TorchPlaceholders, "_blank_copy", lambda self, x: (
        torch.ones_like(x).contiguous() if isinstance(x, torch.Tensor) else x
    ))  # fmt: skip
    text = next(x for x in SAME if "uint8" in x)
    assert isinstance(run_twice(f"def program(rng):\n    {text}\n", seed=21), Finding)
