"""The formula front end: text and public schema in, a design with public bounds out.

No row is read here except to be mapped by itself; everything that would have to be learnt from
rows is refused with a correction to paste. ``theory.md`` beside this file states and proves what
that buys.
"""

from __future__ import annotations

from dpmodels.formula.build import build_cell_design, build_design, build_mean_design
from dpmodels.formula.describe import Description, describe
from dpmodels.formula.design import Column, Design, TermInfo
from dpmodels.formula.parser import needed_variables
from dpmodels.formula.reading import coerce
from dpmodels.formula.survival import build_survival_cells, build_survival_design, design_from
from dpmodels.formula.words import register_rowwise

__all__ = [
    "Column",
    "Description",
    "Design",
    "TermInfo",
    "build_cell_design",
    "build_design",
    "build_mean_design",
    "build_survival_cells",
    "build_survival_design",
    "coerce",
    "describe",
    "design_from",
    "needed_variables",
    "register_rowwise",
]
