"""A server that is watched over its life, with one alarm rate for all of it.

``canary`` bets on what is emitted, ``tail`` reads a log that grows, ``asking`` writes one by
asking a server, ``state`` keeps all that on disk, ``metrics`` and ``telling`` tell it; ``run`` is
the whole.
"""
