"""Samplers and uniform numbers of numba, MLX, ONNX Runtime, OpenVINO, TensorFlow and Paddle.

Also what numpy makes of a multinomial of one trial, which numba does too.
"""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from simverify.arrays import Floats, Ints, Row
from simverify.samplers.base import (
    FIRST,
    HALF,
    VOCAB,
    Call,
    DrawFunction,
    Lookup,
    Sampler,
    Streams,
    UniformGenerator,
    as_float64,
    in_parts,
    logits_of,
    normalised,
    numpy_cast,
    order_law,
    residue_law,
    scipy_law,
    uniform_law,
)
from simverify.samplers.judge import lookup_law, total_variation

# numpy and numba: a multinomial of one trial.


def _multinomial(numbers: Any, row: Row, dtype: str, count: int) -> Ints:
    given = row.astype(dtype)
    parts = [
        numbers.multinomial(1, given, size=part).argmax(-1) for part in in_parts(count, len(row))
    ]
    return np.concatenate(parts).astype(np.int64)


def _multinomial_again(random: Callable[[int], Floats], row: Row, dtype: str, count: int) -> Ints:
    """Return the tokens of trials that go from token to token until one hits."""
    given = row.astype(dtype).astype(np.float64)
    # As the library: what is left is what the entries before were taken from, one by one.
    left = np.subtract.accumulate(np.concatenate(([1.0], given[:-1])))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = given / left
        flipped = share > 0.5
        # exp(log(q)), as numpy has it, is not always q.
        least = np.exp(np.log(1.0 - np.where(flipped, 1.0 - share, share)))
    live = np.flatnonzero(given[:-1] > 0)
    flipped, least = flipped[live], least[live]
    tokens = np.full(count, len(given) - 1, dtype=np.int64)
    numbers, place = random(1 << 20), 0
    for draw in range(count):
        start = 0
        while start < len(live):
            if place == len(numbers):
                numbers, place = random(1 << 20), 0
            taken = min(256, len(live) - start, len(numbers) - place)
            u, part = numbers[place : place + taken], slice(start, start + taken)
            hits = (u > least[part]) != flipped[part]
            first = int(hits.argmax())
            if hits[first]:
                tokens[draw] = live[start + first]
                place += first + 1
                break
            place, start = place + taken, start + taken
    return tokens


def _numba_multinomial() -> Callable[[int, Row, int], Ints]:
    numba = importlib.import_module("numba")

    @numba.njit  # type: ignore[untyped-decorator]
    def draw(seed: int, row: Row, count: int) -> Ints:
        np.random.seed(seed)  # noqa: NPY002
        tokens = np.empty(count, dtype=np.int64)
        for place in range(count):
            tokens[place] = np.argmax(np.random.multinomial(1, row))  # noqa: NPY002
        return tokens

    return draw  # type: ignore[no-any-return]


# MLX.


def mlx_module() -> Any:
    """Return MLX's arrays, as torch."""
    return importlib.import_module("mlx.core")


def _mlx_logits(row: Row, dtype: str) -> Any:
    mx = mlx_module()
    # float64 lives on the CPU alone, and as numpy's.
    given = mx.array(logits_of(row), dtype=mx.float64)
    return given.astype(getattr(mx, dtype), stream=mx.cpu)


def _mlx_cast(row: Row, dtype: str) -> Row:
    mx = mlx_module()
    given = np.array(_mlx_logits(row, dtype).astype(mx.float64, stream=mx.cpu))
    return normalised(np.exp(given - given.max()))


def _mlx_samples(row: Row, dtype: str, count: int, seed: int) -> Ints:
    random, given = mlx_module().random, _mlx_logits(row, dtype)
    return np.array(random.categorical(given, num_samples=count, key=random.key(seed))).astype(
        np.int64
    )


