"""The plan of a call: what will be released, with which noise and share. All of it public."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dpmodels.privacy.guarantee import Guarantee
from dpmodels.privacy.own_proofs import own_proof_of
from dpmodels.privacy.steps import Step
from dpmodels.tables import Shown

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.formula.design import Design
    from dpmodels.request import Request
    from dpmodels.tables import Table

__all__ = ["Plan", "Purchase"]

#: What a method decided before the first row, in a record of its own.
D = TypeVar("D")


@dataclass(frozen=True)
class Purchase:
    """The part of a budget that buys ranges: two histograms a column (``ranges/theory.md``).

    Attributes
    ----------
    columns : tuple of str
        Columns of ``(x, y)`` whose range is bought.
    mu : float
        Gaussian part, all histograms together.
    delta : float
        Failure part, all histograms together.
    """

    columns: tuple[str, ...]
    mu: float
    delta: float


@dataclass(frozen=True)
class Plan(Shown, Generic[D]):
    """Decided before the first row.

    Attributes
    ----------
    request : Request
    design : Design
        Columns with their intervals (``None`` where the interval will be bought).
    n : int or None
        Public number of rows (None under add/remove without a guess).
    steps : tuple of Step
        Every mechanism of the call, ranges included, in the order of the ledger.
    guarantee : Guarantee
        Composed from ``steps``.
    shares : mapping
        Budget shares as printed ("scale" -> .20, ...).
    scales : mapping
        Public numbers worth showing: radii, noise scales. Those that depend on a bought range
        or a released bound are absent.
    expected_se : mapping
        Column -> expected privacy standard error, where it is public before the fit.
    purchase : Purchase or None
    detail : object
        The method's own frozen plan.
    reasons, advice : tuple of str
        Why this method; what would make the answer better. From public numbers only.
    forecast : str
        What the public noise says of the intervals to come; empty: nothing. Shown with the plan.
    passes : int
        How often the rows are read at least; a source that gives them once is refused above 1,
        before anything is charged. Never a function of cells.
    people : int or None
        Number of people, where a person's rows are capped and n counts those kept.
    backend : str
        Module that goes on from here, where the method has several endings.
    """

    request: Request
    design: Design
    n: int | None
    steps: tuple[Step, ...]
    guarantee: Guarantee
    shares: Mapping[str, float] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)
    expected_se: Mapping[str, float] = field(default_factory=dict)
    purchase: Purchase | None = None
    detail: D = None  # type: ignore[assignment]
    reasons: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    forecast: str = ""
    passes: int = 1
    backend: str = field(default="", repr=False)
    people: int | None = None

    @classmethod
    def of(
        cls,
        request: Request,
        design: Design,
        n: int | None,
        steps: Iterable[Step],
        *,
        notes: tuple[str, ...] = (),
        proved: str | None = None,
        **facts: Any,
    ) -> Plan[Any]:
        """Return the plan of these steps, under the guarantee that the request asks for.

        Parameters
        ----------
        request, design, n
            As the method's ``plan`` got them. A guess in place of a private n is not kept.
        steps : iterable of Step
        notes, proved
            Of the guarantee.
        **facts
            The other attributes. ``reasons`` are those of the request if not given, ``passes``
            one, and one for the ranges.
        """
        listed = tuple(steps)
        own = own_proof_of(request.verb, request.method.name)
        notes = notes if own is None else (*notes, own.said)
        guarantee = Guarantee(
            listed, request.eps, request.delta, request.relation, notes=notes, proved=proved,
            unit="record" if request.unit is None else request.unit.text,
        )  # fmt: skip
        public_n = n if request.relation == "replace" else None
        once = 1 + (facts.get("purchase") is not None)  # ranges are bought in a pass of their own
        facts = {"reasons": request.reasons, "passes": once, **facts}
        return cls(request, design, public_n, listed, guarantee, **facts)

    @property
    def sentences(self) -> list[str]:
        """The reasons, as the notes of a fit print them."""
        return [text[:1].upper() + text[1:] + "." for text in self.reasons]

    def table(self) -> Table:
        """Return what the plan shows: facts, columns, what is released, advice."""
        from dpmodels.planning.text import plan_table

        return plan_table(self)

    def __repr__(self) -> str:
        r = self.request
        return f"<plan of {r.verb}: {r.formula} | {r.method.name} | n = {self.n}>"

    def to_frame(self) -> pd.DataFrame:
        """Return one row a design column: name, kind, range, expected privacy standard error."""
        from dpmodels.planning.text import plan_frame

        return plan_frame(self)
