"""Where Numba keeps the compiled kernels, and under which names.

Numba names a folder by the path of the source. Kernels would be compiled anew, for a minute or two
of all of them, in each environment and each clone in which the very same sources are installed. The
folder's name is the hash of all their sources instead.

Numba numbers the files of a function by its index. Two processes that compile two signatures of one
function at the same time both take the same number, so that the index can lead to the code of the
other signature, and the process that loads it calls it with arguments of the wrong types. Random
names leave a signature out of the index at worst, and it is compiled again.
"""

from pathlib import Path
from uuid import uuid4

from numba.core.caching import IndexDataCacheFile, UserProvidedCacheLocator


class SourceHashLocator(UserProvidedCacheLocator):  # type: ignore[misc]
    """Finds compiled kernels in a folder whose name is the hash of all their sources."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """Return the name of the source's folder, which no two folders of kernels share."""
        return Path(py_file).parent.name

    def get_source_stamp(self) -> str:
        """Return what tells a source from an edited one: nothing more than the folder's name."""
        return ""


class UniqueNames(IndexDataCacheFile):  # type: ignore[misc]
    """The files of one function; no two signatures share a name, whoever compiles them."""

    def _data_name(self, number: int) -> str:
        return str(super()._data_name(number)).replace(".nbc", f"-{uuid4().hex}.nbc")
