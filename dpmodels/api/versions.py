"""``show_versions``: what a report of a problem needs, and nothing about the machine's files."""

from __future__ import annotations

import importlib.metadata
import platform
import sys

__all__ = ["show_versions", "versions"]

_PACKAGES = ("numpy", "scipy", "pandas", "formulaic", "pyarrow", "duckdb")


def versions() -> dict[str, str]:
    """Return versions by name: packages, BLAS, platform.

    Returns
    -------
    dict of str
        No file path and no user name.

    Privacy
    -------
    Reads no data.
    """
    from threadpoolctl import threadpool_info

    import dpmodels as dp

    out = {"dpmodels": dp.__version__, "Python": platform.python_version()}
    for name in _PACKAGES:
        try:
            out[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            out[name] = "not installed"
    for lib in threadpool_info():
        if lib.get("user_api") == "blas":
            kind = f"{lib.get('internal_api')} {lib.get('version')} {lib.get('architecture', '')}"
            out["BLAS"] = f"{kind.strip()}, threads {lib.get('num_threads')}"
    bits = sys.maxsize.bit_length() + 1
    out["platform"] = f"{platform.system()} {platform.machine()}, {bits} bits"
    return out


def show_versions() -> None:
    """Print versions of this package and of what it stands on, for a report of a problem.

    Privacy
    -------
    Reads no data. No file path and no user name.

    Examples
    --------
    >>> import dpmodels as dp
    >>> dp.show_versions()  # doctest: +ELLIPSIS
    dpmodels ...
    """
    print("\n".join(f"{name:<10}{version}" for name, version in versions().items()))
