"""``dp_levels``: the values of columns that occur often enough to be released, as levels."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpmodels import messages
from dpmodels.api.units import person_of
from dpmodels.door import checked, people_count, row_count, rows_of, run_stage
from dpmodels.errors import RequestError, UtilityWarning, did_you_mean, shown
from dpmodels.formula.schema import declared_schema
from dpmodels.formula.types import check_types
from dpmodels.levels import FoundLevels, LevelsPlan
from dpmodels.own.levels import release_levels
from dpmodels.quiet import tell
from dpmodels.records import check_eps_delta
from dpmodels.scoring.rules import STOP_SHARE
from dpmodels.sources.executors import need_rows
from dpmodels.sources.tasks import as_source
from dpmodels.variables import Levels, Text

if TYPE_CHECKING:
    from dpmodels.formula.schema import Schema
    from dpmodels.notes import Note
    from dpmodels.units import Person

__all__ = ["dp_levels"]


def dp_levels(
    columns: str | list[str],
    data: Any,
    *,
    eps: float,
    delta: float,
    other: str | None = None,
    missing: list[Any] | None = None,
    schema: Any = None,
    unit: str | None = None,
    units: int | None = None,
    budget: Any = None,
    seed: int | None = None,
) -> FoundLevels:
    """Release the values of columns that enough rows (or people) have, as levels for a schema.

    Parameters
    ----------
    columns : str or list of str
        Columns of text or codes of which nobody declared the levels.
    data : table
        Any table that ``data=`` of a verb takes.
    eps, delta : float
        Of the values of all columns together. ``delta`` must be above 0.
    other : str, optional
        Level that every other value counts as. Without it such a value is missing.
    missing : list, optional
        Codes that are no value.
    schema : Schema, optional
        Of the table; one that names the person (``unit=``) protects people.
    unit : str, optional
        The column that identifies the person: people are then protected, with all rows. A person
        with t values in a column adds 1/sqrt(t) to each, at most 16 of them.
    units : int, optional
        The declared number of people; default: counted, as it is public.
    budget : Budget, optional
        Charged before noise is drawn; that of a ``with budget:`` block, if there is one.
    seed : int, optional
        Makes the noise reproducible. The release is then NOT PRIVATE.

    Returns
    -------
    FoundLevels
        A mapping from column to ``dp.Levels``, commonest first; ``schema.update(found)`` puts them
        into a schema. It prints the values, their noisy counts and the threshold. A column of which
        fewer than two levels were found is not in the mapping.

    Privacy
    -------
    Unit: one row, or one person with all rows (``unit=``). Neighbours: one unit is replaced, the
    number of units is public. Charged: (eps, delta), before noise is drawn. A value that one row
    (one person) alone has is released with probability at most delta / 4; the set of released
    values is public, and so is each count, with noise.

    Examples
    --------
    >>> import warnings, dpmodels as dp
    >>> rows = {"job": ["nurse"] * 900 + ["clerk"] * 700 + ["astronaut"]}
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     found = dp.dp_levels("job", rows, eps=0.5, delta=1e-6, seed=1)
    >>> found["job"].levels
    ('nurse', 'clerk')
    """
    names = [columns] if isinstance(columns, str) else list(columns)
    return _release_levels(
        names, as_source(data), eps, delta, {}, other, missing, schema, budget, seed, unit, units
    )


def planned_levels(
    schema: Schema, names: list[str], n: int, eps: float, delta: float, unit: str | None
) -> tuple[Schema, float, float, str]:
    """Return a schema with two levels per unlisted variable, the remaining budget, and a note.

    The note of this plan without data is the number of rows (people) that a level needs.
    """
    paid = _EPS * eps, _DELTA * delta
    unit = schema.unit if unit is None else unit
    person = None if unit is None else person_of(unit)
    plan = LevelsPlan.of(tuple(names), ((),) * len(names), n, *paid, person=person)
    text = (
        f"levels of {', '.join(names)} are released first (eps = {paid[0]:g}, delta = "
        f"{paid[1]:g}): a level needs about {plan.tau:.0f} "
        f"{'people' if plan.most else 'rows'} to be found. The rest is planned with two levels "
        f"each, {MADE_UP[0]!r} and {MADE_UP[1]!r}"
    )
    return stand_in(schema, names), eps - paid[0], delta - paid[1], text


#: Levels by which a call is checked, or planned, before levels are estimated.
MADE_UP = ("level 1", "level 2")
#: Parts of eps and delta of a call with which the levels of its variables are estimated.
_EPS, _DELTA = 0.2, 0.25


def unlisted(formula: str, declared: Schema | None, options: Mapping[str, Any]) -> list[str]:
    """Return the variables whose levels must be estimated, from the formula and ``subset=``."""
    subset = options.get("subset")
    text = f"{formula} {subset}" if isinstance(subset, str) else formula
    return [
        name for name, v in ({} if declared is None else declared.variables).items()
        if isinstance(v, Levels) and not v.levels
        and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
    ]  # fmt: skip


def stand_in(declared: Schema, names: list[str]) -> Schema:
    """Return a schema with made-up levels, by which a call is checked before a charge."""
    return declared.update(**{name: Levels([*MADE_UP]) for name in names})


def with_levels(
    declared: Schema, names: list[str], source: Any, eps: float, delta: float, budget: Any,
    seed: int | None, options: Mapping[str, Any],
) -> tuple[Schema, float, float, Note]:  # fmt: skip
    """Return the schema with released levels, the eps and delta left, and a note on the charge.

    By basic composition: the charge of levels and that of the rest add up to (eps, delta). Where
    the released counts hold less than a tenth of the units the call stops, and charges no more.
    """
    if options.get("relation") not in (None, "replace"):
        raise RequestError(
            f"the levels of {names[0]!r} can be estimated under relation='replace' only: declare "
            "them"
        )
    if not source.rescannable:
        raise RequestError(
            f"the levels of {names[0]!r} are estimated in a separate pass, and an iterator gives "
            "its rows only once: pass a frame, a path, or a list of frames"
        )
    paid = _EPS * eps, _DELTA * delta
    variables = {name: declared[name] for name in names}
    unit = declared.unit if options.get("unit") is None else options["unit"]
    released = _release_levels(
        names, source, *paid, variables, None, None, None, budget, seed, unit, options.get("units")
    )
    lost = [name for name in names if name not in released]
    if lost:
        raise RequestError(
            f"fewer than two levels of {lost[0]!r} were found: no model can be fitted. The charge "
            f"for levels is not returned (eps = {paid[0]:g}, delta = {paid[1]:g}). Declare them "
            "from a codebook, or use a larger eps"
        )
    counted = "people" if released.people else "rows"
    shares = released.shares(released.n)
    least = min(shares, key=shares.__getitem__)
    if shares[least] < STOP_SHARE:
        raise RequestError(
            f"the levels of {least!r} that were found cover about {shares[least]:.0%} of the "
            f"{counted}: the others would be missing, so the call stops. The charge for levels "
            f"is not returned (eps = {paid[0]:g}, delta = {paid[1]:g}), the rest was not charged. "
            f"dp.Levels(other='other') makes one level of the others"
        )
    note = messages.LEVELS_CHARGED(
        columns=names, eps=paid[0], delta=paid[1], threshold=released.threshold, counted=counted,
        held=f"{shares[least]:.0%}", total_eps=eps, total_delta=delta,
    )  # fmt: skip
    return declared.update(released), eps - paid[0], delta - paid[1], note


def _check_columns(names: list[str], source: Any, person: Person | None) -> None:
    """Refuse columns that have no levels, and a table that people cannot be read from."""
    if not names or not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
        raise RequestError(
            "dp_levels needs a list of different columns: dp_levels(['region', 'job'], data)"
        )
    if person is not None and not source.rescannable:
        raise RequestError(
            "people are read twice, and an iterator gives its rows only once: pass a frame, a "
            "path, or a list of frames"
        )
    if person is not None and person.column in names:
        raise RequestError(f"{person.column!r} names people, and ids have no levels: leave it out")
    for name in names:
        if name not in source.kinds:
            close = did_you_mean(name, source.kinds)
            raise RequestError(f"the data has no column {shown(name)}.{close}")
    check_types(source.kinds, {name: Text() for name in names})
    for name in names:
        if source.kinds[name] == "datetime":
            raise RequestError(f"{name!r} is a date, which has no levels: dp.Date(...)")


def _release_levels(
    names: list[str], source: Any, eps: float, delta: float, variables: Mapping[str, Any],
    other: str | None, missing: list[Any] | None, schema: Any, budget: Any, seed: int | None,
    unit: str | None, units: int | None,
) -> FoundLevels:  # fmt: skip
    """Check, charge and release. ``variables``: those of the columns, if declared."""
    eps, delta = check_eps_delta(eps, delta, allow_pure=False)
    checked(budget, seed)
    need_rows(source, "dp_levels")
    declared = declared_schema(schema, source.schema_attr)
    unit = declared.unit if unit is None and declared is not None else unit
    person = person_of(unit, units, columns=source.kinds)
    _check_columns(names, source, person)
    if person is None:
        n = row_count(source, None, names[0], asks_n=False)
    else:
        n = people_count(source, person, public_n=True)
    if n < 1:
        raise RequestError("the table has no rows")
    others, words = {}, []
    for name in names:
        variable = variables.get(name)
        others[name] = other if variable is None else variable.other
        codes = missing if variable is None else variable.missing
        words.append(tuple(str(code).strip() for code in codes or ()))
    plan = LevelsPlan.of(
        tuple(names), tuple(words), n, eps, delta, seeded=seed is not None, person=person
    )
    label = f"dp_levels({', '.join(names)})"
    rows = functools.partial(rows_of, source, n, person=person)
    _, counts = run_stage(label, plan, release_levels, rows, budget, seed, what="the levels are ")
    levels = FoundLevels(counts, plan, others)
    lost = [name for name in names if name not in levels]
    if lost and not variables:
        tell(
            UtilityWarning(
                f"fewer than two levels of {', '.join(lost)} were found (a value needs about "
                f"{plan.tau:.0f} {'people' if plan.most else 'rows'}): use a larger eps, or "
                "declare them from a codebook"
            )
        )
    return levels
