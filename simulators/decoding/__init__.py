"""The decoding loop over real models: many requests, one draft and one target call at a time.

``job`` says what is decoded, ``loop`` decodes single drafts, ``trees`` draft trees, ``replayed``
the blocks of a trace. Rows come out of neural networks here; the other simulators read tables.
"""
