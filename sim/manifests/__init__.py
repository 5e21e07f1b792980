"""Kubernetes manifests of LLMKube to scenarios: what a cluster is told becomes what podsim runs.

- ``translation``   from texts of manifests to the text of a scenario and notes
- ``objects``       documents to objects, and which object a name refers to
- ``fields``        the values of an object; unread and unmodelled keys are reported
- ``fleet``         what the objects are to each other
- ``service``       InferenceService and Model to an engine, with ``options`` and ``hardware``
- ``router``        ModelRouter to backends and rules (``balancing``, ``limits``)
- ``engines``       ModelPool to a pool, engines with the origins of their settings
- ``writing``       notes, names of the catalogue, YAML with comments
"""
