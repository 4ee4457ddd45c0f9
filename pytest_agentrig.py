"""The pytest plugin. It imports only pytest: `harness` is loaded when it is used.

It is a top-level file because an entry point inside a package called `harness` would break
every project that has a `harness/` folder of its own.
"""

from __future__ import annotations
