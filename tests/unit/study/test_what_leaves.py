"""What leaves: no canary in the folder, a record that answers, a page that fits a phone."""

from __future__ import annotations

import base64
import datetime
import io
import json
import re
import shutil
import subprocess
import zipfile
from importlib import resources

import pytest

from dpmodels import cli
from tests.unit.study.samples import STUDY, rows

CANARY = "Q7canaryZ"
#: Of a headless browser: it asks nothing of any network.
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def bytes_of(folder):
    """Everything in a folder: names, contents, what is packed in Word files and in pictures."""
    out = {}
    for path in folder.rglob("*"):
        if path.is_file():
            name, content = path.relative_to(folder).as_posix(), path.read_bytes()
            out[name] = name.encode() + content
            if path.suffix == ".docx":
                with zipfile.ZipFile(io.BytesIO(content)) as packed:
                    for one in packed.infolist():
                        out[f"{name}/{one.filename}"] = packed.read(one)
                        assert one.date_time[0] == 1980
            for k, code in enumerate(re.findall(rb"base64,([A-Za-z0-9+/=]+)", content)):
                out[f"{name}/picture{k}"] = base64.b64decode(code)
            assert path.stat().st_mtime < 4e8, "when the run was is no part of a file"
    return out


def test_a_canary_is_nowhere_in_the_folder(tmp_path, monkeypatch, capsys):
    """In cells, path, user, host, ledger, environment, and in names of columns that are not used."""
    for name in ("USER", "USERNAME", "LOGNAME", "HOSTNAME", "HOME", "CANARY"):
        monkeypatch.setenv(name, CANARY)
    monkeypatch.setattr("socket.gethostname", lambda: CANARY)
    home = tmp_path / CANARY
    home.mkdir()
    data = rows()
    data.loc[data.index[:40], "region"] = CANARY
    data.loc[data.index[7], "wage"] = 41.987654321
    data[CANARY] = CANARY
    data.to_csv(home / f"{CANARY}.csv", index=False)
    (home / "study.toml").write_text(STUDY.replace('"html", "csv", "tex"',
                                                   '"html", "csv", "tex", "docx"'))  # fmt: skip
    pytest.importorskip("docx")
    code = cli.main(["study", "run", str(home / "study.toml"), "--data", str(home / f"{CANARY}.csv"),
                     "--ledger", str(home / f"{CANARY}.ledger"), "--out", str(home / "out")])  # fmt: skip
    assert code == 0, capsys.readouterr().err
    found = bytes_of(home / "out")
    assert any(name.endswith("document.xml") for name in found)
    today = datetime.datetime.now(datetime.timezone.utc)
    for name, content in found.items():
        for word in (CANARY, "41.98765", str(tmp_path), today.strftime("%Y-%m-%d")):
            assert word.encode() not in content, (name, word)
        assert not re.search(rb"\b[0-2]\d:[0-5]\d:[0-5]\d\b", content) or name.endswith(
            ("docProps/core.xml",)
        ), name
    assert CANARY.encode() in (home / f"{CANARY}.csv").read_bytes(), "the check can fail"


def test_a_reason_quotes_no_path(study, data, tmp_path, monkeypatch):
    """An error of a source in the middle of a run may name a file: the record does not."""
    from dpmodels.errors import SourceError
    from dpmodels.study import running

    call = running.call

    def failing(verb, *rest, **given):
        if verb == "table" and not hasattr(given.get("budget"), "label"):
            raise SourceError(f"/home/{CANARY}/rows.parquet cannot be read")
        return call(verb, *rest, **given)

    asked = study()
    monkeypatch.setattr(running, "call", failing)
    with pytest.warns(UserWarning, match=CANARY):
        ran = asked.run(data, ledger=tmp_path / "ledger", out=tmp_path / "out")
    assert [o.status for o in ran.outcomes] == ["released", "not made", "released", "computed"]
    assert not [n for n, content in bytes_of(tmp_path / "out").items() if CANARY.encode() in content]


@pytest.fixture
def record(study, data, tmp_path):
    study().run(data, ledger=tmp_path / "ledger", out=tmp_path / "out")
    return json.loads((tmp_path / "out" / "record.json").read_text())


