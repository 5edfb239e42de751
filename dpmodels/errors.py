"""Every error and warning of the package, and the did-you-mean that fills their messages.

An error says what is wrong, where, why it matters for privacy, and a line that can be pasted.
It never contains a private value, and whether it is raised never depends on private cells.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = [
    "BudgetError",
    "BudgetExceededError",
    "ClusterError",
    "DPModelsError",
    "DPModelsWarning",
    "DamagedError",
    "DamagedFileError",
    "FormulaError",
    "FormulaPrivacyError",
    "LedgerWarning",
    "NoReplyError",
    "NoReplyWarning",
    "NotPrivateWarning",
    "NotReleasedError",
    "PrivacyBugError",
    "PrivateStageError",
    "RequestError",
    "SchemaError",
    "SchemaNeededError",
    "SourceError",
    "StudyError",
    "UnknownMethodError",
    "UnknownOptionError",
    "UtilityWarning",
    "choice",
    "damage_reported",
    "did_you_mean",
    "path_of",
    "printable",
    "shown",
]


#: Characters that command a terminal, or change the order in which text is shown: all controls
#: but the tab and the line feed, marks of direction, and halves of characters.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Return a text with its control characters written out as Python's escapes.

    Names of columns, levels and formulas come from files; in a terminal they could hide a line.
    """
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text)


#: Longest line of a message, and what is kept of the beginning and the end of a longer one.
_LONGEST_LINE, _KEPT_START, _KEPT_END = 1200, 200, 300


class DPModelsError(Exception):
    """Base class of everything this package raises on purpose.

    A line that quotes a long argument is shortened, and control characters are written out.
    """

    def __init__(self, *args: Any) -> None:
        args = tuple(printable(arg) if isinstance(arg, str) else arg for arg in args)
        if args and isinstance(args[0], str) and len(args[0]) > _LONGEST_LINE:
            lines = [
                line
                if len(line) <= _LONGEST_LINE
                else f"{line[:_KEPT_START]} [...] {line[-_KEPT_END:]}"
                for line in args[0].split("\n")
            ]
            args = ("\n".join(lines), *args[1:])
        super().__init__(*args)


class RequestError(DPModelsError, ValueError):
    """An argument of the call is not usable (``eps <= 0``, ``delta >= 1``, a bad split, ...)."""


class DamagedError(RequestError):
    """A saved fit, release or schema is not as it was written."""


class FormulaError(DPModelsError, ValueError):
    """The formula cannot be read."""


class FormulaPrivacyError(FormulaError):
    """The formula asks for something that would have to be learnt from private rows."""


class SchemaError(DPModelsError, ValueError):
    """A declared fact about a variable is missing or contradictory."""


class SchemaNeededError(SchemaError):
    """A fact must be declared that cannot be estimated; the message holds a template to paste."""


class SourceError(DPModelsError, ValueError):
    """The data object cannot be used as a source of rows (decided without reading a cell)."""


class DamagedFileError(SourceError):
    """A compressed file is damaged or cut short, as anybody finds who unpacks it."""


class ClusterError(SourceError):
    """Workers that sum died or are unreachable; the message reports the state of the charge."""


class BudgetError(DPModelsError, ValueError):
    """A privacy budget or its ledger file cannot be used as asked."""


class BudgetExceededError(BudgetError):
    """A charge would overrun the budget. Nothing was read and nothing was charged."""


class StudyError(RequestError):
    """A study file is invalid; ``problems`` has one line per fault, with its place.

    Parameters
    ----------
    problems : list of str
        ``"study.toml:12:3: what is wrong, and what to type"``.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        listed = [problems] if isinstance(problems, str) else list(problems)
        self.problems = [printable(problem) for problem in listed]
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> Any:
        return StudyError, (self.problems,)


class UnknownOptionError(DPModelsError, ValueError, KeyError):
    """An option the chosen method does not have."""

    # KeyError.__str__ prints repr(message); we want the message.
    __str__ = Exception.__str__


class UnknownMethodError(UnknownOptionError):
    """A method name that is not in the registry for this verb."""


class NoReplyError(DPModelsError):
    """Raised for a no-reply only when the caller asked for it (``on_no_reply="raise"``)."""


class StoppedError(NoReplyError):
    """Raised for a call that stopped before the fit, as too few rows are usable."""


class NotReleasedError(DPModelsError, AttributeError):
    """A quantity nothing was spent on. An ``AttributeError``, so ``hasattr`` is False."""


class PrivateStageError(DPModelsError):
    """A stage that reads private rows failed. Says nothing of the rows; what of the charge."""


class PrivacyBugError(DPModelsError):
    """An internal privacy invariant is broken (undeclared release, step drawn twice, ...)."""


class DPModelsWarning(UserWarning):
    """Base class of the package's warnings, all of them functions of public inputs."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*(printable(arg) if isinstance(arg, str) else arg for arg in args))


