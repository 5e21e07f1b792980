"""Placement policies: which pod of a backend serves a request.

One file per family, each kind with its spec model: ``load`` (policies that
know only how busy pods are), ``data_parallel`` (vLLM's balancer over its
ranks), ``ring`` (hash of the session key), ``table`` (a remembered pod per
session). ``hashing``, ``bindings`` and ``ties`` are what the families are made
of. The interface is in ``sim.router.views``; a new kind needs a spec, a class
and an entry point, and the contract tests in ``tests/placement`` then run over
it without being told.
"""
