"""Faults that are put into the physics on purpose, to see whether the suite catches them.

``python -m tests.mutations`` puts them in one by one.
"""