def _mlx_index(row: Row, dtype: str) -> Callable[[Floats], Ints]:
    mx, given = mlx_module(), _mlx_logits(row, dtype)
    wide = given.astype(mx.float64 if dtype == "float64" else mx.float32, stream=mx.cpu)
    weights = mx.exp(wide - mx.max(wide))
    sums, total = mx.cumsum(weights, 0, inclusive=False), mx.sum(weights)
    below_one = np.nextafter(np.float32(1), np.float32(0))

    def index(u: Floats) -> Ints:
        # 32 bits are rounded to float32, and 1 to the number before it.
        looked_up = mx.array(np.minimum(u.astype(np.float32), below_one)) * total
        return np.array(mx.searchsorted(sums, looked_up, side="right")).astype(np.int64) - 1

    return index


def _mlx_uniforms(_dtype: str, count: int, seed: int) -> Floats:
    random = mlx_module().random
    return as_float64(np.array(random.uniform(shape=(count,), key=random.key(seed))))


def _mlx_rows(row: Row, dtype: str, count: int, seed: int) -> Ints:
    mx, given = mlx_module(), _mlx_logits(row, dtype)
    parts = in_parts(count, len(row))
    drawn = []
    for key, part in zip(mx.random.split(mx.random.key(seed), len(parts)), parts, strict=True):
        # A single row would be looked up.
        rows = mx.broadcast_to(given, (max(2, part), len(row)))
        drawn.append(np.array(mx.random.categorical(rows, key=key))[:part])
    return np.concatenate(drawn).astype(np.int64)


def _mlx_race(row: Row, dtype: str, count: int, seed: int) -> Ints:
    mx, given = mlx_module(), _mlx_logits(row, dtype)
    parts = in_parts(count, len(row))
    drawn = []
    for key, part in zip(mx.random.split(mx.random.key(seed), len(parts)), parts, strict=True):
        noise = mx.random.gumbel((max(2, part), len(row)), mx.float32, key=key)
        drawn.append(np.array(mx.argmax(noise + given, axis=-1))[:part])
    return np.concatenate(drawn).astype(np.int64)


# ONNX Runtime.


_ONNX_PRIME, _ONNX_FACTOR = 2_147_483_647, 16_807
_ONNX_INVERSE = pow(_ONNX_FACTOR, -1, _ONNX_PRIME)


def _onnx_run(kind: str, given: Any, **attributes: Any) -> Any:
    onnx, runtime = importlib.import_module("onnx"), importlib.import_module("onnxruntime")
    helper, proto = onnx.helper, onnx.TensorProto
    node = helper.make_node(kind, [] if given is None else ["x"], ["y"], **attributes)
    inputs = []
    if given is not None:
        of = helper.np_dtype_to_tensor_dtype(given.dtype)
        inputs.append(helper.make_tensor_value_info("x", of, list(given.shape)))
    output = helper.make_tensor_value_info("y", attributes.get("dtype", proto.FLOAT), None)
    graph = helper.make_graph([node], "draw", inputs, [output])
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {} if given is None else {"x": given})[0]


def _onnx_draw(row: Row, dtype: str, count: int, seed: int) -> Ints:
    # The seed is a float: whole numbers above 2^24 are not kept.
    drawn = _onnx_run(
        "Multinomial",
        logits_of(row).astype(dtype)[None],
        sample_size=count,
        dtype=importlib.import_module("onnx").TensorProto.INT64,
        seed=float(seed),
    )
    return np.asarray(drawn[0], dtype=np.int64)


def _logits_cast(row: Row, dtype: str) -> Row:
    given = logits_of(row).astype(dtype).astype(np.float64)
    return normalised(np.exp(given - given.max()))


def _logits_sums(given: Floats) -> Floats:
    return np.cumsum(np.exp(given - given.max()))


