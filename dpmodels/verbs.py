"""The verbs as data: one record each, read by calls, plans, tables, files and plots.

A new verb is one record here, a room of models, and its function in ``api/``. A third party adds
one with :func:`register_verb`.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

#: New releases about a fit, by name, which a result requests from the top layer. As with the
#: functions of a verb, the path is text, which the check of the wall follows.
_NEW_RELEASES = {
    "score": "dpmodels.api.followups:score",
    "diagnose": "dpmodels.api.followups:diagnose",
    "update": "dpmodels.api.followups:update",
    "means": "dpmodels.api.followups:means",
    "cox_zph": "dpmodels.api.followups:cox_zph",
    "survdiff": "dpmodels.api.survival:survdiff_of",
}


@dataclass(frozen=True)
class Verb:
    """The record of one verb."""

    name: str  # ``"dp_ols"``
    title: str  # Completes "Differentially private ..."
    # Builder in ``dpmodels.formula``: "build_design" (a response and predictors) or
    # "build_mean_design" (columns only).
    design: str = "build_design"
    design_options: Mapping[str, Any] = field(default_factory=dict)  # Its options
    # Loss on a noised table: a name of ``models/noised``, "family" (of the option ``family``) or
    # "option" (the option ``loss``). Empty: the verb takes no noised table.
    loss: str = ""
    default: str = ""  # Its default method; empty: the first that was registered
    # mapping of str to (str, mapping): the field's words for a method: which it is, and the options
    # that they mean.
    also_called: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    because: str = ""  # Why its default method is the default, for the reasons of a fit
    with_public: str = ""  # Default method where public data are given; empty: as without
    instead: str = ""  # Method that takes the place of the default without inference
    # ``"package.module:function"``, imported on first use; called as ``function(fit, new, what=,
    # interval=, level=, se_fit=, outside=)``. Empty: no ``predict``.
    predict: str = "dpmodels.results.effects:regression"
    predict_words: tuple[str, ...] = ()  # Further arguments of its ``predict``, such as ``times=``
    # Name of the link that ``dpmodels.results.effects:regression`` inverts ("identity", "logit",
    # "log"); a method option called ``link`` wins.
    link: str = "identity"
    estimates: str = "Estimate"  # Header of the column of estimates
    count: str = "Coefficients"  # Label in the header of the length of ``params``
    # tuple of (str, str): further header pairs: label -> name of an entry of ``Estimate.stats``.
    header: tuple[tuple[str, str], ...] = ()
    # tuple of (str, str): further header pairs: label -> method option that makes the model what it
    # is.
    says: tuple[tuple[str, str], ...] = ()
    # Things a reader of such a table looks for, on which nothing was spent.
    absent: tuple[str, ...] = ()
    # ``"package.module:function"`` of its picture, called as ``function(fit, ax, level=)``.
    plot: str = "dpmodels.results.plot:coefplot"
    # ``"package.module:function"`` for verbs whose arguments are not those of a formula fit:
    # ``function(formula, method, options, inference, delta)`` returns the (formula, method,
    # options, reasons) that the verb itself would use, for ``plan()``.
    arguments: str = ""
    # ``"package.module:function"`` of the part of its summary in place of a table of coefficients:
    # ``function(record, digits, level) -> Table``. The sentences about coefficients are then left
    # out. Empty: coefficients.
    body: str = ""
    # ``"package.module:function"`` of tables below that of coefficients: ``function(record,
    # digits)``. Empty: none.
    tables: str = ""
    # Likewise of ``fit.tidy()``: ``function(record, conf_int, level)``, a frame with our names.
    tidy: str = ""
    # Class of its fits in ``dpmodels.results.fit``: what they can do. Empty: "Regression" where
    # predictions are those of one, "Predictor" where it has others, else "Estimates".
    kind: str = ""

    def link_name(self, options: Mapping[str, Any]) -> str:
        """Return the name of the link in force."""
        return str(options.get("link") or self.link)

    def mean(self, eta: Any, options: Mapping[str, Any]) -> Any:
        """Return the mean at a linear predictor."""
        from dpmodels.families import LINKS

        return LINKS[self.link_name(options)].inverse(eta)

    def load(self, what: str) -> Callable[..., Any] | None:
        """Import the function that a field of this record names, if any."""
        path = getattr(self, what)
        return function_of(path) if path else None


def new_release(name: str) -> Callable[..., Any]:
    """Return the function of the top floor that makes a new release about a fit."""
    return function_of(_NEW_RELEASES[name])


def function_of(path: str) -> Callable[..., Any]:
    """Import the function named by ``"package.module:name"``."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


