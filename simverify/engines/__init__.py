"""Adapters that put real engines' functions under the contracts.

``catalogue`` declares the engines in the short forms of ``declare``, ``registry`` finds them,
``extract`` takes functions out of a source file, ``adapt`` wraps them, ``bridge`` calls programs in
other languages. Nothing here imports an engine, torch or Triton until a function is loaded; nothing
of an engine is copied. Third parties add theirs by an entry point in ``simverify.verifiers``.
"""

__simverify_role__ = "adapter"


from simverify.engines.adapt import (
    Batch,
    Emitted,
    Signature,
    TreeBatch,
    as_batched,
    as_tree,
    as_verify,
    global_seed,
    tree_of_links,
    tree_of_mask,
    with_coins,
)
from simverify.engines.base import Engine
from simverify.engines.declare import block_engine, loop_engine, make_engine, step_engine
from simverify.engines.registry import (
    ENGINES,
    InstalledEngine,
    engine_names,
    get_engine,
    installed_engines,
    unloaded_engine,
)

__all__ = [
    "ENGINES",
    "Batch",
    "Emitted",
    "Engine",
    "InstalledEngine",
    "Signature",
    "TreeBatch",
    "as_batched",
    "as_tree",
    "as_verify",
    "block_engine",
    "engine_names",
    "get_engine",
    "global_seed",
    "installed_engines",
    "loop_engine",
    "make_engine",
    "step_engine",
    "tree_of_links",
    "tree_of_mask",
    "unloaded_engine",
    "with_coins",
]
