"""Where Numba keeps the compiled kernels: by what stands in their sources, not by where they lie.

Numba names a folder by the path of the source. Kernels would be compiled anew, for a minute or two
of all of them, in each environment and each clone in which the very same sources are installed.
"""

from pathlib import Path

from numba.core.caching import UserProvidedCacheLocator


class SourceHashLocator(UserProvidedCacheLocator):  # type: ignore[misc]
    """Finds compiled kernels in a folder whose name is the hash of all their sources."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """Return the name of the source's folder, which no two folders of kernels share."""
        return Path(py_file).parent.name

    def get_source_stamp(self) -> str:
        """Return what tells a source from an edited one: nothing more than the folder's name."""
        return ""