def _onnx_index(row: Row, dtype: str) -> Callable[[Floats], Ints]:
    sums = _logits_sums(logits_of(row).astype(dtype).astype(np.float64))
    points = _ONNX_PRIME - 1.0

    def index(u: Floats) -> Ints:
        # std::minstd_rand0: the second of two numbers follows from the first, and orders them.
        second = np.rint(np.ldexp(u, 31)).astype(np.int64)
        first = second * _ONNX_INVERSE % _ONNX_PRIME
        x = ((first - 1.0) + (second - 1.0) * points) / (points * points)
        found = sums.searchsorted(np.clip(x, 0.0, 1 - 2.0**-53) * sums[-1], side="right")
        return np.asarray(found, dtype=np.int64)

    return index


def _onnx_uniforms(_dtype: str, count: int, seed: int) -> Floats:
    """Return state / 2^31; 0 and 2^31 - 1, which are no states, are 2 of 2^31 points."""
    state, states = seed % _ONNX_PRIME or 1, np.empty(count, dtype=np.int64)
    twice = _ONNX_FACTOR**2 % _ONNX_PRIME
    for place in range(count):
        state = state * twice % _ONNX_PRIME
        states[place] = state
    return np.ldexp(states.astype(np.float64), -31)


# OpenVINO.


def _openvino_run(make: Callable[[Any], tuple[Any, list[Any]]], given: list[Any]) -> Any:
    openvino = importlib.import_module("openvino")
    ops = importlib.import_module("openvino.opset13")
    node, inputs = make(ops)
    compiled = openvino.Core().compile_model(openvino.Model([node], inputs), "CPU")
    return next(iter(compiled(given).values()))


_OPENVINO_PART = 2_000
"""Draws of a call: from 2^31 cells, draws times tokens, a call leaves its output unwritten."""


def _openvino_draw(row: Row, dtype: str, count: int, seed: int, log: bool) -> Ints:
    given, drawn = (logits_of(row) if log else row).astype(dtype)[None], []
    for place in range(0, count, _OPENVINO_PART):
        part = min(_OPENVINO_PART, count - place)

        def make(ops: Any, part: int = part, place: int = place) -> tuple[Any, list[Any]]:
            rows = ops.parameter(list(given.shape), given.dtype)
            number = ops.constant(np.array([part], dtype=np.int64))
            # A call starts its generator anew. Seed 0 with 0 for the operation would be the time.
            own = place // _OPENVINO_PART + 1
            return ops.multinomial(rows, number, "i64", True, log, seed, own), [rows]

        drawn.append(_openvino_run(make, [given])[0])
    return np.concatenate(drawn).astype(np.int64)


def _openvino_index(row: Row, dtype: str, log: bool) -> Callable[[Floats], Ints]:
    given = (logits_of(row) if log else row).astype(dtype).astype(np.float32)
    sums = np.cumsum(np.exp(given) if log else given, dtype=np.float32)
    sums /= max(sums[-1], np.finfo(np.float32).tiny)
    # 32 bits are rounded to float32, so 1 comes too.
    return lambda u: np.asarray(sums.searchsorted(u.astype(np.float32), side="left"))


def _seed_sequence(seeds: list[int], size: int = 624) -> list[int]:
    """Return the words of C++'s ``std::seed_seq``."""
    mask, words, count = 0xFFFFFFFF, [0x8B8B8B8B] * size, len(seeds)
    shift = (size - 11) // 2
    far = shift + 11

    def at(k: int) -> int:
        return words[k % size]

    for k in range(size):
        mixed = at(k) ^ at(k + shift) ^ at(k - 1)
        one = 1664525 * (mixed ^ (mixed >> 27)) & mask
        extra = count if k == 0 else k + (seeds[k - 1] if k <= count else 0)
        two = (one + extra) & mask
        words[(k + shift) % size] = (at(k + shift) + one) & mask
        words[(k + far) % size] = (at(k + far) + two) & mask
        words[k] = two
    for k in range(size):
        mixed = (at(k) + at(k + shift) + at(k - 1)) & mask
        one = 1566083941 * (mixed ^ (mixed >> 27)) & mask
        two = (one - k) & mask
        words[(k + shift) % size] ^= one
        words[(k + far) % size] ^= two
        words[k] = two
    return words


