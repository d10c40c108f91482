"""Edge probes: unusual rows, inputs and random numbers, each with its own line.

``run.probes_of`` is the entry; a line says ok, warning, violation or not run, and why.
"""
