"""What podsim answers today, recorded: a change of structure must not change it.

``python -m tests.unchanged check`` runs every shipped scenario, the reported cases, every verb and
a corpus of faulty scenarios, and compares exit codes, texts, documents and digests with
``recorded.json``; ``record`` writes it anew, for a change that is meant (CHANGELOG says why).
"""
