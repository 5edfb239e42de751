"""``dp_release``: one noised table, any analysis afterwards."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpmodels.errors import NoReplyError, RequestError, shown
from dpmodels.private import answered, checked, row_count, rows_of
from dpmodels.request import check_eps_delta, check_n
from dpmodels.units.person import LEVELS, NO_PEOPLE, identifier_among

if TYPE_CHECKING:
    from dpmodels.models.noised.stage import TablePlan
    from dpmodels.models.noised.table import NoisyTable
    from dpmodels.schema import Schema

__all__ = ["dp_release", "load_release"]


def _formula(columns: Iterable[str], kinds: Mapping[str, str], public: tuple[str, ...]) -> str:
    """Return the one-sided formula of the noised columns."""
    terms = []
    for text in columns:
        if text in public:
            continue
        terms.append(f"`{text}`" if text in kinds and not text.isidentifier() else text)
    return "~ " + " + ".join(terms)


def _are_names(columns: Any) -> bool:
    """Return whether this is a list of names, and no column of cells."""
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        return False
    return type(columns).__name__ != "Series" and all(isinstance(c, str) for c in columns)


def _asked(columns: Any, kinds: Mapping[str, str], declared: Schema | None) -> list[str]:
    if columns is None:
        names = list(declared) if declared is not None else list(kinds)
    elif not _are_names(columns):
        raise RequestError(
            f"columns takes a list of names (or terms such as 'log(x)'), got {shown(columns)}"
        )
    else:
        names = list(columns)
    if not names:
        raise RequestError("a release needs at least one column")
    twice = sorted({c for c in names if names.count(c) > 1})
    if twice:
        raise RequestError(f"columns names {twice[0]!r} twice")
    return names


def _plan(
    source: Any,
    columns: Any,
    eps: float,
    delta: float,
    schema: Schema | None,
    bounds: Any,
    options: Mapping[str, Any],
    n: int | None,
) -> TablePlan:
    from dpmodels.api.building import check_columns
    from dpmodels.formula import build_design, needed_variables
    from dpmodels.models.noised.stage import Settings, plan_table
    from dpmodels.schema import declared_schema, schema_for

    settings = Settings.of(options)
    declared = declared_schema(schema, source.schema_attr)
    if declared is not None and declared.unit is not None:
        raise RequestError(NO_PEOPLE.format(declared.unit))
    public = settings.public_columns
    for name in public:
        if name not in source.kinds:
            from dpmodels.errors import did_you_mean

            raise RequestError(
                f"public_columns: the data has no column {shown(name)}."
                + did_you_mean(name, source.kinds)
            )
    asked = _asked(columns, source.kinds, declared)
    formula = _formula(asked, source.kinds, public)
    if formula == "~ ":
        raise RequestError("every column asked for is public: there is nothing to release")
    needed = needed_variables(formula, source.kinds)
    extra = [c for c in public if declared is not None and c in declared and c not in needed]
    full = schema_for(
        source.kinds, declared, bounds, [*needed, *extra], formula=formula, verb="dp_release"
    )
    design = build_design(formula, full, na="impute-midpoint", one_sided_ok=True)
    if bounds == "private":
        design = design.without_bounds()
    check_columns(design, formula)
    rows = row_count(source, n, next(iter(design.kinds)))
    if rows < 1:
        raise RequestError("the table has no rows")
    plan = plan_table(design, rows, eps, delta, settings, full)
    countable = [c for c, kind in source.kinds.items() if kind not in ("bool", "datetime")]
    name = identifier_among([*full, *countable]) if settings.unit == "record" else ""
    if not name:
        return plan
    said = (
        f"if {name} names people who may have several rows, a row is protected and they are not: "
        "make a table of one row a person first"
    )
    guarantee = replace(plan.guarantee, notes=(*plan.guarantee.notes, said))
    return replace(plan, guarantee=guarantee)


def _names(given: Any) -> bool:
    """Say whether something is a formula or a list of terms, and no table or path of one."""
    if isinstance(given, str):
        return "~" in given
    listed = isinstance(given, (list, tuple)) and bool(given)
    return listed and all(isinstance(x, str) for x in given)


def _ordered(formula: Any, data: Any, columns: Any) -> tuple[Any, list[str] | None]:
    """Return the table and its columns, in whichever order they were given."""
    said = isinstance(formula, str) and "~" in formula
    old = formula is not None and _names(data) and not isinstance(data, str)
    if old or (data is None and not said):
        formula, data = data, formula  # dp_release(data), dp_release(data, columns)
    if data is None:
        raise RequestError("dp_release needs a table: dp_release('~ x + z', data, eps=, delta=)")
    if formula is not None and columns is not None:
        raise RequestError("dp_release takes columns once: dp_release('~ x + z', data, ...)")
    given = columns if formula is None else formula
    if isinstance(given, str):
        left, tilde, right = (part.strip() for part in given.partition("~"))
        if tilde and left:
            raise RequestError(
                f"a release has no response: write all columns on the right, '~ {left} + {right}'"
            )
        return data, _terms_of(right if tilde else given)
    return data, None if given is None else list(given)


def _terms_of(text: str) -> list[str] | None:
    """Return the terms of a sum, those inside brackets left whole; None for a dot: all."""
    out, depth, start = [], 0, 0
    for k, letter in enumerate(f"{text}+"):
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0 and letter == "+":
            out.append(text[start:k].strip())
            start = k + 1
    out = [term for term in out if term]
    return None if out in (["."], []) else out


def dp_release(
    formula: Any = None,
    data: Any = None,
    *,
    columns: Any = None,
    eps: float,
    delta: float,
    schema: Schema | None = None,
    bounds: Mapping[str, tuple[float, float]] | str | None = None,
    level: str | None = None,
    unit: str | None = None,
    clear_prob: float = 0.0,
    allow_clear_records: bool = False,
    noise: str = "auto",
    blocks: Any = None,
    public_columns: Iterable[str] = (),
    keep_order: bool = False,
    budget: Any = None,
    seed: int | None = None,
    tight: bool = True,
    n: int | None = None,
) -> NoisyTable:
    """Release a noised table once; fit any model on it afterwards, as often as you like.

    Parameters
    ----------
    formula : str or list of str, optional
        Columns, or terms of the formula language: ``"~ x + log(z) + x:z"``, or a list of them,
        which are released as columns of their own. Left out, ``dp_release(data)``: all of the
        schema, else of the data.
    data : table
        As in ``dp_ols``.
    columns : list of str, optional
        The formula as version 0.1 took it: ``dp_release(data, columns)``, by place or by name.
    eps, delta : float
        The guarantee of the release. ``delta=0`` is possible for ``noise="laplace"`` (and for a
        single column) with all bounds declared.
    schema, bounds
        As in ``dp_ols``: undeclared ranges of numbers are bought, levels must be declared.
    level, unit : {"record", "attribute"}
        What is protected: a whole row, or one variable of it (synonyms).
    clear_prob : float
        Probability that a record is published UNPERTURBED. Not the delta of the guarantee. Above
        1/(10 n) it needs ``allow_clear_records=True``.
    noise : {"auto", "sl", "laplace", "gaussian"}
    blocks : list of lists of str, optional
        SL noise with one radius for each group of columns (eps and delta are split evenly).
    public_columns : list of str
        Published as they are: NOT PROTECTED.
    keep_order : bool
        True states that the order of the rows is public; otherwise they are permuted.
    budget : Budget, optional
    seed : int, optional
        For tests: the release is then NOT PRIVATE.
    tight : bool
        Calibrate SL noise exactly for the number of columns (else by the limit of many columns).
    n : int, optional
        Number of rows of a source that does not say it.

    Returns
    -------
    NoisyTable

    Privacy
    -------
    Unit: one row, or one attribute of a row (``level``). Neighbours: replace one row, n public;
    add/remove is not covered. Charged: (eps, delta), before any row is read. Public: column names,
    ranges, levels, n, noise scales, and every column in ``public_columns``. With declared bounds
    the guarantee holds record by record (local differential privacy).

    Notes
    -----
    The rows are read by this process, part after part, whatever is connected by ``dp.connect``:
    what is released is not a sum but every row, and noise is never drawn on a worker. A table that
    stays elsewhere (``dp.Elsewhere``) is refused before the charge.
    """
    from dpmodels.models.noised.grow import Origin
    from dpmodels.models.noised.stage import make_table
    from dpmodels.sources.adapt import as_source
    from dpmodels.sources.elsewhere import need_rows

    data, columns = _ordered(formula, data, columns)
    if hasattr(data, "__noisy_table__"):
        raise RequestError("the data is a release already: releasing it again is post-processing")
    if level is not None and unit is not None and level != unit:
        raise RequestError("level= and unit= are synonyms; give one of them")
    if unit is not None and unit not in LEVELS:
        raise RequestError(NO_PEOPLE.format(unit))
    eps, delta = check_eps_delta(eps, delta, allow_pure=True)
    checked(budget, seed)
    if n is not None:
        check_n(n)
    options = {
        "unit": level or unit or "record",
        "clear_prob": clear_prob,
        "allow_clear_records": allow_clear_records,
        "noise": noise,
        "blocks": blocks,
        "public_columns": public_columns,
        "keep_order": keep_order,
        "tight": tight,
    }
    source = as_source(data)
    need_rows(source, "dp_release")
    plan = _plan(source, columns, eps, delta, schema, bounds, options, n)
    label = f"dp_release({', '.join(plan.layout.names)})"
    rows = functools.partial(rows_of, source, plan.n)
    _, table = answered(label, plan, make_table, rows, budget, seed, what="the release is ")
    if table is None:
        raise NoReplyError(
            "no reply: the ranges of undeclared columns could not be found within the budget (a "
            f"valid private outcome). The full charge (eps = {plan.guarantee.eps:g}, delta = "
            f"{plan.guarantee.delta:g}) stands. Declare them: bounds={{'x': (0, 10)}}"
        )
    return replace(table, origins=(Origin(data),))


def load_release(path: Any) -> NoisyTable:
    """Load a release that ``rel.save(path)`` wrote.

    Privacy
    -------
    Costs nothing: the files hold released numbers and public facts.
    """
    from dpmodels.models.noised.table import NoisyTable

    return NoisyTable.load(path)
