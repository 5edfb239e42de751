"""The RAND Health Insurance Experiment, bundled."""

from __future__ import annotations

import gzip
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from dpmodels.schema import Schema

__all__ = ["rand_hie", "rand_hie_schema"]

#: ln(101) = 4.6151..., rounded up: coinsurance is a percentage.
_LN_COINSURANCE = 4.62


def rand_hie_schema() -> Schema:
    """Return the design ranges of :func:`rand_hie`.

    They come from the codebook and from the design of the experiment, not from the smallest and
    largest cell: see ``rand_hie.md`` beside this file for the reason of each.

    Privacy
    -------
    Public: no row is read.
    """
    from dpmodels.schema import Binary, Count, Real, Schema

    return Schema(
        mdvis=Count(upper=52, label="outpatient visits to an MD in a year"),
        lncoins=Real(0.0, _LN_COINSURANCE, label="ln(coinsurance + 1), coinsurance in percent"),
        idp=Binary(label="individual deductible plan"),
        lpi=Real(0.0, 8.0, label="ln(max(1, annual participation incentive payment))"),
        fmde=Real(0.0, 8.3, label="ln(max(1, MDE / (0.01 coinsurance))), 0 if idp"),
        physlm=Real(0.0, 1.0, label="physical limitation"),
        disea=Real(0.0, 60.0, label="chronic disease index"),
        hlthg=Binary(label="self-rated health good"),
        hlthf=Binary(label="self-rated health fair"),
        hlthp=Binary(label="self-rated health poor"),
    )


def rand_hie() -> pd.DataFrame:
    """Return the RAND Health Insurance Experiment, 20190 person-years by 10 variables.

    Returns
    -------
    DataFrame
        With the design ranges attached (``df.attrs``): a formula fit on it buys no range.

    Privacy
    -------
    Public data, in the public domain; used here as if its rows were private.

    Notes
    -----
    Source, licence statement and the reason of each range: ``rand_hie.md`` beside this module.
    Collected by the RAND Corporation (1974-1982); this extract is the one of Cameron and Trivedi
    (2005), "Microeconometrics", as distributed by statsmodels.
    """
    import pandas as pd

    with (
        resources.files("dpmodels.datasets").joinpath("rand_hie.csv.gz").open("rb") as packed,
        gzip.open(packed) as text,
    ):
        frame = pd.read_csv(text)
    rand_hie_schema().attach(frame)
    return frame