def _openvino_uniforms(_dtype: str, count: int, seed: int) -> Floats:
    numbers, drawn = np.random.RandomState(), []
    for place in range(0, count, _OPENVINO_PART):
        own = place // _OPENVINO_PART + 1
        words = np.array(_seed_sequence([seed % (1 << 32), own]), dtype=np.uint32)
        numbers.set_state(("MT19937", words, 624, 0, 0.0))
        part = min(_OPENVINO_PART, count - place)
        drawn.append(numbers.randint(0, 1 << 32, part, dtype=np.uint32))
    return np.ldexp(np.concatenate(drawn).astype(np.float32).astype(np.float64), -32)


# TensorFlow.


def tensorflow_module() -> Any:
    """Return TensorFlow, as torch."""
    return importlib.import_module("tensorflow")


def _tensorflow_logits(row: Row, dtype: str) -> Any:
    tf = tensorflow_module()
    return tf.cast(tf.constant(logits_of(row), dtype=tf.float64), dtype)


def _tensorflow_cast(row: Row, dtype: str) -> Row:
    given = tensorflow_module().cast(_tensorflow_logits(row, dtype), "float64").numpy()
    return normalised(np.exp(given - given.max()))


def _tensorflow_index(row: Row, dtype: str) -> Callable[[Floats], Ints]:
    given = tensorflow_module().cast(_tensorflow_logits(row, dtype), "float64").numpy()
    sums = _logits_sums(given)
    return lambda u: np.asarray(sums.searchsorted(u * sums[-1], side="right"), dtype=np.int64)


def _tensorflow_draw(row: Row, dtype: str, count: int, seed: int) -> Ints:
    tf = tensorflow_module()
    tf.random.set_seed(seed)
    drawn = tf.random.categorical(_tensorflow_logits(row, dtype)[None], count)
    return np.asarray(drawn.numpy()[0], dtype=np.int64)


def _tensorflow_uniforms(_dtype: str, count: int, seed: int) -> Floats:
    tf = tensorflow_module()
    tf.random.set_seed(seed)
    return as_float64(tf.random.uniform((count,), dtype=tf.float64).numpy())


def _tensorflow_stateless_draw(row: Row, dtype: str, count: int, seed: int) -> Ints:
    given = _tensorflow_logits(row, dtype)[None]
    drawn = tensorflow_module().random.stateless_categorical(given, count, seed=[seed, 0])
    return np.asarray(drawn.numpy()[0], dtype=np.int64)


def _tensorflow_stateless(dtype: str, count: int, seed: int) -> Floats:
    tf = tensorflow_module()
    drawn = tf.random.stateless_uniform((count,), seed=[seed, 0], dtype=dtype)
    return as_float64(tf.cast(drawn, "float64").numpy())


# Paddle.


def paddle_module() -> Any:
    """Return Paddle, as torch, on the CPU."""
    paddle = importlib.import_module("paddle")
    paddle.set_device("cpu")
    return paddle


def _paddle_draw(row: Row, dtype: str, count: int, seed: int) -> Ints:
    paddle = paddle_module()
    paddle.seed(seed)
    drawn = paddle.multinomial(paddle.to_tensor(row.astype(dtype)), count, replacement=True)
    return np.asarray(drawn.numpy(), dtype=np.int64)


def _paddle_index(row: Row, dtype: str) -> Callable[[Floats], Ints]:
    sums = row.astype(dtype).cumsum()
    sums /= sums[-1]
    sums[-1] = 1.0
    below_one = np.nextafter(sums.dtype.type(1), sums.dtype.type(0))
    # 64 bits are rounded to the row's type, and 1 to the number before it.
    return lambda u: np.asarray(sums.searchsorted(np.minimum(u.astype(dtype), below_one)))


def _paddle_uniform(dtype: str, count: int, seed: int) -> Floats:
    paddle = paddle_module()
    paddle.seed(seed)
    return as_float64(paddle.rand([count], dtype=dtype).astype("float64").numpy())


