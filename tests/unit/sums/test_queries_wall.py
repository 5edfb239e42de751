"""No sensitivity reaches a draw but through the prover, and nobody but a registered proof has raw rows.

Of the syntax trees: what is forbidden cannot be written, whether or not a test runs it.
"""

import ast
from pathlib import Path

import pytest

from dpmodels.privacy.proofs import PROVED
from dpmodels.privacy.run import OWN_PROOFS, Run
from dpmodels.registry import _entries

PACKAGE = Path(__file__).parents[3] / "dpmodels"
#: Rooms in which noise is drawn: the run itself, and the door of a stage.
DRAWS = {name for name in vars(Run) if not name.startswith("_")} - {
    "mechanism", "undrawn", "untouched", "pay",
}  # fmt: skip
TRUSTED = ("privacy/", "sums/ask.py", "audit/", "_testing.py")
#: Who may make the door of a stage.
DOORS = ("door.py", "sums/ask.py", "audit/")


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text())


def functions(tree):
    """Yield (name, node) of every function, methods included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name, node


def raws(node):
    """Yield the names of the proofs that a tree asks raw rows for; None where it is no literal."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "raw":
            if getattr(call.func.value, "id", "") != "ask":
                continue  # columns of rows, as they are
            (proof,) = call.args
            literal = isinstance(proof, ast.Call) and getattr(proof.func, "id", "") == "own_proof"
            first = proof.args[0] if literal and proof.args else None
            yield first.value if isinstance(first, ast.Constant) else None


def breaches(name, tree):
    """Return what a module does that only the trusted ones may."""
    found = []
    if name.startswith(TRUSTED):
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "dpmodels.privacy.run":
            found += [f"imports {a.name}" for a in node.names if a.name == "Run"]
        if not isinstance(node, ast.Attribute):
            continue
        owner = getattr(node.value, "id", None)
        if node.attr in ("_run", "_rows", "_sums") and owner not in ("self", "cls"):
            found.append(f"reads {owner}.{node.attr}")
        if node.attr in DRAWS - {"noise", "coins", "float_note"} and owner in ("run", "_run"):
            found.append(f"draws by {owner}.{node.attr}")
    return found


#: The door that makes the run, and its class.
OF_THE_DOOR = {"door.py": {"imports Run", "draws by run.drawn_whole", "draws by run.close"}}


def test_no_draw_but_through_the_door_and_registered_proofs():
    for name, tree in modules():
        assert set(breaches(name, tree)) <= OF_THE_DOOR.get(name, set()), name


@pytest.mark.parametrize(
    "code",
    ["from dpmodels.privacy.run import Run",
     "def release(plan, ask):\n    return ask._run.gaussian('x', [1], 1.0)",
     "def release(plan, ask):\n    return sum(ask._rows.blocks())",
     "def release(plan, run):\n    return run.laplace('x', [1], 1.0)"],
)  # fmt: skip
def test_the_check_of_draws_can_fail(code):
    assert breaches("models/mean.py", ast.parse(code))


def test_raw_rows_are_asked_for_where_the_proof_stands():
    asked = {}
    for name, tree in modules():
        if name.startswith(("audit/", "privacy/", "sums/ask")):
            continue
        module = name.removesuffix(".py").replace("/", ".")
        for function, node in functions(tree):
            for proof in raws(node):
                assert proof in OWN_PROOFS, (name, function)
                asked.setdefault(proof, set()).add(f"{module}:{function}")
    assert {name: set(one.where) for name, one in OWN_PROOFS.items()} == asked


def test_doors_are_made_in_one_place():
    for name, tree in modules():
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
        made = [n for n in calls if getattr(n.func, "id", "") == "Ask"]
        assert not made or name.startswith(DOORS), name


def test_a_model_states_no_reach():
    """The functions that decide one are called by the prover alone."""
    deciding = {
        "gram_l1", "gram_sensitivity", "intercept_sensitivity", "separate_sensitivity",
        "add_remove_sensitivity",
    }  # fmt: skip
    for name, tree in modules():
        if name in ("proof/prove.py", "sums/ask.py"):
            continue
        used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} & deciding
        assert not used or name in PLANNERS, (name, used)


#: Public rules of radii, at plan time: what they choose reaches no draw but as a radius.
PLANNERS = {"models/linear/inference.py", "models/linear/moments.py", "models/moments.py"}


@pytest.mark.parametrize("name", sorted(OWN_PROOFS))
def test_every_own_proof_is_proved_and_audited(name):
    one = PROVED[name]
    file, section = one.theory
    text = (PACKAGE / file).read_text()
    heads = (f"## {section} ", f"## {section}. ", f"### {section} ", f"**{section} ", f"**{section}.")
    at = max(text.find(head) for head in heads)
    assert at >= 0, (file, section)
    assert any(word in text[at:] for word in ("[P]", "Proof", "proof")), (file, section)
    assert one.statement and one.replay
    assert set(OWN_PROOFS[name].draws) <= DRAWS
    methods = {f"{verb}.{name}" for verb, name in _entries()}
    assert set(one.methods) <= methods


def test_all_methods_but_those_of_own_proofs_are_derived():
    """A list to read: whoever adds a method with a proof of its own adds it here."""
    assert set(PROVED) == set(OWN_PROOFS)
    own = {m for one in PROVED.values() for m in one.methods}
    assert len(own) == 34, sorted(own)
