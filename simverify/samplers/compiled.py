"""Samplers and uniform numbers of C++, Rust, llama.cpp, cuRAND, Triton and tinygrad.

C++ and Rust are a small program each, which is compiled once into the cache folder. Nothing here
needs a GPU: cuRAND's generators are those of its host API, and Triton runs in its interpreter.
"""

import ctypes
import importlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from simverify.arrays import Floats, Ints, Row
from simverify.errors import UsageError
from simverify.folders import cache_folder
from simverify.samplers.base import (
    HALF,
    Call,
    DrawFunction,
    Lookup,
    Sampler,
    SeedRefused,
    StatedLaw,
    UniformGenerator,
    as_float64,
    grouped_law,
    logits_of,
    no_bias,
    normalised,
    numpy_cast,
    uniform_law,
)

_WORD = 1 << 32
_BELOW_ONE = {"float64": np.nextafter(1.0, 0.0), "float32": float(np.nextafter(np.float32(1), 0))}

# C++.

_CPP = r"""
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

template <class T> std::vector<T> given() {
    std::vector<T> values;
    for (T value; fread(&value, sizeof value, 1, stdin) == 1;) values.push_back(value);
    return values;
}

// Not a generator: the words that it is given.
struct Words {
    typedef uint32_t result_type;
    static constexpr uint32_t min() { return 0; }
    static constexpr uint32_t max() { return 0xffffffffu; }
    std::vector<uint32_t> words;
    size_t next = 0;
    uint32_t operator()() { return words.at(next++); }
};

template <class F, class G> void uniforms(const std::string& function, size_t count, G& engine) {
    std::uniform_real_distribution<F> distribution;
    for (; count; count--) {
        F x = function == "generate_canonical"
            ? std::generate_canonical<F, std::numeric_limits<F>::digits>(engine)
            : distribution(engine);
        fwrite(&x, sizeof x, 1, stdout);
    }
}

// FUNCTION, TYPE, COUNT, SEED or "words" or "none".
int main(int, char** argument) {
    std::string function = argument[1], type = argument[2], seed = argument[4];
    size_t count = std::stoul(argument[3]);
    if (seed == "words") {
        Words words{given<uint32_t>()};
        if (type == "float32") uniforms<float>(function, count, words);
        else uniforms<double>(function, count, words);
        return 0;
    }
    std::mt19937 engine;
    if (seed != "none") engine.seed(std::strtoul(seed.c_str(), nullptr, 10));
    if (function == "discrete_distribution") {
        std::vector<double> row = given<double>();
        std::discrete_distribution<int> distribution(row.begin(), row.end());
        for (; count; count--) {
            int64_t token = distribution(engine);
            fwrite(&token, sizeof token, 1, stdout);
        }
    }
    else if (type == "float32") uniforms<float>(function, count, engine);
    else uniforms<double>(function, count, engine);
}
"""

_COMPILERS = {
    "libstdc++": ("g++", "-std=c++17"),
    "libc++": ("clang++", "-std=c++17", "-stdlib=libc++"),
}
_NEEDED = {
    "libstdc++": "needs libstdc++: install g++",
    "libc++": "needs libc++: install clang and libc++-dev",
    "rust-rand": "needs Rust's crate rand 0.8: install cargo and Debian 12's librust-rand-dev "
    "(simverify downloads no crates)",
    "rust-rand-0.10": "needs Rust's crate rand 0.10: install cargo and Debian sid's "
    "librust-rand-dev (simverify downloads no crates)",
}
"""What to install where pip does not."""


def _said(command: list[str], given: str = "", folder: Path | None = None) -> str | None:
    """Return what a command prints; None where it is not there, or fails."""
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=120, cwd=folder
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


@cache
def compiled_version(package: str) -> str | None:
    """Return the version of a library that a compiler brings; None where it cannot compile."""
    if package in _RUST_SERIES:
        return _rust_version(package)
    said = _said([*_COMPILERS[package], "-x", "c++", "-E", "-dM", "-"], "#include <random>\n")
    macros = dict(re.findall(r"#define (\w+) (\d+)$", said or "", re.MULTILINE))
    if package == "libc++":
        found = macros.get("_LIBCPP_VERSION")
        return f"{found[:2]}.{int(found[2:4])}" if found else None
    if "_GLIBCXX_RELEASE" not in macros or "__clang__" in macros:
        return None
    return ".".join(macros[f"__GNUC{part}__"] for part in ("", "_MINOR", "_PATCHLEVEL"))