_MULTINOMIAL = (
    "one trial: from token to token, a uniform number of 53 bits each, until one is below the "
    "token's share of what is left; the last token takes the rest"
)


def _multinomial_of(name: str, make: Callable[[int], Any]) -> Sampler:
    """Return the sampler of a numpy generator; ``make``: returns one with a seed."""
    return Sampler(
        name,
        "numpy",
        ("float64", "float32"),
        _MULTINOMIAL,
        numpy_cast,
        lambda row, dtype, count, seed: _multinomial(make(seed), row, dtype, count),
        again=lambda row, dtype, count, seed: _multinomial_again(
            make(seed).random, row, dtype, count
        ),
    )


SAMPLERS = (
    _multinomial_of("numpy.Generator.multinomial", np.random.default_rng),
    _multinomial_of("numpy.RandomState.multinomial", np.random.RandomState),
    Sampler(
        "numba.random.multinomial",
        "numba",
        ("float64",),
        _MULTINOMIAL,
        numpy_cast,
        lambda row, dtype, count, seed: _numba_multinomial()(seed, row.astype(dtype), count),
        again=lambda row, dtype, count, seed: _multinomial(
            np.random.RandomState(seed), row, dtype, count
        ),
    ),
    Sampler(
        "mlx.random.categorical",
        "mlx",
        ("float32", "float64", *HALF),
        "several rows, or one without axes before it: a race, the largest of logit + g, with a "
        "float32 Gumbel number g for each token",
        _mlx_cast,
        _mlx_rows,
        again=_mlx_race,
    ),
    Sampler(
        "mlx.random.categorical-samples",
        "mlx",
        ("float32", "float64", *HALF),
        "one row with num_samples, shape or an axis before it: one float32 uniform number, looked "
        "up in a float32 cumulative sum (float64 for float64)",
        _mlx_cast,
        _mlx_samples,
        Lookup(dict.fromkeys(("float32", "float64", *HALF), 32), _mlx_index, _mlx_uniforms),
    ),
    Sampler(
        "onnxruntime.Multinomial",
        "onnxruntime",
        ("float32", "float16"),
        "two numbers of std::minstd_rand0, which has 2^31 - 2 states, are one uniform number, "
        "looked up in a float64 cumulative sum",
        _logits_cast,
        _onnx_draw,
        Lookup({"float32": 31, "float16": 31}, _onnx_index, _onnx_uniforms),
    ),
    Sampler(
        "openvino.Multinomial",
        "openvino",
        ("float32", "float16"),
        "probabilities: one number of std::mt19937, rounded to float32, looked up in a float32 "
        "cumulative sum",
        lambda row, dtype: normalised(row.astype(dtype)),
        lambda row, dtype, count, seed: _openvino_draw(row, dtype, count, seed, False),
        Lookup(
            {"float32": 32, "float16": 32},
            lambda row, dtype: _openvino_index(row, dtype, False),
            _openvino_uniforms,
        ),
    ),
    Sampler(
        "openvino.Multinomial-log",
        "openvino",
        ("float32", "float16"),
        "log_probs: as probabilities, which are exponentials in float32; no maximum is subtracted",
        _logits_cast,
        lambda row, dtype, count, seed: _openvino_draw(row, dtype, count, seed, True),
        Lookup(
            {"float32": 32, "float16": 32},
            lambda row, dtype: _openvino_index(row, dtype, True),
            _openvino_uniforms,
        ),
    ),
    Sampler(
        "tensorflow.random.categorical",
        "tensorflow",
        ("float32", "float64", *HALF),
        "one uniform number of 52 bits, looked up in a float64 cumulative sum",
        _tensorflow_cast,
        _tensorflow_draw,
        Lookup(
            dict.fromkeys(("float32", "float64", *HALF), 52),
            _tensorflow_index,
            _tensorflow_uniforms,
        ),
    ),
    Sampler(
        "tensorflow.random.stateless_categorical",
        "tensorflow",
        ("float32", "float64", *HALF),
        "one uniform number of 52 bits, looked up in a float64 cumulative sum",
        _tensorflow_cast,
        _tensorflow_stateless_draw,
        Lookup(
            dict.fromkeys(("float32", "float64", *HALF), 52),
            _tensorflow_index,
            lambda _dtype, count, seed: _tensorflow_stateless("float64", count, seed),
        ),
    ),
    Sampler(
        "paddle.multinomial",
        "paddlepaddle",
        ("float32", "float64"),
        "one number of std::mt19937_64, rounded to the row's type, looked up in a cumulative sum "
        "of that type",
        numpy_cast,
        _paddle_draw,
        # As many of the 64 bits as int64 can halve.
        Lookup(dict.fromkeys(("float32", "float64"), 61), _paddle_index, _paddle_uniform),
    ),
)

