"""The battery: emitted tokens, counted and judged at a share of the false-alarm rate."""

__simverify_role__ = "machinery"