def test_the_record_answers_what_output_checkers_ask(record):
    assert record["software"]["dpmodels"] and record["seeds"] == []
    assert record["ledger"]["before"]["calls"] == 0 and record["ledger"]["after"]["calls"] == 3
    assert record["guarantee"]["unit"] == "one row" and record["guarantee"]["eps"] < 4.8
    assert {o["name"] for o in record["outputs"]} >= {"report.html", "fits/wage.json"}
    for one in record["releases"]:
        assert one["statistic"] and one["verb"] and one["formula"] and one["method"]
        assert one["exact_numbers_of_the_data"].startswith("none")
        assert one["guarantee"]["neighbours"] == "replace one row; n is public"
        assert one["mechanisms"] and all(m["mechanism"] for m in one["mechanisms"])
        rules = one["rules"]
        assert {"minimum cell count", "dominance (n,k) and p %"} <= set(rules)
        assert all(text.startswith(("not applicable: ", "covered: ")) for text in rules.values())
    wage = record["releases"][0]
    assert wage["charged"] == [{"number": 1, "eps": 2.0, "delta": pytest.approx(1e-5 / 3)}]
    assert any("mu" in m["parameters"] for m in wage["mechanisms"])


def test_the_record_has_a_published_schema(record, study, tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    text = resources.files("dpmodels.study").joinpath("record.schema.json").read_text()
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(record, schema)
    study().rehearse(tmp_path / "rehearsal")
    jsonschema.validate(json.loads((tmp_path / "rehearsal" / "record.json").read_text()), schema)
    for key in list(record):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({k: v for k, v in record.items() if k != key}, schema)


def test_the_page_needs_no_network(study, data, tmp_path):
    study().run(data, ledger=tmp_path / "ledger", out=tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert not re.findall(r'(?:src|href)\s*=\s*"(?!data:)', page) and "<script" not in page
    assert "@import" not in page and "url(" not in page
    assert 'name="viewport"' in page and page.count('class="wide"') >= page.count("<h2>") - 2
    for said in ("Who: An institute", "Asked: linear regression", "Guarantee: (eps = ",
                 "How to read it", "wage ~ educ + C(region)", "Two models"):  # fmt: skip
        assert said in page, said
    alone = re.sub(r'<div class="wide">.*?</div>\s*</div>|<div class="wide">.*?</div>', "", page,
                   flags=re.DOTALL)  # fmt: skip
    assert "<table" not in alone, "every table scrolls by itself on a phone"
    assert "<h3>Wald: educ</h3>" in page, "what was asked stands above its answer"
    rows = [re.findall(r">([^<>]+)</t[hd]>", row) for row in re.findall(r"<tr>.*?</tr>", page)]
    assert ["educ", "region", "fit", "lwr", "upr"] in rows
    assert any(row[:2] == ["16", "south"] for row in rows), "predictions say of which rows"


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_in_a_browser(study, data, tmp_path, width):
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    browser = next((found for name in names if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no headless browser here")
    study().run(data, ledger=tmp_path / "ledger", out=tmp_path / "out")
    page = tmp_path / "out" / "report.html"
    measured = tmp_path / "measured.html"
    script = (
        "<script>onload=()=>parent.postMessage(innerWidth+' '+document.documentElement.scrollWidth"
        "+' '+Array.from(document.images).every(i=>i.complete&&i.naturalWidth>0),'*')</script>"
    )
    (tmp_path / "inner.html").write_text(page.read_text().replace("</body>", f"{script}</body>"))
    measured.write_text(  # in a frame: windows of some browsers are never narrower than 500 pixels
        "<script>onmessage=event=>{document.title=event.data}</script>"
        f'<iframe src="inner.html" style="width:{width}px;height:900px;border:0"></iframe>'
    )
    shown = subprocess.run(
        [browser, *QUIET, f"--user-data-dir={tmp_path / 'one'}", "--window-size=1400,900",
         "--virtual-time-budget=3000", "--dump-dom", measured.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    inner, wide, pictures = re.search(r"<title>(\d+) (\d+) (\w+)</title>", shown).groups()
    assert int(inner) == width and pictures == "true"
    assert int(wide) <= width, "nothing goes beyond the right edge"
    shot = tmp_path / f"{width}.png"
    subprocess.run([browser, *QUIET, f"--user-data-dir={tmp_path / 'two'}",
                    f"--window-size={width},2000", f"--screenshot={shot}", page.as_uri()],
                   timeout=120, check=True)  # fmt: skip
    assert shot.stat().st_size > 10_000
