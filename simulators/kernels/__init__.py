"""Everything that Numba compiles: Philox, alias tables, models, rules, the decoding loop.

Kernels know nothing of files, printing or validation. Importing this package imports every file
below it, and so decorates them all, while Numba's cache folder is one named by the hash of all
their sources: Numba itself misses edits in an imported compiled helper, so a broken kernel could
run as its old self.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from numba import config
from numba.core import caching

from simverify.folders import cache_folder
from simverify.simulators.kernel_cache import SourceHashLocator, UniqueNames

_FOLDER = Path(__file__).parent


def _sources() -> list[Path]:
    """Every file of kernels, by its path in this folder."""
    return [path.relative_to(_FOLDER) for path in sorted(_FOLDER.rglob("*.py"))]


def source_hash() -> str:
    """Hash of the sources of all kernels, 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(str(path).encode() + b"\0" + (_FOLDER / path).read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def compiled_before() -> bool:
    """Whether the decoding loop stands compiled in the cache."""
    from simverify.simulators.kernels import chains

    folder = cache_folder(f"kernels-{source_hash()}")
    loop = chains.generate.py_func
    # As Numba names its index: by module, function and line.
    name = f"{loop.__module__.rpartition('.')[2]}.{loop.__qualname__}-*.nbi"
    return folder is not None and any(folder.rglob(name))


@contextmanager
def _own_cache() -> Iterator[None]:
    """Let the functions decorated inside cache into our folder, and no other package's."""
    before = config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES, caching.IndexDataCacheFile
    folder = cache_folder(f"kernels-{source_hash()}")
    # Numba reads the settings when a function is decorated; an empty one means its default.
    if folder is not None:
        config.CACHE_DIR = str(folder)
        config.CACHE_LOCATOR_CLASSES = (
            f"{SourceHashLocator.__module__}.{SourceHashLocator.__name__}"
        )
        caching.IndexDataCacheFile = UniqueNames
    try:
        yield
    finally:
        config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES, caching.IndexDataCacheFile = before


with _own_cache():
    for _path in _sources():
        import_module(".".join((__name__, *_path.with_suffix("").parts)).removesuffix(".__init__"))

__all__ = ["compiled_before", "source_hash"]
