"""Methods as data: the uses, needs, proofs and options of each.

The registry feeds validation, ``dp.methods()``, the documentation and the command line. A third
party registers a method with :func:`register_method`; nothing else in the package branches on a
method's name.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpmodels.arrays import plain
from dpmodels.errors import (
    RequestError,
    UnknownMethodError,
    UnknownOptionError,
    did_you_mean,
    shown,
)
from dpmodels.quiet import lock
from dpmodels.verbs import verb_of

if TYPE_CHECKING:
    import pandas as pd



@dataclass(frozen=True)
class Backend:
    """The three functions a method supplies: public plan, private release, public estimate.

    Attributes
    ----------
    plan : callable
        ``(request, design, n) -> Plan``: decides everything public (steps, scales, shares) and
        reads no row. n is None where it is private, under add-remove: a method without that
        relation in its entry always gets a number.
    release : callable
        ``(plan, ask) -> Release``: asks for released numbers, alone in speaking to the rows.
    estimate : callable
        ``(plan, release) -> Estimate``: post-processes released and public numbers; reads no row.
    people : bool
        Whether there is a proof for persons with several rows (``units.md``).
    title : str
        What ran, as printed, where that is not the title of the method.
    """

    plan: Callable[..., Any]
    release: Callable[..., Any]
    estimate: Callable[..., Any]
    people: bool = False
    title: str = ""


@dataclass(frozen=True)
class Option:
    """One option of a method.

    Attributes
    ----------
    name, doc : str
    default : object
        The default; it need not pass ``check`` (``None`` often means "by rule").
    kind : type or tuple of types
        Accepted types (an ``int`` is accepted where ``float`` is asked).
    choices : tuple
        If given, the accepted values.
    lower, upper : float or None
        Exclusive bounds of a number (``lower=0`` means ``> 0``).
    other_words : mapping
        What else a choice is called (lower case) -> the choice: for the suggestion only.
    instead : mapping
        What begins so (lower case) is no choice, and what to type for it.
    """

    name: str
    doc: str
    default: Any = None
    kind: type | tuple[type, ...] = object
    choices: tuple[Any, ...] = ()
    lower: float | None = None
    upper: float | None = None
    other_words: Mapping[str, str] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)

    def validate(self, value: Any) -> Any:
        """Return ``value`` or raise ``RequestError`` naming the option."""
        typed = shown(value)  # a number of numpy may be a cell: it is not repeated
        if self.kind is not object:
            value = plain(value)
        if value is None and self.default is None:
            return value
        kinds = self.kind if isinstance(self.kind, tuple) else (self.kind,)
        if isinstance(value, bool) and bool not in kinds and object not in kinds:
            raise RequestError(f"{self.name}= must be {self._expected()}, got {typed}")
        if float in kinds and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if self.choices and isinstance(value, (str, bool)) and value not in self.choices:
            raise RequestError(self._no_choice(value, typed))
        if object not in kinds and not isinstance(value, kinds):
            if isinstance(value, Mapping) and self.instead:  # vcov={"CRV1": "village"}
                instead = next(iter(self.instead.values()))
                raise RequestError(f"{self.name}={typed}: {instead}")
            raise RequestError(f"{self.name}= must be {self._expected()}, got {typed}")
        if (float in kinds or int in kinds) and not self._within(value):
            raise RequestError(f"{self.name}={typed}: must be {self._expected()}")
        return value

    def _no_choice(self, value: Any, typed: str) -> str:
        """Return the message for a value that is none of the choices."""
        for start, text in self.instead.items():
            if str(value).lower().startswith(start):
                return f"{self.name}={typed}: {text}"
        meant = self.other_words.get(str(value).lower(), str(value))
        suggestion = did_you_mean(meant, [str(c) for c in self.choices])
        return f"{self.name}={typed} is not one of {list(self.choices)}.{suggestion}"

    def _within(self, value: Any) -> bool:
        """Return whether a number is between the bounds; True for other values."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return True
        above = self.lower is None or value > self.lower
        below = self.upper is None or value < self.upper
        return value == value and above and below

    def _expected(self) -> str:
        """Return the values that an option accepts, as text."""
        kinds = self.kind if isinstance(self.kind, tuple) else (self.kind,)
        text = " or ".join(k.__name__ for k in kinds)
        if self.choices:
            text += f" out of {list(self.choices)}"
        if self.lower is not None:
            text += f" > {self.lower:g}"
        if self.upper is not None:
            text += f" < {self.upper:g}"
        return text


