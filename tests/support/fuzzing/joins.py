"""What joins values of several types, chooses among them or writes them into each other, as text.

``{a}`` is an array or a tensor, ``{x}`` a number, ``{v}`` and ``{tv}`` what it meets.
"""

VALUES = (
    "0", "1", "0.4", "True", "-1", "300", "1e5", "np.float16(0.3)", "np.float32(0.3)",
    "np.float64(0.3)", "np.int8(1)", "np.uint8(200)", "np.int64(1)", "np.bool_(True)",
    "np.array(0.4)", "np.array(1)", "W[:len({a})]", "W[:1]", "np.float16([0.3])",
    "np.float32([0.3])", "np.int8([1])", "np.array([2])", "[0.4]", "[1]", "{a}[0]", "{a}[:1]",
    "{a}[0].item()", "{a}.astype(np.float32)", "rng.random()", "np.float16(rng.random())",
    "rng.random(1)",
)  # fmt: skip
TENSOR_VALUES = (
    "0", "1", "0.4", "True", "-1", "300", "1e5", "torch.tensor(0.4)", "torch.tensor(1)",
    "torch.tensor(0.4, dtype=torch.float64)", "torch.tensor(0.4).half()", "torch.tensor([0.4])",
    "torch.tensor([0.4], dtype=torch.float64)", "torch.tensor([0.4]).half()", "torch.tensor([2])",
    "torch.tensor([1], dtype=torch.uint8)", "torch.tensor([True])", "{a}[0]", "{a}[:1].double()",
    "{a}[0].item()", "{a}.half()", "torch.rand(())", "torch.rand(1).half()", "rng.random()",
)  # fmt: skip
ARRAYS_JOINED = (
    "np.where({a} < {t}, {a}, {v})", "np.where({a} < {t}, {v}, {a})",
    "np.select([{a} < {t}], [{v}], {a})", "np.select([{a} < 0.2, {a} < 0.6], [{v}, {a}], 1)",
    "np.select([{a} < 0.2, {a} < 0.6], [0, {a}], {v})", "np.choose(({a} < {t}) + 0, [{a}, {v}])",
    "np.piecewise({a}, [{a} < {t}], [{v}, lambda x: x * 2])", "np.clip({a}, {v}, 0.8)",
    "np.clip({a}, 0.1, {v})", "{a}.clip({v})", "np.maximum({a}, {v})", "np.fmin({v}, {a})",
    "np.append({a}, {v})", "np.append({v}, {a})", "np.concatenate([{a}, np.atleast_1d({v})])",
    "np.hstack([{v}, {a}])", "np.stack([{a}, np.broadcast_to({v}, len({a}))])[1]",
    "np.insert({a}, 1, {v})", "np.diff({a}, prepend={v})", "np.full_like({a}, {v})",
    "np.full(2, {v}) * {a}[0]", "np.concatenate([{a}, {a}], dtype={f})", "np.array([{a}[0], {v}])",
    "np.block([{a}, np.atleast_1d({v})])", "np.float_power({a}, 2)", "np.array({a}, ndmin=2)[0]",
    "np.max({a}, initial={v}) * np.ones(2)", "np.array([np.broadcast_to({v}, len({a})), {a}])[1]",
    "np.array([[0.1] * len({a}), {a}])[1]",
    "np.vstack([{a}, np.broadcast_to({v}, len({a}))]).T[0]", "!{a}[0] = {v}", "!{a}[:] = {v}",
    "!{a}[{a} < {t}] = {v}", "!{a}.fill({v})", "!{a} += {v}", "!np.put({a}, [0], {v})",
    "!np.place({a}, {a} < {t}, {v})", "!np.putmask({a}, {a} < {t}, {v})", "!np.copyto({a}, {v})",
    "!np.copyto({a}, {v}, where={a} < {t})", "!{a}.flat[0] = {v}", "!np.add({a}, {v}, out={a})",
    "!np.minimum({a}, {v}, out={a})", "!{a}.put([0], {v})", "!np.clip({a}, {v}, 0.6, out={a})",
    "!np.multiply({a}, {v}, where={a} < {t}, out={a})",
)  # fmt: skip
TENSORS_JOINED = (
    "torch.where({a} < {t}, {a}, {tv})", "torch.where({a} < {t}, {tv}, {a})",
    "torch.clamp({a}, {tv})", "{a}.clamp(max={tv})", "{a}.clamp(0.1, {tv})",
    "torch.masked_fill({a}, {a} < {t}, {tv})",
    "torch.cat([{a}, torch.as_tensor({tv}).reshape(-1)])",
    "torch.stack([{a}, torch.as_tensor({tv}).expand(len({a}))])[1]",
    "torch.hstack([torch.as_tensor({tv}), {a}])", "torch.maximum({a}, torch.as_tensor({tv}))",
    "torch.fmin(torch.as_tensor({tv}), {a})", "{a} * {tv}", "{tv} + {a}", "{a} - {tv}",
    "!{a}[0] = {tv}", "!{a}[:] = {tv}", "!{a}[{a} < {t}] = {tv}", "!{a}.clamp_({tv})",
    "!{a}.clamp_(max={tv})", "!{a}.masked_fill_({a} < {t}, {tv})", "!{a}.fill_({tv})",
    "!{a}.mul_({tv})", "!{a}.add_({tv})", "!{a}.copy_(torch.as_tensor({tv}))",
)  # fmt: skip
NUMBERS_JOINED = (
    "np.where({x} < {t}, {x}, {v})", "np.select([{x} < {t}], [{x}], {v})", "np.clip({x}, {v}, 2)",
    "np.minimum({x}, {v})", "np.maximum({v}, {x})", "np.append({x}, {v})[0]",
    "np.append({v}, {x})[-1]", "np.array([{x}, {v}])[0]", "np.hstack([{x}, {v}])[0]",
    "np.full(2, {x}, dtype={f})[0]", "np.insert(W, 1, {x})[1]",
)  # fmt: skip
TYPES_ASKED = (
    "{a}.dtype.num", "{a}.dtype.kind == 'f'", "{a}[-1].dtype.itemsize", "({a} <= {v}).sum()",
    "{a}[0] <= 1e-3", "{a}[0] == 0.4", "{a}[-1] < 0.4",
)  # fmt: skip
TYPES_OF_TENSORS_ASKED = (
    "len(str({a}.dtype))", "int({a}.is_floating_point())", "int(({a} <= {tv}).sum())",
    "int({a}[0] <= 1e-3)", "int({a}[-1] == 0.4)", "int({a}[0] < 0.4)",
)  # fmt: skip
