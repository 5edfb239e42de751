"""Write dpmodels/__init__.pyi: the public names with their types, from the running package.

A verb takes ``**options``; here each option of its methods is an argument, so that a checker of a
user's script finds ``epsilon=1``, and each verb returns the class of its fits, so that it finds
``fit.nosuch``. ``python .ci/stub.py --write``; without it the stub is printed.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from pathlib import Path

import dpmodels as dp
from dpmodels.api.requests import COMMON_OPTIONS
from dpmodels.registry import _entries, method_names
from dpmodels.results.fit import kind_of

STUB = Path(dp.__file__).with_name("__init__.pyi")
HEAD = '''# ruff: noqa
"""Public names with their types, written by .ci/stub.py."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

'''
#: Arguments that verbs take beside their methods' options.
MORE = ("method", "public", "inference", "bounds", "schema")
#: Verbs whose own function takes names that no method has.
OWN = {"dp_feols": ("re", "mundlak"), "dp_glm": ("event", "link", "alpha"), "dp_polr": ("link",)}


def options_of(verb: str) -> list[str]:
    """Return the names that the options of a verb may have."""
    names = set(COMMON_OPTIONS) | set(MORE) | set(OWN.get(verb, ()))
    for name in method_names(verb):
        names |= {option.name for option in _entries(verb, name)[(verb, name)].options}
    return sorted(names)


def verb_of_stub(name: str) -> str:
    """Return the definition of a verb."""
    signature = inspect.signature(getattr(dp, name))
    out, star = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            out, star = [*out, "*"], True
        default = "" if parameter.default is parameter.empty else " = ..."
        out.append(f"{parameter.name}: {parameter.annotation}{default}")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            out.append("/")
    out += [] if star else ["*"]
    out += [f"{key}: Any = ..." for key in options_of(name) if key not in signature.parameters]
    body = textwrap.fill(", ".join(out), 96, initial_indent="    ", subsequent_indent="    ",
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip
    return f"def {name}(\n{body},\n) -> {kind_of(name).__name__}: ...\n"


def stub() -> str:
    """Return the text of the stub."""
    verbs = sorted(set(dp.methods()["verb"]))
    kinds = sorted({(kind_of(v).__module__, kind_of(v).__name__) for v in verbs})
    lines = [f"from {module} import {kind}\n" for module, kind in kinds]
    for name in sorted(dp._EXPORTS):
        if name not in verbs:  # from where it is written: packages import it when it is used
            lines.append(f"from {getattr(dp, name).__module__} import {name} as {name}\n")
    lines += [f"from dpmodels import {name} as {name}\n" for name in sorted(dp._PUBLIC_MODULES)]
    lines.append("from dpmodels._version import __version__ as __version__\n\n")
    return HEAD + "".join(lines) + "".join(verb_of_stub(verb) for verb in verbs)


if __name__ == "__main__":
    if "--write" in sys.argv:
        STUB.write_text(stub(), encoding="utf-8")
    else:
        print(stub())
