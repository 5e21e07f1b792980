"""Kubernetes manifests of LLMKube to scenarios: what a cluster is told becomes what podsim runs.

- ``translation``   from texts of manifests to the text of a scenario and notes
- ``objects``       documents to objects, and which object a name refers to
- ``fields``        the values of an object; what nobody reads is reported, as ``unmodelled``
  knows whether it would matter
- ``fleet``         what the objects are to each other
- ``service``       InferenceService and Model to an ``engine``: ``options``, ``hardware``, the
  model ``served`` (``names``)
- ``router``        ModelRouter to backends and rules (``balancing``, ``limits``)
- ``pool``          ModelPool to a pool
- ``standin``       a workload for each rule, for a manifest has none
- ``writing``       YAML with comments
"""
