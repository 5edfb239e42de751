"""A file that is saved is whole, or as it was before."""

import errno
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpmodels as dp
from dpmodels.errors import RequestError

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture(scope="module")
def results():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(0, 1, 2000)})
    frame["y"] = frame.x + rng.uniform(0, 1, 2000)
    given = {"eps": 4, "delta": 1e-6, "bounds": {"x": (0, 1), "y": (0, 2)}}
    fit = dp.dp_ols("y ~ x", frame, **given)
    return {
        "fit.json": fit.save, "text.json": fit.to_json, "wald.json": fit.wald_test("x").save,
        "page.html": fit.summary().to_html, "page.tex": fit.summary().to_latex,
        "page.md": fit.summary().to_markdown,
        "rows.json": dp.dp_release(frame, ["x", "y"], **given).save,
    }  # fmt: skip


NAMES = ["fit.json", "text.json", "wald.json", "page.html", "page.tex", "page.md", "rows.json"]


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_leaves_the_file_as_it_was(results, name, tmp_path, monkeypatch):
    place = tmp_path / name
    results[name](place)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def full(self, text, **given):
        with self.open("w") as file:
            file.write(text[: len(text) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(RequestError, match="No space left"):
        results[name](place)
    monkeypatch.undo()
    after = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert {*after} == {*before}
    assert after[name] == before[name]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_a_device_is_written_to_and_stays(results):
    with pytest.raises(RequestError, match="No space left"):
        results["fit.json"](Path("/dev/full"))
    assert Path("/dev/full").exists()


def test_a_missing_folder_and_a_link(results, tmp_path):
    with pytest.raises(RequestError, match="could not be written"):
        results["fit.json"](tmp_path / "none" / "fit.json")
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    results["fit.json"](tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert dp.load(tmp_path / "real.json").params.notna().all()
