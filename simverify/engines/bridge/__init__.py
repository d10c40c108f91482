"""Verifiers in other languages: a program that answers lines, or a function of a library.

Both take their coins as arguments, so that the exact tier bisects them.
"""

__simverify_role__ = "wrapper"

from simverify.engines.bridge.command import CommandVerify
from simverify.engines.bridge.library import LibraryVerify
from simverify.engines.bridge.protocol import PRECISIONS, Hello

__all__ = ["PRECISIONS", "CommandVerify", "Hello", "LibraryVerify"]
