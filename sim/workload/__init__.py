"""Workloads: who sends requests, when, and what they say."""
