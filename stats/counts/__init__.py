"""Tests of counts: G2, support, rare tokens, independence."""