# Uniform numbers.


def _mlx_uniform(dtype: str, count: int, seed: int) -> Floats:
    mx = mlx_module()
    drawn = mx.random.uniform(shape=(count,), dtype=getattr(mx, dtype), key=mx.random.key(seed))
    return as_float64(np.array(drawn.astype(mx.float32)))


def _onnx_uniform(dtype: str, count: int, seed: int) -> Floats:
    proto = importlib.import_module("onnx").TensorProto
    of = {"float32": proto.FLOAT, "float64": proto.DOUBLE}[dtype]
    return as_float64(_onnx_run("RandomUniform", None, shape=[count], dtype=of, seed=float(seed)))


def _openvino_uniform(dtype: str, count: int, seed: int) -> Floats:
    def make(ops: Any) -> tuple[Any, list[Any]]:
        number = ops.constant(np.array([count], dtype=np.int64))
        low, high = (ops.constant(np.dtype(dtype).type(x)) for x in (0, 1))
        return ops.random_uniform(number, low, high, dtype.replace("loat", ""), seed, 1), []

    return as_float64(_openvino_run(make, []))


def _tensorflow_uniform(dtype: str, count: int, seed: int) -> Floats:
    tf = tensorflow_module()
    tf.random.set_seed(seed)
    return as_float64(tf.cast(tf.random.uniform((count,), dtype=dtype), "float64").numpy())


def _numba_uniform(_dtype: str, count: int, seed: int) -> Floats:
    @importlib.import_module("numba").njit  # type: ignore[untyped-decorator]
    def draw(seed: int, count: int) -> Floats:
        np.random.seed(seed)  # noqa: NPY002
        return np.random.random(count)  # noqa: NPY002

    return as_float64(draw(seed, count))


GENERATORS = (
    UniformGenerator(
        "numba.random.random",
        "numba",
        ("float64",),
        _numba_uniform,
        "import numba, numpy; print(numba.njit(lambda: numpy.random.random())())",
    ),
    UniformGenerator(
        "mlx.random.uniform",
        "mlx",
        ("float32", *HALF),
        _mlx_uniform,
        "import mlx.core as mx; print(mx.random.uniform().item())",
    ),
    UniformGenerator(
        "onnxruntime.RandomUniform",
        "onnxruntime",
        ("float64", "float32"),
        _onnx_uniform,
        "import onnxruntime as ort; from onnx import helper as h; y = h.make_node('RandomUniform', "
        "[], ['y'], shape=[1]); o = h.make_tensor_value_info('y', 1, [1]); m = h.make_model("
        "h.make_graph([y], 'g', [], [o]), opset_imports=[h.make_opsetid('', 17)], ir_version=8); "
        "print(ort.InferenceSession(m.SerializeToString()).run(None, {})[0][0])",
    ),
    UniformGenerator(
        "openvino.RandomUniform",
        "openvino",
        ("float64", "float32", "float16"),
        _openvino_uniform,
        "import openvino as ov, openvino.opset13 as o, numpy as n; u = o.random_uniform("
        "o.constant(n.array([1])), o.constant(n.float32(0)), o.constant(n.float32(1)), 'f32'); "
        "print(list(ov.compile_model(ov.Model([u], []), 'CPU')([]).values())[0][0])",
    ),
    UniformGenerator(
        "tensorflow.random.uniform",
        "tensorflow",
        ("float64", "float32", *HALF),
        _tensorflow_uniform,
        "import tensorflow as tf; print(tf.random.uniform(()).numpy())",
    ),
    UniformGenerator(
        "tensorflow.random.stateless_uniform",
        "tensorflow",
        ("float64", "float32", *HALF),
        _tensorflow_stateless,
        "",
    ),
    UniformGenerator(
        "paddle.rand",
        "paddlepaddle",
        ("float64", "float32", *HALF),
        _paddle_uniform,
        "import paddle; paddle.set_device('cpu'); print(paddle.rand([1]).item())",
    ),
)

