"""Several fits: side by side, nested, or in one picture; and the guarantee of them together."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmodels.after.moments import score
from dpmodels.errors import NotReleasedError, RequestError, choice, did_you_mean
from dpmodels.lazy import pd
from dpmodels.results import inference
from dpmodels.results import inference as f
from dpmodels.results.capabilities import Intervals
from dpmodels.results.factors import hidden, references, rows_of_effects
from dpmodels.results.fit import Fit
from dpmodels.results.inference import (
    AnovaTable,
    Labels,
    all_labels,
    anova_table,
    checked_errors,
    chosen,
    greek,
    joint_test,
    labelled,
    pair,
    plain_name,
)
from dpmodels.results.joint import adjusted_of_fits
from dpmodels.results.moments import moments_of
from dpmodels.results.record import has_method_test
from dpmodels.results.summary import STARS, response_of
from dpmodels.tables.content import RULE, Column, Layout, Row
from dpmodels.tables.markup import ascii_text
from dpmodels.tables.numbers import by_row, number, places
from dpmodels.tables.table import SUFFIXES, Result, Table, also, check_file, forest, grid, write_as
from dpmodels.units import column_of

#: Other names of the types, as in ``summary(fmt)``.
_ALSO = {"markdown": "md", "latex": "tex"}
_ETABLE_LAYOUT = Layout(width=0, grows=True, outer="-", mark="", wrap=True, notes=76)
#: Signs of a label of the schema above a column, at most.
_LONGEST_HEAD = 24
TYPES = ("text", "md", "html", "tex", "df")
_DEFAULT_STATS = ("nobs", "eps_delta", "relation")
_LABELS = {
    "nobs": "Observations",
    "eps_delta": "ε, δ",
    "eps": "ε",
    "delta": "δ",
    "relation": "Neighbours",
    "reply": "Reply",
    "method": "Method",
    "df": "Coefficients",
    "row_norm_bound": "Row norm bound",
    "level": "Level",
    "formula": "Formula",
    "sigma": "Residual std. dev.",
    "r_squared": "R²",
    "adj_r_squared": "Adjusted R²",
}


_ARGUMENTS = ("type", "se", "stats", "digits", "labels", "order", "keep", "drop", "stars", "title",
              "file", "headers", "exponentiate", "adjust")  # fmt: skip
#: Argument names of fixest, modelsummary and stargazer -> the argument here.
_MEANT = {
    **dict.fromkeys(("coef_map", "coef_rename", "dict", "covariate_labels"), "labels={'x': '...'}"),
    **dict.fromkeys(("coef_omit", "omit"), "drop='region'"),
    **dict.fromkeys(("output", "format", "fmt"), "type='tex', or file='table.tex'"),
    **dict.fromkeys(("gof_map", "fitstat", "gof_omit", "statistics"), "stats=['nobs', 'sigma']"),
    **dict.fromkeys(("names", "model_names", "column_labels"), "headers=['First', 'Second']"),
    **dict.fromkeys(("vcov", "cluster", "robust"), "no kind of error: it is that of each fit"),
    **dict.fromkeys(("exp", "eform", "exponentiated"), "exponentiate=True"),
    **dict.fromkeys(("se_type", "std_error", "statistic"), "se='total', or se='split'"),
}


@dataclass(frozen=True, eq=False, repr=False)
class Etable(Result):
    """A table of fits, all text."""

    # One a fit: number with method, response, and what else makes the model what it is, a line
    # each.
    fits: tuple[str, ...]
    # Two a coefficient (estimates, and brackets with intervals or errors), a rule, and the facts of
    # the fits.
    rows: tuple[Row, ...]
    notes: tuple[str, ...]  # The last is the guarantee of the table
    title: str
    numbers: Any  # The numbers behind the text: ``tidy()`` of each fit, with a column ``model``
    exponentiated: bool = False  # The numbers are ratios
    guarantees: tuple[Any, ...] = ()  # Those of the fits

    def table(self) -> Table:
        """Return the table: a bare one unless it has a title."""
        longest = max(len(ascii_text(row.cells[0])) for row in self.rows if row.cells)
        names = Column(left=True, width=max(16, longest + 1))
        columns = (names, *(Column(label, width=14) for label in self.fits))
        return grid(
            columns, self.rows, title=self.title, notes=self.notes, layout=_ETABLE_LAYOUT
        )

    def tidy(self) -> Any:
        """Return the numbers of all fits, one row per coefficient of a model."""
        return self.numbers.copy()

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the coefficients of all fits, aligned by name (needs matplotlib)."""
        slopes = self.numbers[self.numbers["term"] != "Intercept"]
        frame = slopes if len(slopes) else self.numbers
        if self.exponentiated:
            style = {"zero": 1.0, "xlabel": "ratio", **style}
        return forest(frame, ax, by="model", **style)

    @also.method
    def to_frame(self) -> Any:
        """Return the table as a DataFrame of text; the notes are in ``attrs["notes"]``."""
        lines = [row.cells for row in self.rows if row.cells]
        columns = pd.MultiIndex.from_tuples([tuple(fit.split("\n")) for fit in self.fits])
        index = [name for name, *_ in lines]
        frame = pd.DataFrame([cells[1:] for cells in lines], index=index, columns=columns)
        frame.attrs["notes"] = list(self.notes)
        return frame