class NotPrivateWarning(DPModelsWarning):
    """The result is not private (seeded noise)."""


class UtilityWarning(DPModelsWarning):
    """The planned noise is so large that the answer will say little."""


class LedgerWarning(DPModelsWarning):
    """A ledger file may not be the current one, for example because it was empty."""


class NoReplyWarning(DPModelsWarning):
    """The private test did not pass; a valid private outcome, and was charged."""


class StoppedWarning(NoReplyWarning):
    """The call stopped before the fit, as too few rows are usable."""


@contextmanager
def damage_reported(what: str, again: str) -> Iterator[None]:
    """Raise the error of a damaged file for any failure of reading; it holds nothing private.

    ``what`` it is, and what to type to write it ``again``.
    """
    try:
        yield
    except DPModelsError as error:
        if isinstance(error, DamagedError):
            raise
        problem = str(error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except (Exception, RecursionError) as error:
        problem = type(error).__name__
    else:
        return
    raise DamagedError(f"{what} is damaged and cannot be read ({problem}). {again}")


#: Longest word that is compared with known names.
_LONGEST_WORD = 200


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest of public names, or an empty string."""
    names = [str(k) for k in candidates]
    if len(str(word)) > _LONGEST_WORD:
        return ""
    close = difflib.get_close_matches(str(word), names, n=1)
    if not close:  # names are often written in capitals in papers: ePTR, PMT
        lower = {name.lower(): name for name in reversed(names)}
        matches = difflib.get_close_matches(str(word).lower(), lower, n=1)
        close = [lower[name] for name in matches]
    if not close and len(str(word)) > 2:  # the start of one name alone: conf for confidence
        close = [name for name in names if name.startswith(str(word))]
        close = close if len(close) == 1 else []
    return f" Did you mean {close[0]!r}?" if close else ""


def check_among(
    name: Any, names: Iterable[str], problem: str, listed: str = "",
    error: type[DPModelsError] = RequestError,
) -> None:  # fmt: skip
    """Refuse a name that is not among names: the problem, the closest name, and a list of all."""
    if name not in names:
        every = f" {listed} {', '.join(map(str, names))}" if listed else ""
        raise error(f"{problem}.{did_you_mean(str(name), names)}{every}")


def shown(value: Any) -> str:
    """Return how an argument of a call is written in a message: never as data could be.

    A short Python scalar was typed by the user, and is repeated. For everything else (numpy and
    pandas scalars, which are cells, columns, frames, lists, tuples, long text, objects) only the
    type is shown: its repr could quote rows.
    """
    kind = type(value)  # exactly: a numpy float is a float too
    if value is None or kind in (bool, float):
        return repr(value)
    if kind is int and abs(value) < 10**15:
        return repr(value)
    if kind is str and len(value) <= 40 and len(value.splitlines()) <= 1:
        return repr(value)
    return f"<{kind.__name__}>"


#: Longest path, and longest name in it, in bytes.
_LONGEST_PATH, _LONGEST_NAME = 4095, 255


def path_of(
    value: Any, what: str = "the path of a file", error: type[DPModelsError] = RequestError
) -> Path:
    """Return an argument as a path, or refuse it: text that cannot be one is not quoted.

    Text with a line break, or longer than a path, is a table passed by mistake.
    """
    if not isinstance(value, (str, os.PathLike)):
        raise error(f"{what} must be a string or a Path, got {shown(value)}")
    text = os.fspath(value)
    if isinstance(text, bytes):
        raise error(f"{what} must be a string or a Path, got <bytes>")
    names = text.replace(os.sep, "/").encode("utf-8", "surrogatepass").split(b"/")
    odd = "\0" in text or len(text.splitlines()) > 1 or text[-1:] in ("\n", "\r")
    if odd or sum(map(len, names)) + len(names) > _LONGEST_PATH or any(
        len(name) > _LONGEST_NAME for name in names
    ):
        raise error(
            f"{what} was expected, and the text given has a line break or is longer than a path. "
            "Write it to a file and give the path of that, or pass a frame"
        )
    return Path(text)


def choice(
    name: str,
    value: Any,
    words: Iterable[Any],
    error: type[DPModelsError] = RequestError,
    more: str = "",
) -> Any:
    """Return ``value`` if it is one of the ``words`` (or None), else raise ``error``."""
    listed = list(words)
    word = isinstance(value, str)  # anything else is not compared: a column is so cell by cell
    if not (word or value is None) or value not in listed:
        close = did_you_mean(value, [str(k) for k in listed]) if word else ""
        raise error(f"{name}={shown(value)} is not one of {listed}.{close}{more}")
    return value
