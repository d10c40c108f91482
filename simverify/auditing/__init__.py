"""Auditing: any code under the contracts, from its probes to one verdict.

``run`` is a whole audit. ``probes`` come first, then the exact tier (``exact_tier``, ``examiner``,
``enumeration``, ``comparison``), the sampled tier where it must (``sampled_tier``,
``sampled_runs``), and ``verdict``. ``search`` looks for failing instances, ``blame`` for the lines
that decide, ``replay`` shows failing paths, ``real_models`` audits on real models and traces.
"""

__simverify_role__ = "machinery"
