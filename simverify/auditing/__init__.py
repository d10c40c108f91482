"""Auditing: any code under the contracts, from its probes to one verdict."""

__simverify_role__ = "machinery"
