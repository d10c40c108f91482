"""The decoding loop over real models: many requests, one draft and one target call at a time.

``job`` makes jobs and records their runs, ``loop`` decodes single drafts, ``trees`` draft trees,
``replayed`` the blocks of a trace. Rows come from neural networks here; the other simulators read
tables.
"""
