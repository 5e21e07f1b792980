"""What podsim answers today, recorded: a change of structure must not change it.

``python -m tests.unchanged check`` runs every shipped scenario, the reported cases, every verb and
a corpus of faulty input, and compares exit codes, texts, documents and digests with
``recorded.json``; ``record`` writes it anew, for a change that is meant (CHANGELOG says why).
Of long texts only a hash is recorded. To see what differs in one, ``record`` it in both versions
with ``LONGEST=1000000`` in the environment and compare the two files.
"""