def needed_words(package: str) -> str | None:
    """Return what a library needs that pip does not install; None for the others."""
    return _NEEDED.get(package)


def _built(package: str, source: str, build: Callable[[Path], Path]) -> Path:
    """Return a program; ``build`` makes it in a folder, and returns where it is."""
    name = sha256(f"{package} {compiled_version(package)} {source}".encode()).hexdigest()[:16]
    kept = cache_folder("programs") or Path(tempfile.mkdtemp())
    program = kept / f"draws-{name}"
    if not program.exists():
        with tempfile.TemporaryDirectory() as folder:
            part = program.with_suffix(f".{os.getpid()}")
            shutil.copy(build(Path(folder)), part)
            part.replace(program)
    return program


@cache
def _cpp_program(library: str) -> Path:
    def build(folder: Path) -> Path:
        (folder / "draws.cpp").write_text(_CPP)
        command = [*_COMPILERS[library], "-O2", "-o", "draws", "draws.cpp"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return folder / "draws"

    return _built(library, _CPP, build)


def _run(program: Path, arguments: list[object], given: bytes = b"") -> bytes:
    return subprocess.run(
        [program, *map(str, arguments)], input=given, check=True, stdout=subprocess.PIPE
    ).stdout


def _check_seed(seed: int, least: int) -> None:
    if not least <= seed < 1 << 64:
        raise SeedRefused("does not compile")


def _cpp_uniform(library: str, function: str, dtype: str, count: int, seed: int) -> Floats:
    _check_seed(seed, -(1 << 63))
    arguments: list[object] = [function, dtype, count, seed % (1 << 64)]
    return as_float64(np.frombuffer(_run(_cpp_program(library), arguments), dtype))


_TRIED = 4_096
"""Words at either end that are converted; far fewer become 0 and 1."""


def _cpp_ends(library: str, function: str, dtype: str) -> tuple[float, float]:
    bits = 32 if dtype == "float32" else 64
    shares = []
    for value, start in ((0, 0), (1, (1 << bits) - _TRIED)):
        words = np.arange(start, start + _TRIED, dtype=np.uint64).astype(f"<u{bits // 8}")
        arguments: list[object] = [function, dtype, _TRIED, "words"]
        numbers = np.frombuffer(_run(_cpp_program(library), arguments, words.tobytes()), dtype)
        shares.append(float((numbers == value).sum()) / (1 << bits))
    return shares[0], shares[1]


def first_unseeded(package: str) -> float:
    """Return the first number of a generator of C++, Rust or cuRAND that was given no seed."""
    if package == "nvidia-curand-cu12":
        return float(_curand_uniform("float64", 1, None)[0])
    if package in _RUST_SERIES:
        given = _run(_rust_program(package), ["gen", "float64", 1, "none"])
    else:
        given = _run(_cpp_program(package), ["generate_canonical", "float64", 1, "none"])
    return float(np.frombuffer(given)[0])


def _unseeded(package: str) -> str:
    """Return Python that prints that number."""
    return f"from simverify.samplers import compiled; print(compiled.first_unseeded({package!r}))"


def _cpp_draw(library: str, row: Row, dtype: str, count: int, seed: int) -> Ints:
    arguments: list[object] = ["discrete_distribution", dtype, count, seed]
    given = row.astype(dtype).astype(np.float64).tobytes()
    return np.frombuffer(_run(_cpp_program(library), arguments, given), np.int64)


def _mersenne_uniforms(_dtype: str, count: int, seed: int) -> Floats:
    """Return what two words of ``std::mt19937`` make, the first the lower; 1 is still 1."""
    words = np.random.RandomState(seed).randint(0, _WORD, 2 * count, dtype=np.uint32)
    low, high = words.astype(np.float64).reshape(-1, 2).T
    both: Floats = np.ldexp(low + high * _WORD, -64)
    return both


def _cpp_index(library: str, row: Row, dtype: str) -> Callable[[Floats], Ints]:
    given = row.astype(dtype).astype(np.float64)
    sums = np.cumsum(given / given.cumsum()[-1])
    if library == "libc++":
        return lambda u: np.asarray(sums[:-1].searchsorted(u, side="right"))
    sums[-1] = 1.0
    return lambda u: np.asarray(sums.searchsorted(np.minimum(u, _BELOW_ONE["float64"])))


_PAIR_BITS = 61
"""Two words have 64 bits, which are rounded to 53: these are as many as int64 can halve."""


def _cpp_sampler(library: str) -> Sampler:
    return Sampler(
        f"{library}.discrete_distribution",
        library,
        ("float64", "float32"),
        "two numbers of std::mt19937 are one uniform number of 64 bits, rounded to float64 and "
        "looked up in a float64 cumulative sum",
        numpy_cast,
        partial(_cpp_draw, library),
        Lookup(
            dict.fromkeys(("float64", "float32"), _PAIR_BITS),
            partial(_cpp_index, library),
            _mersenne_uniforms,
        ),
    )


def _cpp_generators(library: str) -> tuple[UniformGenerator, ...]:
    return tuple(
        UniformGenerator(
            f"{library}.{function}",
            library,
            ("float64", "float32"),
            partial(_cpp_uniform, library, function),
            _unseeded(library),
            ends=partial(_cpp_ends, library, function),
        )
        for function in ("generate_canonical", "uniform_real_distribution")
    )


# Rust.

_RUST_SERIES = {"rust-rand": "0.8", "rust-rand-0.10": "0.10"}
_CARGO = """[package]
name = "draws"
version = "0.0.0"
edition = "2021"

[dependencies]
rand = "SERIES"
"""

_RUST = r"""
use rand::distributions::{Distribution, WeightedIndex};
use rand::{rngs::StdRng, Rng, SeedableRng};
use std::io::{stdin, stdout, BufWriter, Read, Write};

// FUNCTION, TYPE, COUNT, SEED or "none"
fn main() {
    let given: Vec<String> = std::env::args().collect();
    let count: usize = given[3].parse().unwrap();
    let mut rng = match given[4].parse() {
        Ok(seed) => StdRng::seed_from_u64(seed),
        Err(_) => StdRng::from_entropy(),
    };
    let mut out = BufWriter::new(stdout());
    let mut bytes = Vec::new();
    if given[1] == "WeightedIndex" {
        stdin().read_to_end(&mut bytes).unwrap();
    }
    let row: Vec<f64> = bytes
        .chunks(8)
        .map(|x| f64::from_le_bytes(x.try_into().unwrap()))
        .collect();
    macro_rules! draw {
        ($float:ty) => {
            match given[1].as_str() {
                "gen" => for _ in 0..count {
                    out.write_all(&rng.gen::<$float>().to_le_bytes()).unwrap();
                },
                "gen_range" => for _ in 0..count {
                    out.write_all(&rng.gen_range::<$float, _>(0.0..1.0).to_le_bytes()).unwrap();
                },
                _ => match WeightedIndex::new(row.iter().map(|&x| x as $float)) {
                    Ok(index) => for _ in 0..count {
                        out.write_all(&(index.sample(&mut rng) as i64).to_le_bytes()).unwrap();
                    },
                    Err(error) => {
                        eprint!("{error:?}");
                        std::process::exit(3);
                    }
                },
            }
        };
    }
    if given[2] == "float32" { draw!(f32) } else { draw!(f64) }
}
"""

_RUST_0_10 = (
    (
        "use rand::distributions::{Distribution, WeightedIndex}",
        "use rand::distr::{Distribution, weighted::WeightedIndex}",
    ),
    ("use rand::{rngs::StdRng, Rng, SeedableRng}", "use rand::{rngs::StdRng, RngExt, SeedableRng}"),
    ("StdRng::from_entropy()", "rand::make_rng()"),
    ("rng.gen::", "rng.random::"),
    ("rng.gen_range::", "rng.random_range::"),
)
"""What was renamed since 0.8."""

_DEBIAN = Path("/usr/share/cargo/registry")


def _cargo(*words: str) -> list[str]:
    """Return a command of cargo, which takes crates from this machine alone."""
    replaced = 'source.crates-io.replace-with="debian"'
    folder = f'source.debian.directory="{_DEBIAN}"'
    source = ("--config", replaced, "--config", folder) if any(_DEBIAN.glob("rand-0*")) else ()
    return ["cargo", *words, "--offline", *source]


def _rust_source(package: str) -> str:
    source = _RUST
    for before, now in _RUST_0_10 if _RUST_SERIES[package] == "0.10" else ():
        source = source.replace(before, now)
    return source


def _rust_project(package: str, folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "Cargo.toml").write_text(_CARGO.replace("SERIES", _RUST_SERIES[package]))
    (folder / "src" / "main.rs").write_text(_rust_source(package))


def _rust_version(package: str) -> str | None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _rust_project(package, folder)
        if _said(_cargo("generate-lockfile"), folder=folder) is None:
            return None
        locked = (folder / "Cargo.lock").read_text()
    found = re.search(r'name = "rand"\nversion = "([^"]+)"', locked)
    return found[1] if found else None


@cache
def _rust_program(package: str) -> Path:
    def build(folder: Path) -> Path:
        _rust_project(package, folder)
        command = _cargo("build", "--release", "--quiet")
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return folder / "target" / "release" / "draws"

    return _built(package, _rust_source(package), build)


class WeightedError(ValueError):
    """Rust's rand refuses the weights."""


def _rust_uniform(package: str, function: str, dtype: str, count: int, seed: int) -> Floats:
    _check_seed(seed, 0)
    drawn = _run(_rust_program(package), [function, dtype, count, seed])
    return as_float64(np.frombuffer(drawn, dtype))


def _rust_draw(package: str, row: Row, dtype: str, count: int, seed: int) -> Ints:
    given = row.astype(dtype).astype(np.float64).tobytes()
    try:
        drawn = _run(_rust_program(package), ["WeightedIndex", dtype, count, seed], given)
    except subprocess.CalledProcessError as error:
        raise WeightedError from error
    return np.frombuffer(drawn, np.int64)


def _rust_index(row: Row, dtype: str) -> Callable[[Floats], Ints]:
    sums = row.astype(dtype).cumsum()
    scale, bits = sums[-1], _RUST_BITS[dtype]
    # The scale is made smaller until its largest product is below the sum.
    while scale * sums.dtype.type(1 - 2.0**-bits) >= sums[-1]:
        scale = np.nextafter(scale, sums.dtype.type(0))
    return lambda u: np.asarray(
        sums[:-1].searchsorted(u.astype(dtype) * scale, side="right"), dtype=np.int64
    )


_RUST_BITS = {"float64": 52, "float32": 23}

# llama.cpp.


class _Candidates:
    """A row as llama.cpp takes it: of float32 logits, in C's memory."""

    def __init__(self, library: Any, logits: Floats) -> None:
        fields = [("id", np.int32), ("logit", np.float32), ("p", np.float32)]
        self._data = np.zeros(len(logits), dtype=fields)
        self._data["id"], self._data["logit"] = np.arange(len(logits)), logits
        self.given = library.llama_token_data_array(
            data=self._data.ctypes.data_as(ctypes.POINTER(library.llama_token_data)),
            size=len(logits),
            selected=-1,
            sorted=False,
        )


def _llama_draw(row: Row, _dtype: str, count: int, seed: int) -> Ints:
    library = importlib.import_module("llama_cpp.llama_cpp")
    candidates = _Candidates(library, logits_of(row))
    tokens = np.empty(count, dtype=np.int64)
    sampler = library.llama_sampler_init_dist(seed)
    for place in range(count):
        library.llama_sampler_apply(sampler, ctypes.byref(candidates.given))
        tokens[place] = candidates.given.selected
    library.llama_sampler_free(sampler)
    return tokens


def _llama_weights(row: Row) -> Floats:
    logits = logits_of(row).astype(np.float32)
    exponential = ctypes.CDLL(None).expf
    exponential.restype, exponential.argtypes = ctypes.c_float, [ctypes.c_float]
    return np.array([exponential(x) for x in (logits - logits.max()).tolist()])


def _llama_index(row: Row, _dtype: str) -> Callable[[Floats], Ints]:
    sums = _llama_weights(row).cumsum()

    def index(u: Floats) -> Ints:
        below = np.minimum(u, _BELOW_ONE["float64"])
        return np.asarray(sums.searchsorted(below * sums[-1]), dtype=np.int64)

    return index


def _float32_logits(row: Row, _dtype: str) -> Row:
    given = logits_of(row).astype(np.float32).astype(np.float64)
    return normalised(np.exp(given - given.max()))


# cuRAND.


def _curand_uniform(dtype: str, count: int, seed: int | None) -> Floats:
    if seed is not None:
        _check_seed(seed, -(1 << 63))
    files = metadata.files("nvidia-curand-cu12") or ()
    library = ctypes.CDLL(str(next(x for x in files if "libcurand.so" in x.name).locate()))
    draw = library[f"curandGenerateUniform{'Double' if dtype == 'float64' else ''}"]
    numbers, generator = np.empty(count, dtype), ctypes.c_void_p()
    for status in (
        library.curandCreateGeneratorHost(ctypes.byref(generator), _CURAND_DEFAULT),
        0
        if seed is None
        else library.curandSetPseudoRandomGeneratorSeed(generator, ctypes.c_ulonglong(seed)),
        draw(generator, ctypes.c_void_p(numbers.ctypes.data), ctypes.c_size_t(count)),
        library.curandDestroyGenerator(generator),
    ):
        if status:
            raise RuntimeError(f"cuRAND returns status {status}")
    return as_float64(numbers)


_CURAND_DEFAULT = 100
"""CURAND_RNG_PSEUDO_DEFAULT, which is XORWOW; CuPy's default too."""

# Triton.


def _batch() -> Any:
    """Return what chooses Triton's interpreter; it needs torch, which is imported here alone."""
    return importlib.import_module("simverify.backends.batch")


@cache
def _triton_kernels() -> tuple[Any, Any, Any]:
    """Return Triton's kernels: of numbers by seed, of numbers by word, and of all other draws."""

    def load() -> tuple[Any, Any, Any]:
        triton, tl = map(importlib.import_module, ("triton", "triton.language"))

        def by_seed(numbers: Any, seed: Any, BLOCK: tl.constexpr) -> None:  # type: ignore[name-defined] # noqa: N803
            place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(numbers + place, tl.rand(seed, place))

        def by_word(numbers: Any, words: Any, BLOCK: tl.constexpr) -> None:  # type: ignore[name-defined] # noqa: N803
            place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(numbers + place, tl.uint_to_uniform_float(tl.load(words + place)))

        def draw_kernel(numbers: Any, seed: Any, KIND: tl.constexpr, BLOCK: tl.constexpr) -> None:  # type: ignore[name-defined] # noqa: N803
            place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            if KIND == 0:
                a = tl.randint(seed, place)
                b, c, d = a, a, a
            elif KIND == 1:
                a, b, c, d = tl.randint4x(seed, place)
            elif KIND == 2:
                a, b, c, d = tl.rand4x(seed, place)
            elif KIND == 3:
                a = tl.randn(seed, place)
                b, c, d = a, a, a
            else:
                a, b, c, d = tl.randn4x(seed, place)
            tl.store(numbers + 4 * place, a)
            tl.store(numbers + 4 * place + 1, b)
            tl.store(numbers + 4 * place + 2, c)
            tl.store(numbers + 4 * place + 3, d)

        return triton.jit(by_seed), triton.jit(by_word), triton.jit(draw_kernel)

    kernels, device = _batch().load_triton(load)
    if device != "cpu":
        raise UsageError("Triton is measured in its interpreter: set TRITON_INTERPRET=1")
    return kernels  # type: ignore[no-any-return]


_TRITON_BLOCK = 1 << 16


def _triton_run(kernel: Any, given: Any, count: int) -> Floats:
    torch = importlib.import_module("torch")
    programs = -(-count // _TRITON_BLOCK)
    numbers = torch.empty(programs * _TRITON_BLOCK)
    with _batch().interpreter():
        kernel[programs,](numbers, given, BLOCK=_TRITON_BLOCK)
    return as_float64(numbers.numpy()[:count])


def _triton_uniform(_dtype: str, count: int, seed: int) -> Floats:
    return _triton_run(_triton_kernels()[0], seed, count)


_TRITON_KINDS = ("randint", "randint4x", "rand4x", "randn", "randn4x")


def _triton_numbers(name: str, count: int, seed: int) -> Any:
    """Return ``count`` numbers of ``tl.NAME``.

    All four outputs of the 4x functions, the only one of the others.
    """
    torch = importlib.import_module("torch")
    taken = 4 if name.endswith("4x") else 1
    programs = -(-count // (taken * _TRITON_BLOCK))
    drawn = torch.empty(
        (programs * _TRITON_BLOCK, 4),
        dtype=torch.int32 if name.startswith("randint") else torch.float32,
    )
    with _batch().interpreter():
        kind = _TRITON_KINDS.index(name)
        _triton_kernels()[2][programs,](drawn, seed, KIND=kind, BLOCK=_TRITON_BLOCK)
    return drawn.numpy()[:, :taken].ravel()[:count]


def _philox(count: int, seed: int) -> Any:
    """Return the words (4, count) of Philox 4x32-10 on the counters from 0 on."""
    one = np.uint64(_WORD - 1)
    a, b = np.arange(count, dtype=np.uint64), np.zeros(count, dtype=np.uint64)
    c, d = b, b
    for turn in range(10):
        key = [(seed + turn * 0x9E3779B9) % _WORD, ((seed >> 32) + turn * 0xBB67AE85) % _WORD]
        first, third = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b = (third >> np.uint64(32)) ^ b ^ np.uint64(key[0]), third & one
        c, d = (first >> np.uint64(32)) ^ d ^ np.uint64(key[1]), first & one
    return np.stack([a, b, c, d]).astype(np.uint32).view(np.int32)


def _replay_triton_words(taken: int, count: int, seed: int) -> Any:
    return _philox(-(-count // taken), seed)[:taken].T.ravel()[:count]


def _replay_triton_normals(taken: int, count: int, seed: int) -> Any:
    """Return Box and Muller's numbers, by numpy's functions."""
    words = _philox(-(-count // taken), seed)
    words = np.where(words < 0, -words - 1, words).astype(np.float32)
    u = words * np.float32(4.6566127342e-10)
    normals = []
    for length, angle in ((u[0], u[1]), (u[2], u[3])):
        radius = np.sqrt(np.float32(-2) * np.log(np.maximum(np.float32(1e-7), length)))
        turn = np.float32(6.283185307179586) * angle
        normals += [radius * np.cos(turn), radius * np.sin(turn)]
    return np.stack(normals[:taken]).T.ravel()[:count]


def _triton_draw(
    name: str,
    method: str,
    law: Callable[[], StatedLaw],
    replay: Callable[[int, int], Any],
    tv: Callable[[], float] | None = None,
) -> DrawFunction:
    def names(count: int, seed: int) -> dict[str, Any]:
        return {name: lambda: _triton_numbers(name, count, seed)}

    call = Call(f"{name}()", law, replay, tv)
    return DrawFunction(f"triton.language.{name}", "triton", method, names, (call,))


_PHILOX = "four int32 words of Philox 4x32-10 at counter = offset"
_BOX_MULLER = (
    "Box-Muller in float32 on two numbers of rand4x; raises the first to at least 1e-7, so |x| is "
    "at most 5.678; returns"
)


def _triton_ends(_dtype: str) -> tuple[float, float]:
    torch = importlib.import_module("torch")
    half = _TRITON_BLOCK // 2
    # About 0, and about 2^31, where the sign of a word changes.
    words = np.arange(-half, half, dtype=np.int64)
    ends = np.concatenate([words, words + (1 << 31)]).astype(np.uint32).astype(np.int32)
    numbers = _triton_run(_triton_kernels()[1], torch.tensor(ends), len(ends))
    return float((numbers == 0).sum()) / _WORD, float((numbers == 1).sum()) / _WORD


# tinygrad.


def _tinygrad_rand(dtype: str, count: int, seed: int) -> Floats:
    tinygrad = importlib.import_module("tinygrad")
    tinygrad.Tensor.manual_seed(seed)
    drawn = tinygrad.Tensor.rand(count, dtype=getattr(tinygrad.dtypes, dtype))
    return as_float64(drawn.cast(tinygrad.dtypes.float64).numpy())


def _tinygrad_row(row: Row, dtype: str) -> Any:
    tinygrad = importlib.import_module("tinygrad")
    given = tinygrad.Tensor(row.astype(np.float64), dtype=tinygrad.dtypes.float64)
    return given.cast(getattr(tinygrad.dtypes, dtype))


def _tinygrad_cast(row: Row, dtype: str) -> Row:
    return normalised(_tinygrad_row(row, dtype).cast("float64").numpy())


def _tinygrad_draw(row: Row, dtype: str, count: int, seed: int) -> Ints:
    given = _tinygrad_row(row, dtype)
    importlib.import_module("tinygrad").Tensor.manual_seed(seed)
    return np.asarray(given.multinomial(count, replacement=True).numpy(), dtype=np.int64)


def _tinygrad_index(row: Row, dtype: str) -> Callable[[Floats], Ints]:
    sums = _tinygrad_row(row, dtype).cumsum().float()
    # Sums no larger than u are counted: in half precision they do not always rise.
    looked_in = np.sort((sums / sums[-1]).numpy())
    return lambda u: np.asarray(looked_in.searchsorted(u.astype(np.float32), side="right"))


DRAW_FUNCTIONS = (
    *(
        _triton_draw(
            name,
            method,
            partial(uniform_law, _WORD, -(1 << 31)),
            partial(_replay_triton_words, taken),
            no_bias,
        )
        for name, method, taken in (
            ("randint", f"The first of the {_PHILOX}", 1),
            ("randint4x", f"The {_PHILOX}", 4),
        )
    ),
    *(
        _triton_draw(
            name, method, partial(grouped_law, "norm"), partial(_replay_triton_normals, taken)
        )
        for name, method, taken in (
            ("randn", f"{_BOX_MULLER} one cosine", 1),
            ("randn4x", f"{_BOX_MULLER} two cosines and two sines", 4),
        )
    ),
)

SAMPLERS = (
    _cpp_sampler("libstdc++"),
    _cpp_sampler("libc++"),
    *(
        Sampler(
            name,
            package,
            ("float64", "float32"),
            "one uniform number of 52 bits, or 23 for float32, times the sum, looked up in a "
            "cumulative sum of the row's type",
            numpy_cast,
            partial(_rust_draw, package),
            Lookup(_RUST_BITS, _rust_index, partial(_rust_uniform, package, "gen_range")),
        )
        for name, package in (
            ("rust.rand.WeightedIndex", "rust-rand"),
            ("rust.rand-0.10.WeightedIndex", "rust-rand-0.10"),
        )
    ),
    Sampler(
        "llama_cpp.llama_sampler_init_dist",
        "llama-cpp-python",
        ("float32",),
        "two numbers of std::mt19937 are one uniform number of 64 bits, rounded to float64 and "
        "sought in a float64 running sum of float32 exponentials",
        _float32_logits,
        _llama_draw,
        Lookup({"float32": _PAIR_BITS}, _llama_index, _mersenne_uniforms, scans=True),
    ),
    Sampler(
        "tinygrad.Tensor.multinomial",
        "tinygrad",
        ("float32", "float64", *HALF),
        "one float32 uniform number of 23 bits; the sums no larger than it are counted, in a "
        "cumulative sum of the row's type",
        _tinygrad_cast,
        _tinygrad_draw,
        Lookup(
            dict.fromkeys(("float32", "float64", *HALF), 23),
            _tinygrad_index,
            lambda _dtype, count, seed: _tinygrad_rand("float32", count, seed),
        ),
    ),
)

GENERATORS = (
    *_cpp_generators("libstdc++"),
    *_cpp_generators("libc++"),
    *(
        UniformGenerator(
            name,
            package,
            ("float64", "float32"),
            partial(_rust_uniform, package, function),
            _unseeded(package),
        )
        for name, package, function in (
            ("rust.rand.Rng.gen", "rust-rand", "gen"),
            ("rust.rand.Rng.gen_range", "rust-rand", "gen_range"),
            ("rust.rand-0.10.RngExt.random", "rust-rand-0.10", "gen"),
            ("rust.rand-0.10.RngExt.random_range", "rust-rand-0.10", "gen_range"),
        )
    ),
    UniformGenerator(
        "curand.curandGenerateUniform",
        "nvidia-curand-cu12",
        ("float64", "float32"),
        _curand_uniform,
        _unseeded("nvidia-curand-cu12"),
    ),
    UniformGenerator(
        "triton.language.rand", "triton", ("float32",), _triton_uniform, ends=_triton_ends
    ),
    UniformGenerator(
        "triton.language.rand4x",
        "triton",
        ("float32",),
        lambda _dtype, count, seed: as_float64(_triton_numbers("rand4x", count, seed)),
        ends=_triton_ends,
    ),
    UniformGenerator(
        "tinygrad.Tensor.rand",
        "tinygrad",
        ("float64", "float32", *HALF),
        _tinygrad_rand,
        "import tinygrad; print(tinygrad.Tensor.rand(1).item())",
    ),
)
