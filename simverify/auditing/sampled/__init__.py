"""The sampled tier: calls counted and judged, planned before they run."""
