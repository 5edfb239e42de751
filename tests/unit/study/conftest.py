"""A small study, and rows that it can run on."""

from __future__ import annotations

import pytest

from dpmodels import Study
from tests.unit.study.samples import STUDY, rows


@pytest.fixture(scope="session")
def data():
    return rows()


@pytest.fixture
def study(tmp_path):
    def made(text=STUDY, name="study.toml"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return Study.read(tmp_path / name)

    return made
