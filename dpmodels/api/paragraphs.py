"""Docstrings of the verbs in full: what an argument means is written once, and read everywhere.

A verb's docstring names the arguments it shares, and whose they are (``As in :func:`dp_ols```);
``help()``, editors that ask the function and the site show the paragraphs themselves. The function
is not wrapped: its signature is its own.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_AS_IN = re.compile(r"As in :func:`(?:dpmodels\.)?(\w+)`[.;]? ?")
_PROMISE = re.compile(r"Privacy\n-------\nAs :func:`(?:dpmodels\.)?(\w+)`\.")


class _Entry(NamedTuple):
    """One entry of a section Parameters: names, what follows a colon, paragraphs."""

    names: tuple[str, ...]
    kind: str
    body: str

    def text(self) -> str:
        lines = (f"    {line}".rstrip() for line in self.body.splitlines())
        return "\n".join([", ".join(self.names) + self.kind, *lines])


def _entries(section: str) -> Iterator[_Entry]:
    for part in re.split(r"\n(?=\S)", section):
        head, _, body = part.partition("\n")
        names, colon, kind = head.partition(" :")
        yield _Entry(tuple(names.split(", ")), colon + kind, inspect.cleandoc(body))


def _split(doc: str) -> tuple[str, str, str]:
    """Return what comes before the entries of Parameters, the entries, and the rest."""
    start, title, after = doc.partition("Parameters\n----------\n")
    section, gap, rest = after.partition("\n\nReturns\n")
    return start + title, section, gap + rest


def _privacy(verb: Callable[..., Any]) -> str:
    """Return the section Privacy of another verb."""
    sections = re.split(r"\n\n(?=\w+\n---)", inspect.getdoc(verb) or "")
    return next(section for section in sections if section.startswith("Privacy\n"))


def like(*others: Callable[..., Any]) -> Callable[[F], F]:
    """Write out the arguments whose paragraph another verb has: all but what is that verb's alone.

    Of another verb's paragraphs the first is meant; those behind a blank line are its own. What a
    docstring adds behind ``As in`` is said of the last name of its entry.
    """
    known = {other.__name__: other for other in others}
    entries = {name: list(_entries(_split(inspect.getdoc(other) or "")[1]))
               for name, other in known.items()}  # fmt: skip

    def write(function: F) -> F:
        if not function.__doc__:  # python -OO
            return function
        start, section, rest = _split(inspect.cleandoc(function.__doc__))
        out = []
        for entry in _entries(section):
            found = _AS_IN.match(entry.body)
            if found is None:
                out.append(entry)
                continue
            shared = []
            for one in entries[found[1]]:
                names = tuple(name for name in one.names if name in entry.names)
                if names:
                    shared.append(_Entry(names, one.kind, one.body.split("\n\n")[0]))
            missing = set(entry.names).difference(*(one.names for one in shared))
            if missing:
                raise ValueError(f"{found[1]} says nothing of {sorted(missing)}")
            added = entry.body[found.end():]
            if added:
                last = next(k for k, one in enumerate(shared) if entry.names[-1] in one.names)
                body = textwrap.fill(f"{shared[last].body} {added}", 92, break_on_hyphens=False)
                shared[last] = shared[last]._replace(body=body)
            out += shared
        rest = _PROMISE.sub(lambda found: _privacy(known[found[1]]), rest)
        function.__doc__ = start + "\n".join(entry.text() for entry in out) + rest
        return function

    return write
