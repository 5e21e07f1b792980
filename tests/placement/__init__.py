"""Tests of the placement policies, on views driven by hand."""
