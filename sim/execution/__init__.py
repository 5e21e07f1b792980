"""Runs: one, many in worker processes, and what stops them."""
