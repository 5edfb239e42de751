"""The ledger of one call, from its steps and from what came of its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpmodels.units.person import column_of

if TYPE_CHECKING:
    from dpmodels.privacy.ledger import Ledger
    from dpmodels.results.record import Record

__all__ = ["ledger_of", "outcomes"]


def ledger_of(record: Record) -> Ledger:
    """Return the charges of a record, one line a step."""
    from dpmodels.privacy.ledger import Ledger

    call = record.call
    counted = "n" if column_of(record.guarantee.unit) is None else "people"
    n = "" if record.n is None else f", {counted} = {record.n}"
    return Ledger(
        call=f'{call.verb}("{call.formula}", method="{call.method}")',
        guarantee=record.guarantee,
        notes=outcomes(record),
        public=f"schema, formula{n}, method, shares",
    )


def outcomes(record: Record) -> dict[str, str]:
    """Return what came of each step that matters: "reply", "NO REPLY", "charged".

    All of it is output of the mechanism and paid for. Steps after the one that ended the run
    are charged although nothing was drawn: their absence is an output.
    """
    steps = record.guarantee.steps
    tests = [k for k, step in enumerate(steps) if step.reply_test]
    if record.estimate.released or not tests:
        return {steps[k].name: "reply" for k in tests}
    end = tests[-1]
    if record.why == "ranges":
        # The purchase of ranges opens the plan; which of its steps found nothing is not told.
        end = next((k for k, step in enumerate(steps) if not step.reply_test), len(steps)) - 1
    notes = {} if record.why == "ranges" else {steps[k].name: "reply" for k in tests if k < end}
    notes[steps[max(end, 0)].name] = "NO REPLY"
    return notes | {step.name: "charged" for step in steps[end + 1 :]}