def etable(
    *fits: Any,
    type: str | None = None,
    se: str = "ci",
    stats: Sequence[str] | None = None,
    digits: int = 3,
    labels: Labels = "schema",
    order: Any = None,
    keep: Any = None,
    drop: Any = None,
    stars: bool = False,
    title: str = "",
    file: Any = None,
    headers: Any = None,
    exponentiate: bool = False,
    adjust: str | None = None,
    **other: Any,
) -> Any:
    """Show several fits side by side.

    Coefficients ``C(g)[T.x]`` and ``g[T.x]`` are one row. A heading is number, response and model.

    Parameters
    ----------
    *fits : Fit, or a list of them
        ``etable(m1, m2)`` and ``etable([m1, m2])`` are the same; a text behind them is ``type``.
    type : {"text", "md", "html", "tex", "df"}, optional
        None: an object that prints as text and shows as HTML in a notebook. Else a string, or
        a DataFrame for ``"df"``.
    se : {"ci", "total", "split"}
        In brackets under an estimate: its interval, its standard error (without bias), or both
        parts of that, ``(sampling|privacy)``.
    stats : list of str, optional
        Lines under the coefficients: "nobs", "eps_delta", "relation", "reply", "method", "df",
        or any column of ``fit.glance()``.
    digits : int
        Decimals; a row has more where its standard error would show fewer than two digits.
    labels : mapping or "schema", optional
        Coefficient (or part of an interaction, or response) -> what is printed; "schema": the
        labels of the schema; None: names as typed.
    order, keep, drop : str or list of str, optional
        Coefficients, or regular expressions of them: these first, only these, all but these.
    stars : bool
        Significance stars, with their legend. After a search over models they mean little.
    title : str
    file : path, optional
        Write the table there: ``.tex``, ``.html``, ``.md``, ``.txt`` or ``.docx`` (needs
        python-docx).
    headers : list of str, or mapping of str to int, optional
        Above the heading of each fit: one text a fit, or text -> how many fits it stands above.
    exponentiate : bool
        Odds, rate and hazard ratios: exp of the coefficients, and below them their intervals.
    adjust : {"BH", "BY", "holm", "bonferroni"}, optional
        Adjust P (stars, and ``tidy()``) over the shown coefficients of each fit; of tests
        (``dp_test``), over the tests of the table.

    Returns
    -------
    Etable, str or DataFrame

    Privacy
    -------
    Post-processing: costs nothing. The last line is the guarantee of all fits of the table
    together, if they were made from the same data.
    """
    for name in other:
        meant = _MEANT.get(name, "")
        hint = f" Type {meant}" if meant else did_you_mean(name, _ARGUMENTS)
        raise RequestError(f"etable has no argument {name!r}.{hint}")
    listed = list(fits)
    if listed and isinstance(listed[-1], str):
        if type is not None:
            raise RequestError("etable accepts one type: etable([fit1, fit2], type='tex')")
        type = str(listed.pop())
    shown_fits = fits_of("etable", listed)
    type = _ALSO.get(type or "", type)
    choice("se", se, ("ci", "total", "split"))
    advice = " A Word file: file='table.docx'" if type in ("word", "docx") else ""
    choice("type", type or "text", TYPES, more=advice)
    path = None if file is None else check_file(file)
    if exponentiate and se != "ci":
        raise RequestError("exponentiate=True shows intervals of ratios in brackets: leave se= out")
    names = chosen(shared_names(shown_fits), order=order, keep=keep, drop=drop)
    typed, labels = labels, all_labels(labels, *shown_fits)
    heads = _heads(shown_fits, _head_labels(typed, labels), headers)
    tests, note = _adjusted(shown_fits, names, adjust)
    both = list(zip(shown_fits, tests, strict=True))
    columns = [_cells(fit, se, digits, stars, exponentiate, p) for fit, p in both]
    rows = [
        Row((text, *(column.get(plain_name(name), ("-", ""))[k] for column in columns)))
        for name in names
        for k, text in enumerate((labelled(name, labels), ""))
    ]
    facts = [
        Row((_label(key, shown_fits), *(_stat(fit, key, digits, p) for fit, p in both)))
        for key in (_default_stats(shown_fits) if stats is None else stats)
    ]
    table = Etable(
        heads,
        (*rows, RULE, *rows_of_effects(shown_fits), *facts),
        (*note, *_notes(shown_fits, se, stars, exponentiate)),
        str(title),
        _numbers(shown_fits, names, exponentiate, tests if note else None),
        exponentiate,
        tuple(fit.privacy for fit in shown_fits),
    )
    if path is not None:
        write_as(table, SUFFIXES[path.suffix.lower()], path)
    if type is None:
        return table
    return table.to_frame() if type == "df" else table.render(type)


