"""The RAND Health Insurance Experiment, bundled."""

from __future__ import annotations

import gzip
import hashlib
import os
from importlib import resources
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from dpmodels.errors import SourceError, path_of
from dpmodels.lazy import pd

if TYPE_CHECKING:
    from dpmodels.formula.schema import Schema

__all__ = ["rand_hie", "rand_hie_schema", "wine"]


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
    from dpmodels.formula.schema import Schema
    from dpmodels.variables import Binary, Count, Real

    return Schema(
        mdvis=Count(upper=52, label="outpatient visits to an MD in a year"),
        lncoins=Real(0.0, _LN_COINSURANCE, label="ln(coinsurance + 1)"),
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
        With the design ranges attached (``df.attrs``): a formula fit on it estimates no range.

    Privacy
    -------
    Public data, in the public domain; used here as if its rows were private.

    Notes
    -----
    Source, licence statement and the reason of each range: ``rand_hie.md`` beside this module.
    Collected by the RAND Corporation (1974-1982); this extract is the one of Cameron and Trivedi
    (2005), "Microeconometrics", as distributed by statsmodels.
    """
    with (
        resources.files("dpmodels.datasets").joinpath("rand_hie.csv.gz").open("rb") as packed,
        gzip.open(packed) as text,
    ):
        frame = pd.read_csv(text)
    rand_hie_schema().attach(frame)
    return frame


# -- UCI Wine Quality: read from the user's own copy, checked by its SHA-256


_ENV = "DPMODELS_DATA"
_JOINED = ("winequality.csv.gz", "7a46c4e34d68e5e70bc384a369d53281dfa1cc22be99d33a5b54ccaa0692884a")
_RED = ("winequality-red.csv", "4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e")
_WHITE = (
    "winequality-white.csv",
    "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
)
_WHERE = (
    "It is data set 186 (Wine Quality) of the UCI Machine Learning Repository, "
    "doi 10.24432/C56S3T, licence CC BY 4.0 (Cortez, Cerdeira, Almeida, Matos, Reis 2009).\n"
    "  Download winequality-red.csv and winequality-white.csv into one folder and call\n"
    '      dp.datasets.wine("that/folder")\n'
    f"  or set the environment variable {_ENV} to the folder.\n"
    "  For a data set that ships with dpmodels: dp.datasets.rand_hie()"
)


def wine(path: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """Return the 6497 wines (red first), formula-friendly names, column ``color``.

    Parameters
    ----------
    path : path, optional
        A folder with ``winequality.csv.gz`` or with the two original UCI files, or that file
        itself. Default: the folder named by the environment variable ``DPMODELS_DATA``.

    Returns
    -------
    DataFrame
        Without a schema: the experiment documents no ranges.

    Raises
    ------
    SourceError
        The files are absent (the message says where to get them) or are not the published ones.

    Privacy
    -------
    Public data; used here as if its rows were private.
    """
    place = path if path is not None else os.environ.get(_ENV)
    if not place:
        raise SourceError(f"wine() needs your copy of the data. {_WHERE}")
    place = path_of(place)
    file = place if place.is_file() else place / _JOINED[0]
    if file.is_file():
        return pd.read_csv(BytesIO(_checked(file, _JOINED[1])), compression="gzip")
    if not all((place / name).is_file() for name, _ in (_RED, _WHITE)):
        raise SourceError(
            f"no {_JOINED[0]}, and not both {_RED[0]} and {_WHITE[0]}, in {str(place)!r}. {_WHERE}"
        )
    parts = []
    for (name, digest), color in ((_RED, "red"), (_WHITE, "white")):
        part = pd.read_csv(BytesIO(_checked(place / name, digest)), sep=";")
        parts.append(part.assign(color=color))
    both: pd.DataFrame = pd.concat(parts, ignore_index=True)
    both.columns = both.columns.str.replace(" ", "_")
    return both


def _checked(file: Path, digest: str) -> bytes:
    """Return the bytes of a file whose SHA-256 is the published one."""
    content = file.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise SourceError(
            f"{file.name} is not the published file (its SHA-256 is not {digest[:16]}...). {_WHERE}"
        )
    return content