_COLUMNS = "build_mean_design"
_TABLES = "dpmodels.models.table."
_SURVIVAL = "dpmodels.models.survival."
_WITHIN = "dpmodels.results.kinds:"
#: Header of a test.
_VERDICT = (("Statistic", "statistic"), ("Degrees of freedom", "df"), ("P-value", "p_value"))
_VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb(
            "dp_ols",
            "linear regression",
            kind="LinearRegression",
            loss="squared",
            default="ssp",
            also_called={"scoring": ("ssp", {}), "moments": ("ssp", {"scoring": False})},
            because="the most accurate without public data",
            with_public="pmt",
            header=(("R-squared", "r_squared"), ("Residual sd", "sigma")),
            absent=("R-squared", "residuals"),
        ),
        Verb(
            "dp_iv",
            "two-stage least squares",
            header=(("Residual sd", "sigma"),),
            absent=("residuals", "overidentification test"),
        ),
        Verb(
            "dp_glm",
            "generalised linear model",
            design_options={"response_ok": "event"},
            loss="family",
            default="scoring",
            because="with standard errors near the non-private ones",
            instead="objpert",
            link="logit",
            says=(("Family", "family"), ("Link", "link")),
            header=(
                ("Events", "events"),
                ("Dispersion", "dispersion"),
                ("Alpha", "alpha"),
                ("Deviance", "deviance"),
                ("Null deviance", "null_deviance"),
                ("Pseudo R-squared", "pseudo_r2"),
                ("AIC", "aic"),
            ),
            absent=("deviance", "pseudo R-squared", "residuals"),
        ),
        Verb(
            "dp_quantreg",
            "quantile regression",
            arguments="dpmodels.api.regressions:quantreg_arguments",
            kind="QuantileRegression",
            default="scoring",
            loss="quantile",
            predict="dpmodels.results.effects:predict_quantiles",
            says=(("Quantile", "tau"),),
            absent=("residuals", "pseudo R-squared"),
        ),
        Verb(
            "dp_mest",
            "M-estimation",
            loss="option",
            default="scoring",
            says=(("Loss", "loss"),),
            absent=("residuals",),
        ),
        Verb(
            "dp_mean",
            "means",
            default="clipped",
            arguments="dpmodels.api.multivariate:columns_arguments",
            kind="Averages",
            design=_COLUMNS,
            predict="",
            estimates="Mean",
            count="Means",
        ),
        Verb(
            "dp_bayes",
            "Gaussian Bayes classifier",
            kind="Classifier",
            design_options={"response_ok": "levels"},
            predict="dpmodels.results.effects:predict_class",
            count="Parameters",
            absent=("training error", "class counts without noise"),
        ),
        Verb(
            "dp_npreg",
            "kernel regression",
            kind="Curve",
            predict="dpmodels.models.kernel:predict_curve",
            plot="dpmodels.models.kernel:plot_curve",
            count="Points",
            absent=("residuals", "cross-validated bandwidth"),
        ),
        Verb(
            "dp_moments",
            "second moments",
            arguments="dpmodels.api.multivariate:columns_arguments",
            kind="Moments",
            because="the most accurate for regressions without public data",
            design=_COLUMNS,
            predict="",
            estimates="Moment",
            count="Moments",
            absent=("sampling errors",),
            with_public="pmt",
        ),
        Verb(
            "dp_pca",
            "principal components",
            arguments="dpmodels.api.multivariate:columns_arguments",
            kind="Components",
            design=_COLUMNS,
            predict="",
            estimates="Loading",
            count="Loadings",
        ),
        Verb(
            "dp_table",
            "table",
            kind="Tabulation",
            design="build_cell_design",
            predict="",
            count="Statistics",
            arguments="dpmodels.api.tables:table_arguments",
            plot=_TABLES + "plots:plot_table",
            body=_TABLES + "show:body",
            tidy=_TABLES + "show:tidy",
        ),
        Verb(
            "dp_quantile",
            "quantiles",
            kind="Quantiles",
            design="build_cell_design",
            predict="",
            count="Quantiles",
            arguments="dpmodels.api.tables:quantile_arguments",
            plot=_TABLES + "plots:plot_quantiles",
            body=_TABLES + "show:quantile_body",
            tidy=_TABLES + "show:quantile_tidy",
        ),
        Verb(
            "dp_test",
            "test",
            kind="TestResult",
            default="score",
            design="build_cell_design",
            predict="",
            count="Estimates",
            arguments="dpmodels.api.tables:plan_arguments",
            header=_VERDICT,
            body=_TABLES + "show:verdict_body",
            tidy=_TABLES + "show:verdict_tidy",
        ),
        Verb(
            "dp_survfit",
            "survival curves",
            kind="SurvivalCurves",
            design="build_survival_cells",
            predict="",
            estimates="Survival",
            count="Points",
            header=(("Events", "events"),),
            plot=_SURVIVAL + "show:plot_curves",
            body=_SURVIVAL + "show:body",
            tidy=_SURVIVAL + "show:tidy",
        ),
        Verb(
            "dp_survdiff",
            "log-rank test",
            kind="TestResult",
            design="build_survival_cells",
            predict="",
            count="Groups",
            header=_VERDICT,
            body=_SURVIVAL + "show:verdict_body",
            tidy=_SURVIVAL + "show:verdict_tidy",
        ),
        Verb(
            "dp_coxph",
            "proportional hazards",
            design="build_survival_design",
            kind="Hazards",
            predict=_WITHIN + "hazards",
            predict_words=("times",),
            estimates="log HR",
            header=(("Events", "events"), ("Concordance", "concordance")),
        ),
        Verb(
            "dp_polr",
            "proportional odds regression",
            kind="OrderedChoice",
            arguments="dpmodels.api.regressions:choice_arguments",
            design_options={"response_ok": "levels"},
            predict="dpmodels.models.choice:predict",
            says=(("Link", "link"),),
        ),
        Verb(
            "dp_multinom",
            "multinomial logit",
            kind="Choice",
            design_options={"response_ok": "levels"},
            predict="dpmodels.models.choice:predict",
        ),
        Verb(
            "dp_feols",
            "linear regression with effects of people",
            kind="Effects",
            says=(("Random by", "re"),),
            header=(
                ("var(random)", "sigma_u2"),
                ("var(error)", "sigma_e2"),
                ("ICC", "icc"),
            ),
            predict=_WITHIN + "within",
            arguments="dpmodels.api.regressions:panel_arguments",
        ),
        Verb(
            "dp_fepois",
            "Poisson regression with effects of people",
            kind="Effects",
            predict=_WITHIN + "within",
            link="log",
            arguments="dpmodels.api.regressions:panel_arguments",
        ),
        Verb(
            "dp_ate",
            "average treatment effect",
            kind="TreatmentEffect",
            predict="",
            count="Estimates",
            arguments="dpmodels.api.treatment:plan_arguments",
            says=(
                ("Treatment", "treatment"), ("Estimand", "estimand"), ("Propensity", "propensity"),
            ),
            header=(
                ("Share treated", "share_treated"),
                ("Share clipped", "share_clipped"),
                ("Effective n, treated", "ess_treated"),
                ("Effective n, control", "ess_control"),
            ),
            plot="dpmodels.models.treatment.show:plot",
            tables="dpmodels.models.treatment.show:tables",
        ),
        Verb("dp_eptr", "estimate by Propose-Test-Release", design=_COLUMNS, predict=""),
        Verb("dp_gptr", "release of a user's mechanism", design=_COLUMNS, predict=""),
    )
}