def _adjusted(
    fits: Sequence[Any], names: Sequence[str], adjust: str | None
) -> tuple[list[Any], tuple[str, ...]]:
    """Return the P values of each fit (None: as they are), and the note on their adjustment."""
    if adjust is None:
        return [None] * len(fits), ()
    tests, note = adjusted_of_fits(fits, names, adjust)
    return tests, (note,)


def _numbers(
    fits: Sequence[Any], names: Sequence[str], exponentiate: bool, tests: Any = None
) -> Any:
    """Return the tidy frames of all fits, one below the other, with the shown coefficients."""
    how: dict[str, Any] = {"exponentiate": True} if exponentiate else {}
    frames = [
        fit.tidy(style="python", **how).assign(model=f"({k})") for k, fit in enumerate(fits, 1)
    ]
    for frame, p in zip(frames, tests or (), strict=False):
        frame["p_value"] = p
    numbers = pd.concat(frames, ignore_index=True)
    shared = {plain_name(name): name for name in names}
    numbers["term"] = [shared.get(plain_name(str(n)), n) for n in numbers["term"]]
    return numbers[numbers["term"].isin(names)].reset_index(drop=True)


def _notes(fits: Sequence[Any], se: str, stars: bool, exponentiate: bool) -> tuple[str, ...]:
    """Return the notes of a table: meaning of brackets, methods, joint guarantee."""
    biased = any(fit._record.estimate.bias is not None for fit in fits)
    levels = ", ".join(dict.fromkeys(f"{100 * fit.level:g} %" for fit in fits))
    notes = [f"{levels} intervals in brackets."]
    if exponentiate:
        notes = [f"Ratios: exp of the coefficients; {levels} intervals in brackets."]
    elif se != "ci":
        which = " (sampling | privacy)" if se == "split" else ""
        notes = [f"Std. errors in brackets{which}{'; bias is not in them' if biased else ''}."]
    notes += [STARS] if stars else []
    if biased and (se == "ci" or stars):
        notes.append("Intervals and P allow for possible clipping bias.")
    ran: dict[str, list[str]] = {}
    for k, fit in enumerate(fits, 1):
        name = fit.facts.title
        ran.setdefault(name[:1].lower() + name[1:], []).append(f"({k})")
    methods = "; ".join(f"{', '.join(listed)} {name}" for name, listed in ran.items())
    base = references(*(fit._record for fit in fits), labels=True)
    notes += [f"Reference levels: {base}."] if base else []
    return (*notes, f"Method: {methods}.", joint_line(fits))