@dataclass(frozen=True)
class Ending:
    """Another backend of a method, taken where a public rule of the call says so."""

    backend: Backend
    # (request, design, n) -> the reason why the call does not end so, empty if it does. n is None
    # if it is private.
    why_not: Callable[..., str]
    # Name that the plan then gives the call, before the reason: "moments only". Empty for an ending
    # that only some arguments ask for: no reason is printed.
    otherwise: str = ""


@dataclass(frozen=True)
class Method:
    """One entry of the registry.

    Attributes
    ----------
    name, verb : str
        ``("eptr", "dp_ols")``.
    title : str
        As printed in the summary ("ePTR least squares").
    backend : Backend
    proof : str
        The theory note that proves its sensitivities.
    needs : tuple of str
        Words such as "delta > 0", "two passes", "public", "ranges", "one pass".
    relations : tuple of str
        Neighbouring relations with a proof; the first is the default.
    options : tuple of Option
    inference : str
        "yes", "no", or a short sentence.
    privacy_se : str
        "public", "released" or "unavailable" (user-facing meaning of ``bse_privacy``).
    reference : str
    comparison_only : bool
        True for methods that exist to be compared with.
    accepts : tuple of str
        Common arguments that only some methods take ("weights").
    endings : tuple of Ending
        Asked in order before the backend itself; the plan says which was taken.
    """

    name: str
    verb: str
    title: str
    backend: Backend
    needs: tuple[str, ...] = ()
    relations: tuple[str, ...] = ("replace",)
    options: tuple[Option, ...] = ()
    inference: str = "yes"
    privacy_se: str = "released"
    reference: str = ""
    proof: str = ""
    comparison_only: bool = False
    accepts: tuple[str, ...] = field(default=())
    #: The plan prints expected privacy errors where ranges are declared.
    foretells: bool = False
    #: Default treatment of a row with a missing cell.
    na: str = "zero-row"
    #: Offset and weight of a row are kept next to it, not multiplied in.
    aside: bool = False
    endings: tuple[Ending, ...] = ()
    #: A pass reads rows themselves, not sums of them: not for tables that stay elsewhere.
    by_rows: bool = False
    #: Whether ``max_rows=`` asks for something else than ``unit=`` alone: rows are then counted.
    kept: bool = False

    @property
    def people(self) -> bool:
        """Whether the method or one of its endings has a proof for persons (``units.md``)."""
        return self.backend.people or any(e.backend.people for e in self.endings)

    @property
    def titles(self) -> str:
        """Titles of all endings, in the order in which they are tried, then of the method."""
        endings = (e.backend.title for e in self.endings)
        return "; or ".join([*filter(None, endings), self.title])

    def chosen(self, request: Any, design: Any, n: int | None) -> tuple[Backend, tuple[str, ...]]:
        """Return the backend that serves a call, and why no other does. Public, made once."""
        reasons = []
        for ending in self.endings:
            why = ending.why_not(request, design, n)
            if not why:
                return ending.backend, ()
            if ending.otherwise:
                reasons.append(f"{ending.otherwise}: {why}")
        return self.backend, tuple(reasons)

    def resolve_options(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        """Return every option with its value; unknown names raise with a suggestion."""
        options = {o.name: o for o in self.options}
        for name in typed:
            if name not in options:
                if name in _MEANT_ARGUMENTS:
                    raise UnknownOptionError(
                        f"{self.verb} has no option {name!r}: {_MEANT_ARGUMENTS[name]}"
                    )
                others = [m.name for (verb, _), m in _entries(self.verb).items()
                          if verb == self.verb and name in (o.name for o in m.options)]  # fmt: skip
                owners = f" {name}= needs method={' or '.join(map(repr, others))}."
                if not others and (verbs := _verbs_with(name)):
                    others, listed = verbs, " or ".join(verbs)
                    owners = f" {name}= is of {listed} (in dp.plan: verb={verbs[0]!r})."
                raise UnknownOptionError(
                    f"{self.verb}(method={self.name!r}) has no option {name!r}."
                    f"{did_you_mean(name, [*_OF_ALL, *options])}\n  Its options: "
                    + (", ".join(options) or "none")
                    + f". See dp.methods({self.name!r}).{owners if others else ''}"
                )
        return {
            name: option.validate(typed[name]) if name in typed else option.default
            for name, option in options.items()
        }


def _verbs_with(option: str) -> list[str]:
    """Return the verbs that have an option of this name, where they are few."""
    verbs = dict.fromkeys(
        verb for (verb, _), m in _entries().items() if option in (o.name for o in m.options)
    )
    return [*verbs] if len(verbs) <= 3 else []


#: Name of an argument in other packages -> the text to type here.
_MEANT_ARGUMENTS = {
    **dict.fromkeys(
        ("cluster", "clusters", "groups", "cov_kwds"),
        'errors by cluster are vcov={"CRV1": "village"}; where the cluster is a person, '
        'unit="person_id" protects the person too',
    ),
    **dict.fromkeys(
        ("cov_type", "se", "vcov_type", "robust"),
        "errors are robust by default; vcov='iid' assumes one variance",
    ),
    **dict.fromkeys(
        ("disp", "maxiter", "tol", "start_params", "control", "epsilon_tol"),
        "the number of passes over the data is fixed by the plan, so there is nothing to control",
    ),
    **dict.fromkeys(
        ("random_state", "rng", "set_seed"),
        "seed=1 repeats the noise for tests, and the result is then NOT PRIVATE",
    ),
    **dict.fromkeys(("nobs", "N", "size"), "the number of rows is counted, or declared: n=1000"),
    **dict.fromkeys(
        ("by", "groupby", "fsplit", "group_by"),
        "one fit a group, each with a charge: subset=\"region == 'north'\"; or an interaction, "
        "y ~ x * region",
    ),
    **dict.fromkeys(("margins", "margin"), "margins are released with the cells: fit.crosstab()"),
    **dict.fromkeys(
        ("n_folds", "cross_fit"),
        "folds='half' of dp_ate names a column that divides the rows into two halves",
    ),
    **dict.fromkeys(("treat", "trt"), "the treatment is treatment='t'"),
    **dict.fromkeys(("trim", "trim_weights"), "the propensity is clipped: clip=(0.1, 0.9)"),
    **dict.fromkeys(("probs", "tau_list", "quantile"), "quantiles are q=[0.25, 0.5, 0.75]"),
    **dict.fromkeys(
        ("ledger", "account", "accountant"),
        "a ledger is a budget, budget=dp.Budget.open('study.ledger', eps=3, delta=1e-5)",
    ),
    **dict.fromkeys(
        ("survey", "svydesign"), 'a survey is design=dp.Survey(weights="w", psu="village")'
    ),
    **dict.fromkeys(
        ("missing", "na_action"), "na='zero-row' is the default, na='declared' another"
    ),
}
#: Arguments of every call, which a misspelt option may have meant.
_OF_ALL = ("bounds", "schema", "weights", "subset", "public", "unit", "units", "level", "split")


#: (verb, name) -> Method, in the order of preference within a verb.
_REGISTRY: dict[tuple[str, str], Method] = {}
#: Verb -> modules of its methods, which register them when imported: on the first call of the verb.
_MODULES: dict[str, tuple[str, ...]] = {
    "dp_ols": (
        "linear.moments", "linear.eptr", "linear.posterior", "linear.compared", "noised.fit",
    ),
    "dp_glm": ("glm", "noised.fit"),
    "dp_quantreg": ("residual", "noised.fit"),
    "dp_mest": ("residual", "noised.fit"),
    "dp_mean": ("mean", "mean_ptr"),
    "dp_bayes": ("bayes",),
    "dp_npreg": ("kernel",),
    "dp_moments": ("moments",),
    "dp_pca": ("components",),
    "dp_table": ("table.weighted",),
    "dp_quantile": ("table.quantiles", "table.weighted_quantiles"),
    "dp_test": ("table.nulls", "table.weighted_quantiles"),
    **dict.fromkeys(("dp_survfit", "dp_survdiff", "dp_coxph"), ("survival.cox",)),
    **dict.fromkeys(("dp_polr", "dp_multinom"), ("choice",)),
    **dict.fromkeys(("dp_feols", "dp_fepois"), ("panel",)),
    "dp_ate": ("treatment.ate",),
    **dict.fromkeys(("dp_eptr", "dp_gptr"), ("custom",)),
}
_LOADING = lock()


def register_method(method: Method) -> Method:
    """Add a method to the registry (or replace one of the same verb and name).

    Parameters
    ----------
    method : Method

    Privacy
    -------
    Reads no data. A registered method carries its own proof: the audit kit
    (``dpmodels.audit``) runs on it by name.
    """
    for field_name in ("title", "reference", "proof"):
        if not getattr(method, field_name):
            raise RequestError(
                f"the entry of {method.verb}(method={method.name!r}) has no {field_name}: say "
                f"Method(..., {field_name}=...)"
            )
    _REGISTRY[(method.verb, method.name)] = method
    return method


def _entries(verb: str = "", name: str = "") -> dict[tuple[str, str], Method]:
    """Return the registry with a method in it, or all of a verb, or all there are."""
    with _LOADING:  # another thread must not see half of it
        for v in (verb,) if verb else _MODULES:
            for module in _MODULES.get(v, ()):
                if (v, name) not in _REGISTRY:
                    importlib.import_module(f"dpmodels.models.{module}")
    return _REGISTRY


def default_method(verb: str) -> str:
    """Return the default method of a verb: the one its record names, else the first registered."""
    named = verb_of(verb).default
    return named or next(m.name for m in _entries(verb).values() if m.verb == verb)


def method_names(verb: str) -> list[str]:
    """Return the names of the methods of a verb: the default first, those of a release last."""
    if not isinstance(verb, str):
        return []
    entries = [m for m in _entries(verb).values() if m.verb == verb]
    default = default_method(verb) if entries else ""
    entries.sort(key=lambda m: (m.name != default, "release" in m.accepts))
    return [m.name for m in entries]


def _words(text: str) -> list[str]:
    """Return the words of a title or of a typed name, in one spelling."""
    return re.findall(r"\w+", text.lower().replace("iz", "is"))


def _close_method(verb: str, name: Any, names: Sequence[str]) -> str:
    """Return a suggestion for a method: the closest name, or that of a title with these words."""
    close = did_you_mean(name, names)
    words = _words(name) if isinstance(name, str) and len(name) <= 100 else []
    if close or not words or len(name.strip()) < 4:
        return close
    first = "".join(w[0] for w in words[:-1])
    matching = [name for name in names if name in (first + words[-1][0], first + words[-1])]
    titles = {name: _words(_entries(verb, name)[verb, name].titles) for name in names}
    matching = matching or [n for n in names if " ".join(words) in " ".join(titles[n])]
    matching = matching or [n for n in names if all(w in " ".join(titles[n]) for w in words)]
    if len(matching) > 3 or not matching:
        return ""
    return f" Did you mean {' or '.join(map(repr, matching))}?"


def resolve(verb: str, name: str) -> Method:
    """Look a method up; raise ``UnknownMethodError`` with a suggestion."""
    entry = _entries(verb, name).get((verb, name)) if isinstance(name, str) else None
    if entry is None:
        names = method_names(verb)
        raise UnknownMethodError(
            f"Unknown method: {shown(name)}.{_close_method(verb, name, names)}\n"
            f"  Methods for {verb}: {', '.join(map(repr, names))}. See dp.methods()."
        )
    return entry


def methods(name: str | None = None) -> pd.DataFrame:
    """Return the registry as a data frame, or one method's options.

    Parameters
    ----------
    name : str, optional
        A method: one row an option (columns ``verb, option, default, type, doc``). Without it,
        one row a method (``verb, method, title, needs, relations, inference, reference``).

    Returns
    -------
    DataFrame
        Prints in full on 100 columns, and as a table in a notebook.

    Privacy
    -------
    Public: reads no data, costs nothing.
    """
    from dpmodels.methods_table import MethodTable, OptionTable
    from dpmodels.privacy.proofs import PROOF_OF_METHOD

    registered = _entries()
    verbs = dict.fromkeys([*_MODULES, *(verb for verb, _ in registered)])
    entries = [registered[verb, method] for verb in verbs for method in method_names(verb)]
    if name is None:
        rows = [
            {
                "verb": m.verb,
                "method": m.name,
                "title": m.titles,
                "needs": ", ".join(m.needs),
                "relations": ", ".join(m.relations),
                "inference": m.inference,
                "proof": ""
                if (own_proof := PROOF_OF_METHOD.get(f"{m.verb}.{m.name}")) is None
                else str(own_proof.note),
                "comparison_only": m.comparison_only,
                "reference": m.reference,
            }
            for m in entries
        ]
        return MethodTable(rows)
    chosen = [m for m in entries if m.name == name]
    if not chosen:
        names = sorted({m.name for m in entries})
        verb = name if str(name).startswith("dp_") else f"dp_{name}"
        if any(m.verb == verb for m in entries):
            raise UnknownMethodError(
                f"{verb!r} is a verb, not a method. Its methods: {', '.join(method_names(verb))}"
            )
        near = next(filter(None, (_close_method(v, name, method_names(v)) for v in verbs)), "")
        raise UnknownMethodError(
            f"Unknown method: {shown(name)}.{did_you_mean(name, names) or near}\n"
            f"  Known: {', '.join(names)}."
        )
    listed = [(m.verb, o.name, o.default, o._expected(), o.doc) for m in chosen for o in m.options]
    return OptionTable(listed, columns=["verb", "option", "default", "type", "doc"], dtype=object)


# -- Options that several rooms share, as data.


def one_of(name: str, doc: str, *words: str, default: str | None = "") -> Option:
    """Return an option that takes one of some strings, the first by default."""
    return Option(name, doc, words[0] if default == "" else default, str, choices=words)


def share(name: str, doc: str, default: float) -> Option:
    """Return an option that takes a number between 0 and 1."""
    return Option(name, doc, default, float, lower=0.0, upper=1.0)


def positive(name: str, doc: str, default: float | None = None) -> Option:
    """Return an option that takes a positive number, or None where that is the default."""
    return Option(name, doc, default, float, lower=0.0)


def automatic(name: str, doc: str) -> Option:
    """Return an option that takes a positive number, or 'auto'."""
    return Option(name, doc, "auto", (float, str), choices=("auto",), lower=0.0)


STAGES = Option(
    "stages", "1, 2 or 'auto' (by a public rule)", "auto", (int, str), choices=("auto",), lower=0,
    upper=3,
)  # fmt: skip

SHRINK = Option("shrink", "shrink the public moments to their diagonal; None: by rule", None, bool)

PHI = positive("phi", "tolerated ratio of privacy to sampling variance (radius rule)", 0.1)

PUBLIC_RADIUS = Option(
    "radius", "radius of the rows: a number, 'loo', 'paper'; None: by rule", None, (float, str),
    choices=("loo", "paper"), lower=0.0,
)  # fmt: skip

GUESS = Option("n_guess", "public guess of the row count (add-remove)", None, int, lower=0)

#: Share of a budget for estimating ranges, where ``bounds_share=`` does not say another.
RANGES_SHARE = 0.15
BOUNDS_SHARE = share("bounds_share", "share of the budget for estimating ranges", RANGES_SHARE)

STOP = Option(
    "stop",
    "look first: stop where too few rows are usable (True: below a tenth, or a share), name the "
    "variables to blame, and give the rest of the charge back; False: no look; None: look, but "
    "not with split=", None, (bool, float), lower=0.0, upper=1.0,
)  # fmt: skip

PERSON_WEIGHTS = Option(
    "person_weights",
    "'equal': with unit= each person counts once, each of T rows as 1/T; None: all rows count "
    "equally", None, str, choices=("equal",),
)  # fmt: skip

ORDER_OPTION = Option(
    "public_order",
    "say that the order of the rows tells nothing of their cells (it is not sorted by one, say): "
    "the first of two stages of a large table may then read a part of the rows", False, bool,
)  # fmt: skip
PUBLISHED = (
    positive("eta", "failure probability of the truncation radius", 0.05),
    positive("rho", "total zCDP budget; eps must cover it"),
)

PMT_PAPER = "Enhancing Differentially Private Linear Regression via Public Second-Moment"

#: Bound on rows in half-ranges, with intercept 1.
WORKING_RADIUS = positive("radius", "bound on the norm of a working row")


def scoring_method(
    verb: str, backend: Backend, reference: str, proof: str, *options: Option
) -> Method:
    """Return the entry of private Fisher scoring for a function, with its options first."""
    return Method(
        name="scoring",
        verb=verb,
        title="Private Fisher scoring",
        backend=backend,
        proof=proof,
        needs=("delta > 0", "several passes"),
        relations=("replace", "add-remove"),
        reference=f"theory note scoring/theory.md; {reference}",
        options=(*options, PERSON_WEIGHTS, ORDER_OPTION, GUESS, BOUNDS_SHARE, STOP),
        accepts=("weights", "design", "public"),
        aside=True,
        foretells=True,
    )
