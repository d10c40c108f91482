"""Draft trees, simulated: one verification call per trial, by compiled rules."""

from simverify.simulators.trees.run import compiled_rules, count_nodes, sample_trees, simulate_trees

__all__ = ["compiled_rules", "count_nodes", "sample_trees", "simulate_trees"]
