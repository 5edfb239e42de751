"""Notes are records of one catalogue: codes, lengths, order, files of earlier formats."""

import ast
import json
import re
from pathlib import Path

import pandas as pd
import pytest

import dpmodels as dp
from dpmodels import messages
from dpmodels.notes import Note, Notes, Severity, Template, note_of
from dpmodels.privacy.composition import Guarantee
from dpmodels.privacy.mechanisms import Gaussian, Step, mu_gdp
from dpmodels.results.summary import _select_notes

PACKAGE = Path(dp.__file__).parent
TEMPLATES = messages.catalogue()
#: Turns of phrase that the style of the project rules out.
IDIOMS = re.compile(
    r"\b(?:drawn together|careful|come to|comes to|as far as|working units|whoever|bought|said)\b"
)


def test_codes_are_unique_and_short_forms_are_short():
    codes = [template.code for template in TEMPLATES]
    assert len(codes) == len(set(codes)) > 100
    for template in TEMPLATES:
        bare = re.sub(r"\{[^}]*\}", "x", template.short)
        assert len(bare.split()) <= 14, template.code
        assert not template.short.endswith("."), template.code
        assert not IDIOMS.search(template.short + " " + template.long), template.code


#: Short forms that hold the finding, its meaning and the cause already.
COMPLETE = {"fit.warning", "pmt.public_fit", "public.fit", "pmt.nothing_combined", "surv.recurrent"}


def test_a_caution_says_what_it_means_or_what_helps():
    """Who sees only the page learns more than that something is wrong."""
    severe = (Severity.INVALID, Severity.CAUTION)
    silent = {t.code for t in TEMPLATES if t.severity in severe and not t.long}
    assert silent <= COMPLETE


def test_templates_stand_in_the_order_of_their_severity():
    by_name = {t.code: t.severity for t in TEMPLATES}
    order = messages.sort_notes([Note(c, s, "x") for c, s in reversed(by_name.items())])
    assert [n.severity for n in order] == sorted(by_name.values(), reverse=True)
    first = [n.code for n in order if n.severity == Severity.CAUTION]
    assert first == [c for c, s in by_name.items() if s == Severity.CAUTION]


def test_every_template_is_used():
    text = "\n".join(p.read_text() for p in PACKAGE.rglob("*.py") if p.name != "messages.py")
    names = [k for k, v in vars(messages).items() if isinstance(v, Template)]
    assert [n for n in names if f"messages.{n}" not in text and n != "PLAIN_NOTE"] == []


def test_no_note_is_recognised_by_its_words():
    """No ``startswith`` and no comparison with a sentence in the package that shows notes."""
    for path in (PACKAGE / "results").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "startswith":
                literals = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
                assert not any(isinstance(v, str) and " " in v for v in literals), path.name


def test_a_summary_shows_the_guarantee_and_three_others():
    notes = messages.sort_notes([
        messages.FLOAT_NORMALS(), messages.USER_BOUNDS(),
        messages.TOO_NOISY(columns=["x"], who="rows"),
        messages.LARGE_RESIDUALS(columns=["x"], evidence=""),  # hidden: x is not tested
        messages.NOT_CONVERGED(columns=["z"]), messages.ERRORS_HC1(), messages.ERRORS_IID(),
    ])  # fmt: skip
    codes = [note.code for note in _select_notes(notes)]
    assert codes == ["proof.user_eptr", "noise.float", "test.too_noisy", "fit.not_converged", "errors.hc1"]
    several = [Note(str(k), Severity.CAUTION, "x", columns=("x",)) for k in range(4)]
    assert len(_select_notes(several)) == 2


def test_a_note_reads_as_one_or_two_sentences():
    note = messages.ALIASED(columns=["a", "b"])
    assert note.text(full=False) == "Not estimable, a linear combination of other columns: a, b."
    assert str(note).endswith("a, b. Drop a term.")
    assert note.clause().startswith("not estimable, ")
    assert messages.PUBLIC_COLUMNS(columns=["a"]).clause().startswith("NOT PROTECTED")
    assert note_of(json.loads(json.dumps(note.to_dict()))) == note


def test_notes_are_a_tuple_of_strings_with_records():
    notes = Notes.of([messages.ERRORS_HC1(), messages.ALIASED(columns=["a"])])
    assert isinstance(notes, tuple) and "HC1" in notes[0]
    frame = notes.to_frame()
    assert list(frame.columns) == ["code", "severity", "columns", "short", "long"]
    assert frame["severity"].tolist() == ["assumption", "invalid"]


def test_fits_and_guarantees_of_earlier_formats_open(quiet, tmp_path):
    """Format 1 had plain strings for notes, in the estimate and in the guarantee."""
    frame = pd.DataFrame({"x": [0.1, 0.5, -0.2] * 500, "y": [0.1, 0.6, -0.1] * 500})
    fit = dp.dp_ols("y ~ x", frame, eps=1, delta=1e-6, bounds={"x": (-1, 1), "y": (-1, 1)}, seed=1)
    saved = json.loads(fit.to_json())
    saved["version"] = 1
    saved["estimate"]["notes"] = ["Long responses may be cut. A larger eps would help."]
    saved["guarantee"]["notes"] = ["noise from 53-bit float normals"]
    del saved["checksum"]
    path = tmp_path / "fit.json"
    path.write_text(json.dumps(saved))
    with pytest.warns(dp.errors.DPModelsWarning):
        old = dp.load(path)
    assert "Long responses may be cut. A larger eps would help." in old.notes
    assert old.notes[0] == "noise from 53-bit float normals."
    saved["version"] = 99
    path.write_text(json.dumps(saved))
    with pytest.raises(ValueError, match="format 99"), pytest.warns(dp.errors.DPModelsWarning):
        dp.load(path)
    step = Step("a", Gaussian(mu_gdp(1.0, 1e-6)), share=1.0)
    guarantee = Guarantee((step,), 1.0, 1e-6, notes=(messages.FLOAT_NORMALS(),))
    assert Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee
    text = Guarantee((step,), 1.0, 1e-6, notes=("as the user says",))
    assert text.notes[0].severity == Severity.GUARANTEE and "as the user says" in text.statement()
