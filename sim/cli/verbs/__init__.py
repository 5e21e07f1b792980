"""The verbs, one file each; every module has a ``command``."""