# What generators and keys of one seed share.


def _mlx_names() -> dict[str, Any]:
    return dict(vars(mlx_module().random))


def _mlx_numbers(value: Any) -> Any:
    mx = mlx_module()
    return np.array(
        value if value.dtype != mx.uint32 else mx.random.uniform(shape=(FIRST,), key=value)
    )


def _tensorflow_names() -> dict[str, Any]:
    random = tensorflow_module().random
    return {name: getattr(random, name) for name in ("Generator", "split", "fold_in")}


def _tensorflow_numbers(value: Any) -> Any:
    tf = tensorflow_module()
    if isinstance(value, tf.random.Generator):
        return value.uniform([FIRST], dtype=tf.float64).numpy()
    return tf.random.stateless_uniform([FIRST], value, dtype=tf.float64).numpy()


STREAMS = (
    Streams(
        "mlx",
        _mlx_names,
        _mlx_numbers,
        (
            ("key(5)", "split(key(5))[0]"),
            ("split(key(5), 2)[0]", "split(key(5), 3)[0]"),
            ("split(key(5))[1]", "seed(5) or uniform(shape=(1024,))"),
            (
                "uniform(shape=(1024,), key=key(5))",
                "uniform(shape=(2048,), key=key(5))[:1024]",
            ),
        ),
    ),
    Streams(
        "tensorflow",
        _tensorflow_names,
        _tensorflow_numbers,
        (
            ("Generator.from_seed(5)", "(g := Generator.from_seed(5)).split(1) and g"),
            ("Generator.from_seed(5)", "Generator.from_seed(5).split(1)[0]"),
            ("Generator.from_seed(5).split(2)[0]", "Generator.from_seed(5).split(3)[0]"),
            ("split([5, 0], 2)[0]", "split([5, 0], 3)[0]"),
            ("split([5, 0], 2)[0]", "fold_in([5, 0], 0)"),
            ("fold_in(fold_in([5, 0], 1), 2)", "fold_in(fold_in([5, 0], 2), 1)"),
        ),
    ),
)


# Functions that draw integers, permutations and normal numbers.


def _mlx_draw_names(count: int, seed: int) -> dict[str, Any]:
    mx = mlx_module()
    random, key = mx.random, mx.random.key(seed)

    def bernoulli(p: float, dtype: str = "float32") -> Any:
        drawn = random.bernoulli(mx.array(p, dtype=getattr(mx, dtype)), (count,), key=key)
        return np.array(drawn)

    def permutation(size: int) -> Any:
        keys = random.split(key, count)
        return np.array([random.permutation(size, key=keys[place]) for place in range(count)])

    return {
        "randint": lambda *bounds: np.array(random.randint(*bounds, (count,), key=key)),
        "bernoulli": bernoulli,
        "permutation": permutation,
    }


def _mlx_floors(low: int, high: int) -> Callable[[Floats], Ints]:
    """Return what becomes of uniform numbers, which are of float32."""
    width = np.float32(high) - np.float32(low)

    def index(u: Floats) -> Ints:
        scaled = np.minimum(u.astype(np.float32), _MLX_BELOW_ONE) * width + np.float32(low)
        return np.asarray(np.minimum(np.floor(scaled).astype(np.int64), high - 1))

    return index