def fits_of(verb: str, arguments: Iterable[Any]) -> list[Any]:
    """Return the fits of a call, given one by one, in a list, or both; raise for anything else."""
    fits: list[Any] = []
    for argument in arguments:
        several = isinstance(argument, Iterable) and not (
            isinstance(argument, (Fit, str)) or hasattr(argument, "columns")
        )
        for fit in argument if several else [argument]:
            if not isinstance(fit, Fit):
                raise RequestError(
                    f"{verb} needs fits, got {fit.__class__.__name__}: {verb}(fit1, fit2), or a "
                    "list of them"
                )
            if not isinstance(fit, Intervals):
                raise RequestError(f"{verb} needs fits with coefficients, not a {fit.model}")
            fits.append(fit)
    if not fits:
        raise RequestError(f"{verb} needs fits (at least one fit): {verb}(fit1, fit2)")
    return fits


def shared_names(fits: Iterable[Any]) -> list[str]:
    """Return the coefficients of all fits, each under the name that it has first."""
    names: dict[str, str] = {}
    for fit in fits:
        gone = hidden(fit._record)  # fixed effects are one line each
        for name in (n for n in fit._record.estimate.names if n not in gone):
            names.setdefault(plain_name(name), name)
    return list(names.values())


def _head_labels(typed: Labels, labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return labels of columns; long ones of the schema, which make a column wide, are left out."""
    if typed != "schema":
        return labels
    return {name: text for name, text in labels.items() if len(text) <= _LONGEST_HEAD}


def _heads(fits: Sequence[Any], labels: Mapping[str, str] | None, headers: Any) -> tuple[str, ...]:
    """Return the heads: the text of ``headers=``, number, response, and kind of model."""
    heads = []
    for k, (fit, over) in enumerate(zip(fits, _above(headers, len(fits)), strict=True), 1):
        options = [(label, key, fit.facts.options.get(key)) for label, key in fit.kind.says]
        words = [
            f"{key} = {value}" if label == "Quantile" else str(value)
            for label, key, value in options
            if value is not None
        ]  # "binomial, logit", "tau = 0.5", else "linear regression"
        what = ", ".join(words) or str(fit.kind.title)
        heads.append("\n".join([*over, f"({k})", labelled(response_of(fit._record), labels), what]))
    return tuple(heads)


def _above(headers: Any, fits: int) -> list[list[str]]:
    """Return the lines of ``headers=`` above each fit."""
    if headers is None:
        return [[] for _ in range(fits)]
    if isinstance(headers, Mapping):
        counts = list(headers.values())
        if not all(isinstance(n, int) and n > 0 for n in counts) or sum(counts) != fits:
            raise RequestError(
                f"headers= gives the number of fits under each heading, and the numbers must sum "
                f"to {fits}, for example headers={{'All': {fits}}}"
            )
        return [[str(text)] for text, n in headers.items() for _ in range(n)]
    listed = [headers] if isinstance(headers, str) else list(headers)
    if len(listed) != fits:
        raise RequestError(
            f"headers= needs one heading per fit: {fits} fits, {len(listed)} headings. For one "
            "above several: headers={'Men': 2, 'Women': 1}"
        )
    return [[str(text)] for text in listed]


modelsummary = etable


def _default_stats(fits: Sequence[Any]) -> list[str]:
    """Return the lines under the coefficients; a reply is one where a test is part of a method."""
    tested = any(has_method_test(fit.privacy) for fit in fits)
    silent = any(not fit.released for fit in fits)
    return [*_DEFAULT_STATS, "reply"] if tested or silent else list(_DEFAULT_STATS)


def _label(key: str, fits: Sequence[Any]) -> str:
    """Return the name of a line: "People" instead of "Observations" if people are protected."""
    if key == "nobs":
        people = [column_of(fit.privacy.unit) is not None for fit in fits]
        if any(people):
            return "People" if all(people) else "Observations or people"
    return _LABELS.get(key, key)


def _cells(
    fit: Any, se: str, digits: int, stars: bool, exponentiate: bool, tests: Any = None
) -> dict[str, tuple[str, str]]:
    """Return plain coefficient name -> (estimate, bracket)."""
    est = fit._record.estimate
    names = [plain_name(name) for name in est.names]
    error, sampling, privacy = (inference.standard_errors(est, kind) for kind in inference.KINDS)
    error_shown = error if np.isfinite(error).any() else privacy
    params, (low, high) = np.asarray(est.params), inference.conf_int(est, fit.level)
    if exponentiate:
        params, low, high = np.exp(params), np.exp(low), np.exp(high)
        error_shown = np.abs(params) * error_shown
    few = places(error_shown, digits)

    def written(*parts: Any) -> list[tuple[str, ...]]:
        return list(zip(*(by_row(part, few, digits) for part in parts), strict=True))

    if se == "ci":
        brackets = [f"[{a}, {b}]" for a, b in written(low, high)]
    else:
        inside = written(error) if se == "total" else written(sampling, privacy)
        brackets = [f"({'|'.join(words)})" for words in inside]
    shown = [text for (text,) in written(params)]
    if stars:
        tests = inference.p_values(est) if tests is None else tests
        shown = [a + f.stars(p) for a, p in zip(shown, tests, strict=True)]
    return dict(zip(names, zip(shown, brackets, strict=True), strict=True))


def _stat(fit: Fit, key: str, digits: int, tests: Any = None) -> str:
    """Return a statistic of a fit as the text of a cell."""
    if key == "p_value" and tests is not None:
        return f.p_value(float(tests[0]))
    promise = fit.privacy
    words = {
        "eps_delta": f"{promise.eps:g}, {promise.delta:g}",
        "reply": "released" if fit.released else "NO REPLY",
        "nobs": "private" if fit.nobs is None else str(fit.nobs),
        "level": f"{fit.level:g}",
        "formula": fit.formula,
        "eps": f"{promise.eps:g}",
        "delta": f"{promise.delta:g}",
    }
    if key in words:
        return words[key]
    row = fit.glance().iloc[0]
    if key not in row.index:
        stats = [*words, *row.index]
        raise RequestError(f"stats: no {key!r} in {stats}.{did_you_mean(key, stats)}")
    value = row[key]
    if isinstance(value, str):
        return value
    return str(int(value)) if key == "df" else number(float(value), digits)


def joint_line(fits: Sequence[Fit]) -> str:
    """Return the sentence on the guarantee of all fits together.

    The sum of the pairs holds however the calls were chosen. The exact composition of the
    mechanisms is smaller, but holds only for parameters fixed before the first output.
    """
    promises = list({id(fit.privacy): fit.privacy for fit in fits}.values())
    seeded = [str(k) for k, fit in enumerate(fits, 1) if fit.privacy.seeded]
    if seeded:
        return f"NOT PRIVATE: the noise of fit {', '.join(seeded)} was seeded."
    if len(promises) == 1:
        return f"Privacy of the table: {greek(promises[0].statement())}."
    if len({(p.relation, p.unit) for p in promises}) > 1:
        return (
            "Fits on the same data add up; these promise privacy for different neighbours or "
            "units, so the table as a whole has no single statement."
        )
    from dpmodels.privacy.account import joint

    eps, delta = sum(p.eps for p in promises), sum(p.delta for p in promises)
    line = f"Fits on the same data add up: the table as a whole is {pair(eps, delta)}-DP"
    exact = joint(promises).eps_at(delta) + 5e-5  # shown rounded: to the side that stays true
    if exact < eps:
        line += f" (sums); {pair(round(exact, 4), delta)}-DP"
        line += " if all models were fixed beforehand"
    return line + "."


def anova(*fits: Any, test: str | None = None, typ: int = 3) -> AnovaTable:
    """Compare nested models, each with the one before it.

    Parameters
    ----------
    *fits : Fit, or a list of them
        From the smallest to the largest, at least two (one: its table of terms).
    test : {None, "score", "wald"}
        None: score tests where all fits come from one release of second moments
        (``dp_ols(formula, m)``), else Wald tests in the larger fit.
    typ : {3, 2, 1}
        Of the table of terms of one fit.

    Returns
    -------
    AnovaTable

    Privacy
    -------
    Post-processing: costs nothing. Residual sums of squares are not compared: their noise would
    make F reject true nulls in 8 to 95 of 100 tables.

    Examples
    --------
    >>> import warnings
    >>> import dpmodels as dp
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     m = dp.dp_moments("mdvis + physlm + disea", dp.datasets.rand_hie(), eps=2, delta=1e-6,
    ...                       seed=1)
    >>> table = dp.anova(dp.dp_ols("mdvis ~ disea", m), dp.dp_ols("mdvis ~ disea + physlm", m))
    >>> table.to_frame()["df"].tolist()
    [1]
    """
    choice("test", test, (None, "score", "wald"))
    fits = tuple(fits_of("anova", fits))
    for fit in fits:
        checked_errors(fit._record)
    if len(fits) == 1:
        return anova_table(fits[0]._record, typ)
    same = all(_one_release(fits[0], fit) for fit in fits[1:])
    if test == "score" and not same:
        raise RequestError(
            "test='score' needs fits from one release of second moments: "
            "m = dp.dp_moments(...), then dp.dp_ols(formula, m) for each"
        )
    rows = []
    by_score = same and test != "wald"
    for small, large in itertools.pairwise(fits):
        every, extra = large._record.estimate.names, _nested(small, large)
        places = [every.index(n) for n in extra]
        if by_score:
            joint: Any = _score_test(small, large, places)
        else:
            joint = joint_test(large._record, np.eye(len(every))[places], use_f=False)
        label = " < ".join(fit.formula.partition("~")[2].strip() for fit in (small, large))
        rows.append((label, joint.statistic, joint.df, joint.pvalue))
    if by_score:
        notes = ["Score tests from the smaller model: valid where the larger model is noisy."]
    else:
        notes = ["Wald tests in the larger model, noise included."]
        if not same:
            notes.append("Each fit is a separate release: the smaller one says which terms.")
    return AnovaTable("Nested models", tuple(rows), tuple(notes))


def _one_release(former: Fit, two: Fit) -> bool:
    """Return whether two fits were computed from one release of moments."""
    arrays = [fit._record.estimate.arrays for fit in (former, two)]
    if not all("functionals" in a for a in arrays):
        return False
    first, second = (np.asarray(a["released_moments"]) for a in arrays)
    return first.shape == second.shape and bool((first == second).all())


def _nested(small: Fit, large: Fit) -> list[str]:
    """Return the coefficients of the larger model that the smaller lacks, or refuse."""
    small_y, large_y = response_of(small._record), response_of(large._record)
    if small_y != large_y or small.model != large.model:
        raise RequestError(
            f"anova compares models of one response: {small.model}({small_y}) and "
            f"{large.model}({large_y})"
        )
    mine, theirs = small.design.schema, large.design.schema
    if small.nobs != large.nobs or any(mine[n] != theirs[n] for n in mine if n in theirs):
        raise RequestError(
            "anova compares fits on the same data: these have other rows or other declared ranges"
        )
    names, wide = small._record.estimate.names, large._record.estimate.names
    missing = [n for n in names if n not in wide]
    if missing:
        raise RequestError(
            f"not nested: {', '.join(missing)} of {small.formula!r} is not in {large.formula!r}. "
            "From the smallest to the largest: anova(small, large)"
        )
    extra = [n for n in wide if n not in names]
    if not extra:
        raise RequestError(f"{small.formula!r} and {large.formula!r} have the same coefficients")
    return extra


def _score_test(small: Fit, large: Fit, places: list[int]) -> Any:
    """Test the added terms of the larger of two fits on one release."""
    facts = moments_of(small._record)
    if facts.people:
        raise NotReleasedError(
            "a score test assumes independent rows, and these moments are of people with several "
            "rows: fit the data itself, dp_ols(formula, data, unit=...), whose errors allow it"
        )
    B2 = np.asarray(large._record.estimate.arrays["functionals"])[places]
    mine = np.asarray(small._record.estimate.arrays["functionals"])
    return score(facts.moments, mine[:-1], B2, mine[-1])
