"""What a release prints. Public and released facts only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpmodels.tables import Table, plain

if TYPE_CHECKING:
    from dpmodels.models.noised.table import NoisyTable

__all__ = ["notes_of_table", "table_of"]

_NOISE = {
    "sl": "symmetric Laplace, one radius a record",
    "laplace": "independent Laplace, column by column",
    "gaussian": "Gaussian",
}


def notes_of_table(rel: NoisyTable, *, brief: bool = False) -> tuple[str, ...]:
    """Return the sentences of a release; ``brief``: without those its guarantee prints anyway."""
    notes: list[str] = []
    if rel.clear_prob > 0 and not brief:
        notes.append(
            f"clear_prob = {rel.clear_prob:g}: expected number of records released unperturbed: "
            f"{rel.expected_clear:.4g}."
        )
    if rel.public_columns and not brief:
        notes.append("NOT PROTECTED, published as they are: " + ", ".join(rel.public_columns) + ".")
    if rel.guarantee.unit == "attribute":
        eps, delta = rel.guarantee.record_pair or (float("inf"), 0.0)
        notes.append(
            f"The guarantee at eps = {rel.guarantee.eps:g} is for ONE ATTRIBUTE of a row. A "
            f"whole row is not protected at that eps: it has (eps = {eps:.4g}, "
            f"delta = {delta:g})."
        )
    nullable = [
        name
        for name in rel.schema
        if getattr(rel.schema[name], "na", None) is not None and name not in rel.public_columns
    ]
    if nullable:
        notes.append(
            "Missing cells of " + ", ".join(nullable) + " were filled with the declared value "
            "before noise: estimates carry the bias of that, and no correction removes it."
        )
    if rel.keep_order:
        notes.append("keep_order=True: the order of the rows is public.")
    return tuple(notes)


def table_of(rel: NoisyTable) -> Table:
    """Return the facts of a release as a table."""
    g = rel.guarantee
    head = [
        ("Privacy", g.statement()),
        ("Rows", f"{rel.n}" + (f" in {len(rel.batches)} batches" if len(rel.batches) > 1 else "")),
        ("Noise", f"{_NOISE[rel.noise]} (noise={rel.noise!r}), {rel.d} columns"),
        ("Missing cells", "declared value, else the middle of the range, before noise"),
    ]
    if len(rel.plan.c) == 1 and rel.noise == "sl":
        head.append(("Distance of neighbours", f"c = {rel.plan.c[0]:.6g} noise sd, d = {rel.d}"))
    bought = set(rel.bought)
    rows = [
        (
            name,
            kind,
            f"[{lo:g}, {hi:g}]" + (" bought" if name in bought else ""),
            f"{sd:.4g}",
            f"{sd / s:.3g}",
        )
        for name, kind, lo, hi, sd, s in zip(
            rel.names, rel.layout.kinds, rel.lower, rel.upper, rel.noise_sd, rel.scale, strict=True
        )
    ]
    tail = "Noised cells lie outside their ranges and levels: do not clip, round or select on them."
    return replace(
        plain(("column", "kind", "range", "noise sd", "sd / range"), rows, label=24),
        title="Noised table",
        facts=tuple(head),
        notes=(*notes_of_table(rel), tail),
    )
