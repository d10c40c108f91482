"""Programs over draws of tensors that once had another law than torch gives them."""

import pytest
from support.fuzzing.differential import run_twice

pytest.importorskip("torch")

TORCH = {
    "swamped noise": "x = torch.rand(1) + 1e5 - 1e5; return int(x[0] < 0.3)",
    "scattered in place": "a = torch.rand(3)\n    a.scatter_(0, torch.tensor([1]), 0.1)\n"
    "    return int(a[1] + 0.2 > a[0])",
    "scattered rows": "a = torch.zeros(2, 3)\n"
    "    a = a.scatter(1, torch.tensor([[2, 0], [1, 2]]), torch.rand(2, 2))\n"
    "    return int(a.argmax(1).sum())",
    "masked in place": "a = torch.rand(2)\n    a.masked_fill_(a > 0.5, 0.1)\n"
    "    return int(a[0] < 0.25)",
    "noise in a byte": "x = -torch.log(-torch.log(torch.rand(1))).to(torch.int8)\n"
    "    return int(torch.log(x + 1)[0] > -0.25)",
    "half that is 1": "return int(torch.rand(1).half()[0] >= 1)",
    "bfloat16": "return int((torch.rand(1).bfloat16() * 0.7)[0] < 0.3)",
    "half plus a number": "return int((torch.rand(1).half() + 0.3)[0] < 0.6)",
    "half less what it cannot hold": "return int(torch.isnan(torch.rand(1).half() + 1e5 - 1e5)[0])",
    "half is 0": "return int(torch.rand(1, dtype=torch.float16)[0] <= 0)",
    "uint8": "return int((torch.randint(0, 200, (1,), dtype=torch.uint8) * 2)[0]) // 64",
    "scalars are float32": "return int(torch.rand(1)[0] < 0.1)",
    "half divided down": "return int(((torch.rand(1) - 0.5).half() // 0.3)[0]) + 3",
    "half and a tensor of no dimension": "a = torch.rand(1).half()\n"
    "    return int((a % torch.tensor(0.1))[0] < 0.05) + 2 * int((torch.tensor(0.3) * a)[0] < 0.1)",
    "half times integers": "a = torch.randint(2000, 2060, (1,)) * torch.tensor([0.3]).half()\n"
    "    return int(a[0]) % 27",
    # A tensor without draws that takes them in by what is done to it in place.
    "times in place": "p = torch.tensor([0.5, 0.3]); p.mul_(torch.rand(2) + 1)\n"
    "    return int(p[0] < 0.6) + 2 * int(p[1] < 0.4)",
    "*= of a part": "p = torch.tensor([0.5, 0.3, 0.2]); p[1:] /= torch.rand(2) + 1\n"
    "    return int(p[1] < 0.2) + 2 * int(p[0] == 0.5)",
    "in place, twice": "p = torch.ones(2); p.sub_(torch.rand(2)); p.add_(0.25)\n"
    "    return int(p[0] < 0.5) + 2 * int(p[1] < 1)",
    "in place, and read after": "p = torch.tensor([0.5, 0.3]); q = p * 2; p.add_(torch.rand(2))\n"
    "    return int(q[0] == 1) + 2 * int(p[1] < 0.5)",
    "filled again": "p = torch.zeros(2).uniform_(); q = p.clone(); p.exponential_()\n"
    "    return int(p[0] < 0.5) + 2 * int(q[1] < 0.2)",
    "a part filled": "p = torch.full((3,), 0.5); p[1:].uniform_()\n"
    "    return int(p[0] == 0.5) + 2 * int(p[1] < 0.2)",
    # Bounds that leave few points of float32's grid on one side, or none.
    "above a ratio that rounding made": "p = torch.tensor([0.3], dtype=torch.float64)\n"
    "    return int(torch.rand(1)[0] > (p / p.float())[0] * (1 - 3e-8))",
    "above the last float32 below 1": "u = torch.rand(1)\n"
    "    return 2 * int(u[0] > 1 - 9e-8) + int(u[0] < 0.4)",
    "at least the last float32 below 1": "u = torch.rand(1)\n"
    "    return 2 * int(u[0] >= 1 - 2.0**-24) + int(u[0] > 1 - 2.0**-24)",
    "above it as a double": "u = torch.rand(1).double()\n"
    "    return 2 * int(u[0] > 1 - 2e-8) + int(u[0] < 0.25)",
    "below the first one above 0": "u = 1 - torch.rand(1)\n"
    "    return 2 * int(u[0] < 2.0**-24) + int(u[0] <= 2.0**-24)",
    "searched in the type of both": "return int(torch.bucketize(torch.rand(1).half()[0], "
    "torch.tensor([0.2, 0.6])))",
    "written where elements are one": "a = torch.rand(1).expand(2); a.sign_(); return int(a[0])",
    "filled where elements are one": "a = torch.rand(1).expand(2); a.fill_(a[0]); return int(a[0])",
    "equal as a whole": "u = torch.rand(2)\n"
    "    return int(torch.equal(u, u)) + 2 * int(torch.equal(u, u[:1]))",
    "the first of equal ones": "u = torch.rand(1).repeat(2)\n"
    "    return int(u.argmax()) + 2 * int(u.sort(descending=True).indices[0])",
    "a sum of bytes": "x = torch.randint(0, 200, (1,), dtype=torch.uint8).repeat(2)\n"
    "    return int(x.sum() < 2)",
    "a sum of 16 bits": "x = torch.cat([torch.rand(1).half(), torch.full((3,), 600.3).half()])\n"
    "    return int(x.sum() < 1801.5)",
    "what torch does not take": "a = torch.rand(2); a[0] = np.float32(0.3)\n"
    "    return int(a[1] < 0.4)",
    # Types that are the same for one value and not for another.
    "an integer that overflows": "x = torch.randint(0, 3, (1,), dtype=torch.int8)\n"
    "    return int((x + 100)[0]) - 100 + int((x * 100)[0] < 0)",
    "types in turn": "u = torch.rand(2); v = u.double()\n"
    "    return int((u * 2)[0] < 0.3) + 2 * int((v * 2)[1] < 0.3) + 4 * ((u + v).dtype == v.dtype)",
}


@pytest.mark.parametrize("what", TORCH)
@pytest.mark.thorough
def test_what_was_found_in_tensors_stays_mended(what):
    assert run_twice(f"def program(rng):\n    {TORCH[what]}\n", seed=13) == "same"