def register_verb(verb: Verb) -> Verb:
    """Add the record of a verb (or replace it).

    Privacy
    -------
    Reads no data.
    """
    _VERBS[verb.name] = verb
    return verb


def verb_of(name: str) -> Verb:
    """Return the record of a verb; one that nobody registered gets a plain one."""
    return _VERBS.get(name) or Verb(name, f"{name.removeprefix('dp_')} fit")


# -- Paragraphs that the docstrings of verbs share, written once and put in their place


F = TypeVar("F", bound=Callable[..., Any])

_AS_IN = re.compile(r"As in :func:`(?:dpmodels\.)?(\w+)`[.;]? ?")
_PROMISE = re.compile(r"Privacy\n-------\nAs :func:`(?:dpmodels\.)?(\w+)`\.")


class _Entry(NamedTuple):
    """One entry of a section Parameters: names, the text after a colon, paragraphs."""

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
    """Return the text before the entries of Parameters, the entries, and the rest."""
    start, title, after = doc.partition("Parameters\n----------\n")
    section, gap, sections = after.partition("\n\nReturns\n")
    return start + title, section, gap + sections


def like(*others: Callable[..., Any]) -> Callable[[F], F]:
    """Copy the paragraphs of arguments that another function documents.

    Of another verb's paragraphs the first is meant; those behind a blank line are its own. What a
    docstring adds behind ``As in`` is said of the last name of its entry.
    """
    sources = {other.__name__: other for other in others}
    entries = {name: list(_entries(_split(inspect.getdoc(other) or "")[1]))
               for name, other in sources.items()}  # fmt: skip

    def write(function: F) -> F:
        if not function.__doc__:  # python -OO
            return function
        start, section, ending = _split(inspect.cleandoc(function.__doc__))
        out = []
        for entry in _entries(section):
            reference = _AS_IN.match(entry.body)
            if reference is None:
                out.append(entry)
                continue
            shared = []
            for source in entries[reference[1]]:
                names = tuple(name for name in source.names if name in entry.names)
                if names:
                    shared.append(_Entry(names, source.kind, source.body.split("\n\n")[0]))
            missing = set(entry.names).difference(*(entry.names for entry in shared))
            if missing:
                raise ValueError(f"{reference[1]} says nothing of {sorted(missing)}")
            added = entry.body[reference.end():]
            if added:
                last = next(k for k, copied in enumerate(shared) if entry.names[-1] in copied.names)
                body = textwrap.fill(f"{shared[last].body} {added}", 92, break_on_hyphens=False)
                shared[last] = shared[last]._replace(body=body)
            out += shared
        if promise := _PROMISE.search(ending):  # the section Privacy of another verb
            theirs = inspect.getdoc(sources[promise[1]]) or ""
            sections = re.split(r"\n\n(?=\w+\n---)", theirs)
            section = next(paragraph for paragraph in sections if paragraph.startswith("Privacy\n"))
            ending = ending[: promise.start()] + section + ending[promise.end() :]
        function.__doc__ = start + "\n".join(entry.text() for entry in out) + ending
        return function

    return write
