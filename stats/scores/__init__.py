"""Tests of scores and indicators whose law under the target is known."""