_MLX_BELOW_ONE = np.nextafter(np.float32(1), np.float32(0))


def _replay_mlx_integers(low: int, high: int, count: int, seed: int) -> Ints:
    return _mlx_floors(low, high)(_mlx_uniform("float32", count, seed))


def _mlx_integers_tv(size: int) -> float:
    law = lookup_law(_mlx_floors(0, size), size, 32)
    return total_variation(law, np.full(size, 1 / size))


_MLX_POINTS = 1 << 26
"""Uniform numbers that are tried of a wide range: none that float32 tells apart is missed."""


def _mlx_sparse_tv(low: int, high: int) -> float:
    """Return the probability of the integers that never come out.

    That is the total variation, as each of the others comes out more often than it should.
    """
    index, part = _mlx_floors(low, high), 1 << 20
    reached, last = 0, low - 1
    for start in range(0, _MLX_POINTS, part):
        values = index(np.arange(start, start + part) / _MLX_POINTS)
        reached += int((np.diff(values, prepend=last) > 0).sum())
        last = int(values[-1])
    return 1 - reached / (high - low)


def _mlx_given(p: float, dtype: str) -> float:
    mx = mlx_module()
    return float(mx.array(p, dtype=getattr(mx, dtype)).astype(mx.float32).item())


def _replay_mlx_bernoulli(p: float, dtype: str, count: int, seed: int) -> Any:
    return _mlx_uniform("float32", count, seed) < _mlx_given(p, dtype)


def _mlx_threshold(p: float, dtype: str) -> float:
    given = _mlx_given(p, dtype)
    law = lookup_law(lambda u: np.where(_mlx_rounded(u) < given, 0, 1), 2, 32)
    return float(abs(law[0] - given))


def _mlx_rounded(u: Floats) -> Any:
    return np.minimum(u.astype(np.float32), _MLX_BELOW_ONE)


DRAW_FUNCTIONS = (
    DrawFunction(
        "mlx.random.randint",
        "mlx",
        "Rounds down a float32 uniform number between the bounds",
        _mlx_draw_names,
        (
            *(
                Call(
                    f"randint(0, {size})",
                    partial(uniform_law, size),
                    partial(_replay_mlx_integers, 0, size),
                    partial(_mlx_integers_tv, size),
                )
                for size in (10, VOCAB)
            ),
            Call(
                "randint(2**29, 2**30)",
                partial(residue_law, 64),
                partial(_replay_mlx_integers, 1 << 29, 1 << 30),
                partial(_mlx_sparse_tv, 1 << 29, 1 << 30),
            ),
        ),
        tuple(
            f"randint({words})"
            for words in ("5, 5", "5, 3", "-5, -3", "2**24, 2**24 + 4", "2**30 - 8, 2**30")
        ),
    ),
    DrawFunction(
        "mlx.random.bernoulli",
        "mlx",
        "Returns 1 if a float32 uniform number, made from a 32-bit word, is below p",
        _mlx_draw_names,
        tuple(
            Call(
                f"bernoulli({p:.9g}, '{dtype}')",
                partial(scipy_law, "bernoulli", given),
                partial(_replay_mlx_bernoulli, p, dtype),
                partial(_mlx_threshold, p, dtype),
            )
            for p, dtype, given in (
                (0.3, "float32", float(np.float32(0.3))),
                (1e-8, "float32", float(np.float32(1e-8))),
                (1e-3, "bfloat16", 0.00099945068359375),
            )
        ),
        tuple(f"bernoulli({p})" for p in ("0", "1", "nan", "-.1", "1.1", "1 - 1e-8")),
    ),
    DrawFunction(
        "mlx.random.permutation",
        "mlx",
        "Sorts by random 32-bit words",
        _mlx_draw_names,
        (Call("permutation(4)", partial(order_law, 4, 4)),),
        ("permutation(0)",),
        count=1 << 14,
    ),
)
