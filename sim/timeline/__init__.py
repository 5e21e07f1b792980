"""A run to look at: its pods, router and sessions over time, for trace viewers.

``timeline`` puts a run together from its result and the steps of its pods, and writes it;
``drawing`` says what it shows, ``chrome_trace`` alone knows the file format.
"""
