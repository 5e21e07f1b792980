"""``import podsim`` and ``python -m podsim``: the package ``sim`` by the name of the project.

Python finds a ``sim.py`` of one's own in the working directory before it, which is said here.
"""

import sim

if not (sim.__doc__ or "").startswith("podsim:"):
    raise ImportError(
        f"{sim.__file__ or list(sim.__path__)} is found before podsim's own package, which is "
        "called sim, too: rename it, or work in another folder"
    )

__all__ = sim.__all__
__getattr__ = sim.__getattr__
__dir__ = sim.__dir__

if __name__ == "__main__":
    from sim.cli import main

    main(prog_name="podsim")
