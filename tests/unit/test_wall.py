"""The wall: private rows exist only between ``sources/`` and the creation of a release.

Read off the import statements of the package itself, so that a new import in the wrong room fails
here and not in a review.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "dpmodels"

#: room -> rooms it must never import (also lazily, inside functions).
FORBIDDEN = {
    **dict.fromkeys(
        ("errors", "variables", "records"),
        ("sources", "api", "results", "models", "scoring", "sums", "proof", "ranges", "planning", "audit"),
    ),
    "after": (
        "sources", "api", "results", "formula", "privacy", "models", "ranges", "sums", "proof", "scoring",
        "planning", "audit", "interop",
    ),
    "results": (
        "sources", "api", "ranges", "models", "audit", "sums", "proof", "scoring", "interop",
    ),
    "formula": (
        "sources", "api", "results", "privacy", "models", "ranges", "sums", "proof", "scoring", "audit",
    ),
    "planning": ("sources", "api", "results", "models", "audit"),
    "privacy": (
        "sources", "api", "results", "formula", "models", "ranges", "sums", "proof", "scoring", "audit",
    ),
    "sources": ("api", "results", "models", "ranges", "sums", "proof", "scoring", "audit"),
    "sums": ("api", "results", "models", "scoring", "ranges", "audit"),
    "proof": (
        "sources", "api", "results", "models", "scoring", "ranges", "audit", "formula", "door",
    ),
    "scoring": ("api", "results", "models", "audit"),
    "ranges": ("api", "results", "models", "audit"),
    "models": ("api", "results", "audit", "interop"),
    "interop": ("sources",),
    "door": ("api", "results", "models", "ranges", "scoring", "audit", "interop"),
}  # fmt: skip


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path):
    """Return the dpmodels modules of each import statement, TYPE_CHECKING blocks left out."""
    nodes, todo, found = [], [parsed(path)], []
    while todo:
        node = todo.pop()
        nodes.append(node)
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        todo += node.orelse if typing_only else ast.iter_child_nodes(node)
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dpmodels"):
            found.append([node.module, *(f"{node.module}.{alias.name}" for alias in node.names)])
        elif isinstance(node, ast.Import):
            found.append([a.name for a in node.names if a.name.startswith("dpmodels")])
    return found


def imported(path):
    return [module for statement in imports(path) for module in statement]


def room_of(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def files_of(room):
    """Modules of a room, or the module of that name."""
    folder = PACKAGE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{room}.py"]


@pytest.mark.parametrize("room", sorted(FORBIDDEN))
def test_no_room_reaches_over_the_wall(room):
    bad = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for path in files_of(room)
        for module in imported(path)
        if room_of(module) in FORBIDDEN[room]
    ]
    assert bad == []


#: One room of models may use another's numbers only where its subject contains the other's.
MAY_USE = {"moments": {"linear"}}


def test_rooms_of_models_do_not_import_each_other():
    bad = []
    for room in sorted(p.name for p in (PACKAGE / "models").iterdir() if p.is_dir()):
        for path in files_of(f"models/{room}"):
            for module in imported(path):
                parts = module.split(".")
                other = parts[2] if len(parts) > 2 and parts[1] == "models" else ""
                if not (PACKAGE / "models" / other).is_dir() or not other:
                    continue
                if other != room and other not in MAY_USE.get(room, ()):
                    bad.append(f"{path.relative_to(PACKAGE)} imports {module}")
    assert bad == []


def test_estimation_modules_see_no_rows():
    bad = []
    for path in PACKAGE.rglob("*estimate*.py"):
        bad += [f"{path.name}: {m}" for m in imported(path) if room_of(m) == "sources"]
    assert bad == []


def test_the_check_can_fail(tmp_path):
    planted = tmp_path / "planted.py"
    planted.write_text("def f():\n    from dpmodels.sources.rows import Rows\n    return Rows\n")
    assert any(room_of(m) == "sources" for m in imported(planted))


def test_no_room_hides_a_public_name():
    """A subpackage called like a public function would replace it once imported."""
    import dpmodels

    rooms = {p.stem if p.is_file() else p.name for p in PACKAGE.iterdir()}
    assert not rooms & set(dpmodels._EXPORTS)


def test_modules_have_plain_names():
    hidden = {p.stem for p in PACKAGE.rglob("_*.py") if not p.stem.startswith("__")}
    assert hidden == {"_version", "_testing"}


# -- one door ---------------------------------------------------------------------------------
#: What only the door may call, and who else may, with the reason.
DOOR = ("Run", "make_noise", "Rows", "guarded", "Opened", "_give_back")
ELSEWHERE = {
    "api/requests.py": {"Rows"},  # reads the public data of ``public=``: there is no charge
    "api/public.py": {"release"},  # fits them: exact sums of public rows, and no noise
    # what runs on a worker: exact sums of a part, which only a charged stage asks for
    "sources/summed.py": {"Rows", "guarded"},
    "sources/inspected.py": {"guarded"},  # for the screen of the holder of the data: not private
    "study/running.py": {"_give_back"},  # passes it on to the budget of the study
}
#: Opaque rows, another class of the name ``Rows``: made of blocks that a stage was given.
OPAQUE = {"dpmodels.core.rows", "dpmodels.opaque"}
#: ``audit/`` runs stages of planted and real methods on data of its own; nothing imports it.
KIT = "audit/"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def parameters(function):
    a = function.args
    return [*a.posonlyargs, *a.args, *a.kwonlyargs]


def carriers(trees):
    """Return ``Run``, ``Ask`` and the classes that have one as a field: a stage's own facts."""
    found = {"Run", "Ask", "Raw"}
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                fields = [f for f in node.body if isinstance(f, ast.AnnAssign)]
                if any(ast.unparse(f.annotation).strip("'\"") in ("Run", "Ask") for f in fields):
                    found.add(node.name)
    return found


def in_a_stage(function, types):
    """Whether a function is handed a run: it can only be called inside a stage."""
    return any(
        x.annotation is not None and ast.unparse(x.annotation).strip("'\"") in types
        for x in parameters(function)
    )


def name_called(call):
    f = call.func
    return f.id if isinstance(f, ast.Name) else f.attr if isinstance(f, ast.Attribute) else ""


def has_opaque_rows(file, tree):
    """Whether ``Rows`` in a file is the class of opaque rows, and no other."""
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    whose = {n.module for n in nodes if any(a.name == "Rows" for a in n.names)}
    return file == "opaque.py" or (bool(whose) and whose <= OPAQUE)


def around_the_door(trees):
    """Yield (file, function, call) where something that sees rows is called from outside."""
    types = carriers(trees)
    stages = {
        node.name
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS) and in_a_stage(node, types) and "__" not in node.name
    }

    opaque = {file for file, tree in trees.items() if has_opaque_rows(file, tree)}

    def visit(node, file, where, inside):
        for child in ast.iter_child_nodes(node):
            at, now = where, inside
            if isinstance(child, FUNCTIONS):
                at, now = child.name, inside or in_a_stage(child, types)
            if isinstance(child, ast.Call):
                name = name_called(child)
                stage = name in stages and not inside and len(child.args) > 1
                if stage or (name in DOOR and not (name == "Rows" and file in opaque)):
                    yield file, at, name
            yield from visit(child, file, at, now)

    for file, tree in trees.items():
        yield from visit(tree, file, "", False)


def all_trees():
    return {path.relative_to(PACKAGE).as_posix(): parsed(path) for path in PACKAGE.rglob("*.py")}


def test_only_the_door_opens_rows_makes_noise_and_calls_a_stage():
    found = set(around_the_door(all_trees()))
    bad = {
        hit
        for hit in found
        if hit[0] != "door.py"
        and not hit[0].startswith(KIT)
        and hit[2] not in ELSEWHERE.get(hit[0], ())
    }
    assert bad == set()
    # what the door itself calls is found: the check sees calls of these names
    assert {name for file, _, name in found if file == "door.py"} == set(DOOR)


#: A method of a released object, and a verb without a formula, that read rows themselves.
MAY_OPEN = {"models/noised/table.py", "own/best.py"}


def test_the_door_is_opened_by_verbs():
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "dpmodels.door" in imported(path)
    }
    assert {u for u in users if not u.startswith("api/")} == MAY_OPEN


@pytest.mark.parametrize(
    "code",
    [
        "def f(plan, rows):\n    return backend.release(plan, rows, None)",
        "def f(seed):\n    return noise.make_noise(seed)",
        "def f(steps):\n    return Run(steps, None)",
        "def f(stage):\n    return guarded(lambda: stage())",
        "from dpmodels.sources.rows import Rows\ndef f(source):\n    return Rows(source, 1)",
        "def f(source):\n    from dpmodels.core.rows import Rows\n    from dpmodels.sources.rows "
        "import Rows\n    return Rows(source, 1)",
    ],
)
def test_the_check_of_the_door_can_fail(code):
    stage = "def release(plan: Plan, rows: Rows, run: Run) -> Release: ..."
    planted = {"room.py": ast.parse(stage), "planted.py": ast.parse(code)}
    assert [file for file, _, _ in around_the_door(planted)] == ["planted.py"]


# -- what an estimate can reach -----------------------------------------------------------------
#: Not what is meant where a word is: no estimate is handed new records by a list's word, nor, as a
#: thing that can be printed, a budget.
NOT_FOLLOWED = {
    ("dpmodels.models.noised.table", "NoisyTable.append"), ("dpmodels.privacy.budget", "Budget"),
    # its release takes an Ask, which the door alone makes (test_queries_wall)
    ("dpmodels.registry", "Backend"),
}  # fmt: skip
#: Rooms that make their objects of an estimate, or hand them to a release: an estimate is handed
#: none, so what these add to a base class (of printing, of Ask) is not followed from there.
LATER = tuple(f"dpmodels.{room}" for room in ("results", "api", "audit", "interop"))
SEALED = ("dpmodels.sources", "dpmodels.door")


def dotted(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Closure:
    """Which functions and classes of the package a function can reach.

    Names are followed through imports (also those for types alone, so that a parameter annotated
    ``Rows`` counts), attributes into the methods of every class reached and of its subclasses (an
    object may be of any of them), and ``"module:function"`` texts. What is looked up by another
    text (a registry) is not.
    """

    def __init__(self, trees):
        self.trees = trees
        self.scope = {module: self._names(module) for module in trees}
        self.methods, self.cache, self.nodes = {}, {}, {}
        for module, tree in trees.items():
            for cls in (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)):
                for f in (f for f in cls.body if isinstance(f, FUNCTIONS)):
                    self.methods.setdefault(f.name, []).append((module, cls, f))
        self.subclasses = self._subclasses()

    def _subclasses(self):
        """Return (module, name) of a class -> the classes that name it as a base."""
        found = {}
        for module, tree in self.trees.items():
            for cls in (n for n in tree.body if isinstance(n, ast.ClassDef)):
                for base in {self._base(module, b) for b in cls.bases} - {None}:
                    found.setdefault(base, []).append((module, cls.name, cls))
        return found

    def _base(self, module, base):
        """Return (module, name) of a base class of the package; None: it is another's."""
        if isinstance(base, ast.Subscript):  # Base[T]
            base = base.value
        if isinstance(base, ast.Name):
            found = self.find(module, base.id)
        elif isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name):
            holder = self.find(module, base.value.id)
            found = self.find(holder, base.attr) if isinstance(holder, str) else None
        else:
            found = None
        return found[:2] if isinstance(found, tuple) else None

    def _names(self, module):
        names = {}
        for n in ast.walk(self.trees[module]):
            if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("dpmodels"):
                names.update({a.asname or a.name: (n.module, a.name) for a in n.names})
        for n in self.trees[module].body:
            if isinstance(n, (*FUNCTIONS, ast.ClassDef)):
                names[n.name] = n
            elif isinstance(n, (ast.Assign, ast.AnnAssign)) and n.value is not None:
                for target in n.targets if isinstance(n, ast.Assign) else [n.target]:
                    names.update({x.id: n for x in ast.walk(target) if isinstance(x, ast.Name)})
        return names

    def find(self, module, name):
        """Return (module, name, node) of a name, None, or the text of a module."""
        found = self.scope.get(module, {}).get(name)
        if isinstance(found, tuple):
            return self.find(*found)
        if found is None:
            return f"{module}.{name}" if f"{module}.{name}" in self.trees else None
        return module, name, found

    def _used(self, module, part):
        """Yield what a piece of code names, and the attributes it takes of other things."""
        own = {x.arg for f in ast.walk(part) if isinstance(f, (*FUNCTIONS, ast.Lambda))
               for x in [*parameters(f), f.args.vararg, f.args.kwarg] if x}  # fmt: skip
        if isinstance(part, FUNCTIONS):
            own |= {n.id for n in ast.walk(part)
                    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}  # fmt: skip
        for n in ast.walk(part):
            if isinstance(n, ast.Name) and n.id not in own:
                yield self.find(module, n.id)
            elif isinstance(n, ast.Attribute):
                base = n.value
                known = isinstance(base, ast.Name) and base.id not in own
                holder = self.find(module, base.id) if known else None
                yield self.find(holder, n.attr) if isinstance(holder, str) else n.attr
            elif isinstance(n, ast.Constant) and isinstance(n.value, str):
                place, colon, name = n.value.partition(":")
                if colon and place in self.trees:
                    yield self.find(place, name)

    def of(self, module, name):
        """Return (module, name) -> who reached it."""
        return self.of_all([(module, name)], SEALED, later=LATER)

    def of_all(self, roots, sealed, left_out=NOT_FOLLOWED, later=()):
        """Return (module, name) -> who reached it; what is sealed is not looked into.

        ``later``: modules whose subclasses are not followed from the base class.
        """
        seen, classes, attributes = {}, {}, {}
        todo = [(*self.find(module, name), None) for module, name in roots]
        while todo:
            module, name, node, via = todo.pop()
            here = (module, name)
            if here in seen or here in left_out:
                continue
            seen[here] = via
            self.nodes[here] = node
            if module.startswith(sealed):
                continue
            parts = [node]
            if isinstance(node, ast.ClassDef):
                classes[id(node)] = name
                below = self.subclasses.get(here, ())
                todo += [(*cls, here) for cls in below if not cls[0].startswith(later)]
                dunder = [f for f in node.body if not isinstance(f, FUNCTIONS) or "__" in f.name]
                parts = [*dunder, *node.bases]
                for f in (f for f in node.body if isinstance(f, FUNCTIONS)):
                    if f.name in attributes:
                        todo.append((module, f"{name}.{f.name}", f, attributes[f.name]))
            if id(node) not in self.cache:
                used = {x for part in parts for x in self._used(module, part)}
                self.cache[id(node)] = sorted(used - {None}, key=str)
            for found in self.cache[id(node)]:
                if isinstance(found, tuple):
                    todo.append((*found, here))
                elif isinstance(found, str) and found not in attributes:
                    attributes[found] = here
                    for m, c, f in self.methods.get(found, ()):
                        if id(c) in classes:
                            todo.append((m, f"{classes[id(c)]}.{found}", f, here))
        return seen


def behind_the_wall(seen):
    """Return the ways from an estimate to what sees rows."""
    bad = []
    for module, name in seen:
        if module.startswith(SEALED):
            way, at = [], (module, name)
            while at is not None:
                way.append(":".join(at))
                at = seen[at]
            bad.append(" <- ".join(way))
    return bad


@pytest.fixture(scope="module")
def closure():
    return Closure({dotted(path): parsed(path) for path in PACKAGE.rglob("*.py")})


def backends():
    from dpmodels.registry import _entries

    entries = _entries().values()
    found = {x.backend for m in entries for x in (m, *m.endings)}
    ours = [b for b in found if b.plan.__module__.startswith("dpmodels.")]
    return sorted(ours, key=lambda b: (b.plan.__module__, b.plan.__name__))


def name_of(backend):
    return f"{backend.plan.__module__.removeprefix('dpmodels.models.')}-{backend.plan.__name__}"


def place_of(function):
    return function.__module__, function.__name__


@pytest.mark.parametrize("backend", backends(), ids=name_of)
def test_no_estimate_can_reach_a_row(closure, backend):
    seen = closure.of(*place_of(backend.estimate))
    assert len(seen) > 100, "the closure found nearly nothing: it follows no calls"
    assert behind_the_wall(seen) == []


@pytest.mark.parametrize("backend", backends(), ids=name_of)
def test_the_closure_of_a_release_does_reach_rows(closure, backend):
    """The same walk from the other side: it must find what it looks for."""
    ways = behind_the_wall(closure.of(*place_of(backend.release)))
    assert any(way.startswith("dpmodels.sources.") for way in ways)


def test_a_subclass_that_reads_rows_is_found(closure):
    """An estimate that calls a method may be handed an object of a subclass."""
    planted = """
from dpmodels.scoring.models import Model
from dpmodels.sources.rows import Rows
class Planted(Model):
    def events_of(self, state, before, eta):
        return Rows(self.source, 100)
"""
    other = Closure({**closure.trees, "dpmodels.planted": ast.parse(planted)})
    ways = behind_the_wall(other.of("dpmodels.models.linear.scored", "estimate"))
    assert any(way.startswith("dpmodels.sources.rows:Rows <- ") for way in ways)
    assert any("dpmodels.planted:Planted.events_of" in way for way in ways)


# -- what a worker can reach --------------------------------------------------------------------
#: Where noise and coins of the system come from, and words of other generators.
NOISE = tuple(f"dpmodels.privacy.{m}" for m in ("noise", "run"))
RANDOM = {"random", "urandom", "secrets", "default_rng", "SystemRandom", "uuid4", "getrandbits"}
#: What is called on a worker.
WORKER = (("dpmodels.sources.summed", "on_worker"), ("dpmodels.sources.executors", "partial_sums"))


def jobs(trees):
    """Return the roots of what runs on a worker: its functions, jobs, expansions and scores."""
    found = [*WORKER]
    for module, tree in trees.items():
        for cls in (n for n in tree.body if isinstance(n, ast.ClassDef)):
            own = {f.name for f in cls.body if isinstance(f, FUNCTIONS)}
            score = any("Model" in ast.unparse(base) for base in cls.bases)
            # what is called of a task may be an object that is called
            if {"Ask", "Protocol"} & {cls.name, *map(ast.unparse, cls.bases)}:  # the door stays with the caller
                continue
            if own & {"over", "__call__", "expand", "adding"} or ("evaluate" in own and score):
                found.append((module, cls.name))
    return found


def random_on_a_worker(closure, roots):
    """Return what is random, or uses a word for it, and can be reached from the roots."""
    bad = set()
    for here in closure.of_all(roots, NOISE):
        words = set()
        for n in ast.walk(closure.nodes[here]):
            if isinstance(n, (ast.Name, ast.Attribute)):
                words.add(n.id if isinstance(n, ast.Name) else n.attr)
            elif isinstance(n, (ast.Import, ast.ImportFrom)):
                words |= {a.name for a in n.names}
        if here[0].startswith(NOISE) or words & RANDOM:
            bad.add(here)
    return bad


def test_nothing_random_can_be_reached_from_what_runs_on_a_worker(closure):
    roots = jobs(closure.trees)
    assert {("dpmodels.sums.cells", "GramOf"), ("dpmodels.core.sets", "Reading"),
            ("dpmodels.core.kernels", "AtPoints"),
            ("dpmodels.own.compared", "Gradient"),
            ("dpmodels.own.minimum", "LatticeSums"),
            ("dpmodels.models.treatment.rows", "EffectRows"),
            ("dpmodels.models.kernel", "UnitRows"),
            ("dpmodels.sources.summed", "Sampled")} <= set(roots)  # fmt: skip
    reached = closure.of_all(roots, NOISE)
    needed = {("dpmodels.sources.rows", "Rows.blocks"), ("dpmodels.sums.cells", "gram"),
              ("dpmodels.core.parallel", "Parallel.add"), ("dpmodels.formula.design", "Design.fill"),
              ("dpmodels.scoring.models", "Quantile.evaluate")}  # fmt: skip
    assert needed <= set(reached)  # the walk finds what does run there
    assert random_on_a_worker(closure, roots) == set()


def test_a_random_job_is_found(closure):
    code = """
def planted(blocks):
    return default_rng().random(3)
class Planted:
    def over(self, blocks, coins=None):
        return planted(blocks)
"""
    other = Closure({**closure.trees, "dpmodels.planted": ast.parse(code)})
    assert ("dpmodels.planted", "planted") in random_on_a_worker(other, jobs(other.trees))


def test_a_method_of_a_subclass_of_a_job_is_found(closure):
    """It has no ``over`` of its own: that of its base calls what it says otherwise."""
    code = """
from dpmodels.scoring.clusters import ClusterPasses
class Planted(ClusterPasses):
    def placed(self, block, places):
        return np.trunc(default_rng().random(block.shape[1]) * block[0]), block[0] @ block[1]
"""
    other = Closure({**closure.trees, "dpmodels.planted": ast.parse(code)})
    assert ("dpmodels.planted", "Planted.placed") in random_on_a_worker(other, jobs(other.trees))
    assert "planted.Planted.placed" in rounded_rows(other)
    assert "planted.Planted.placed" in functions_with(other, with_rows(other), is_product)


def read_here(trees):
    """Return (module, function) that reads blocks, or rows by their places, and sends no task.

    Or hands the rows of a proof of its own to another function. New ``Rows`` of a table are not
    those of a stage: who makes them is the check of the door.
    """
    found = set()
    for module, tree in trees.items():
        if module.startswith(("dpmodels.sources", "dpmodels.audit")):
            continue
        for function in (n for n in ast.walk(tree) if isinstance(n, FUNCTIONS)):
            for call in (n for n in ast.walk(function) if isinstance(n, ast.Call)):
                reads = name_called(call) in ("blocks", "coded_blocks", "sample", "skim")
                whose = call.func.value if isinstance(call.func, ast.Attribute) else None
                made = isinstance(whose, ast.Call) and name_called(whose) == "Rows"
                given = {ast.unparse(a) for a in call.args}
                if "raw.rows" in given or (
                    reads and whose is not None and not made and "rows" in ast.unparse(whose).lower()
                ):
                    found.add((module, function.name))
    return found


def reaching(closure, functions, place):
    """Return whether a function can reach one of others, of which names are known."""
    seen = {(module, name.rpartition(".")[2]) for module, name in closure.of(*place)}
    return bool(seen & functions)


def test_what_reads_rows_here_has_a_proof_of_its_own_and_says_so(closure):
    """All other passes can be tasks. Methods that read here are refused of a table elsewhere."""
    from dpmodels.registry import _entries

    here = read_here(closure.trees)
    assert len(here) > 6 and all(module.startswith("dpmodels.own.") for module, _ in here)
    told = {}
    for e in _entries().values():
        if e.backend.plan.__module__.startswith("dpmodels."):
            told.setdefault(place_of(e.backend.release), set()).add(e.by_rows)
    found = {place: {reaching(closure, here, place)} for place in told}
    assert found == told and 6 < sum(map(any, told.values())) < len(told) / 2


@pytest.mark.parametrize(
    "code",
    [
        "def f(ask, design):\n    return [b for b in ask._rows.blocks(design)]",
        "def f(plan, ask):\n    raw = ask.raw(proof)\n    return sampled(raw.rows, plan.design, range(2))",
        "def f(rows, design):\n    rows.skim(design)",
    ],
)
def test_a_reader_that_says_nothing_is_found(closure, code):
    trees = {**closure.trees, "dpmodels.planted": ast.parse(code)}
    assert read_here(trees) - read_here(closure.trees) == {("dpmodels.planted", "f")}
    assert reaching(Closure(trees), read_here(trees), ("dpmodels.planted", "f"))


@pytest.mark.parametrize(
    ("module", "name"),
    [("dpmodels.sums.ask", "Ask"), ("dpmodels.ranges", "buy_ranges"),
     ("dpmodels.scoring.units", "release_scoring")],
)  # fmt: skip
def test_the_check_of_workers_can_fail(closure, module, name):
    assert random_on_a_worker(closure, [*jobs(closure.trees), (module, name)])


# -- circles ------------------------------------------------------------------------------------
def circles(graph):
    """Return the strongly connected components of more than one module (Tarjan)."""
    index, low, stack, found = {}, {}, [], set()

    def go(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in graph[v]:
            if w not in index:
                go(w)
                low[v] = min(low[v], low[w])
            elif w in stack:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            part = set()
            while not part or v not in part:
                part.add(stack.pop())
            if len(part) > 1:
                found.add(frozenset(part))

    for v in graph:
        if v not in index:
            go(v)
    return found


def import_graph():
    """Return module -> modules it imports; of a package's member, the member and not the package."""
    paths = {dotted(path): path for path in PACKAGE.rglob("*.py")}
    graph = {}
    for module, path in paths.items():
        found = set()
        for statement in imports(path):
            known = [x for x in statement if x in paths]
            members = len(known) == len(statement) > 1  # nothing is taken from the package itself
            found.update(known[1:] if members else known)
        graph[module] = found - {module}
    return graph


def test_modules_do_not_import_in_circles():
    """Imports inside functions counted."""
    found = {" ".join(sorted(m.removeprefix("dpmodels.") for m in c))
             for c in circles(import_graph())}  # fmt: skip
    assert found == set()


def union_graph(trees):
    """Return module -> modules it imports anywhere: at its top, lazily, for types or by name.

    A name counts where it is a text in the call (``import_module("dpmodels.x")``). What a registry
    looks up by a text that it is handed is not followed.
    """
    graph = {}
    for module, tree in trees.items():
        found = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = {f"{node.module}.{a.name}" for a in node.names}
                members = names & set(trees)
                found |= members if members == names else members | {node.module}
            elif isinstance(node, ast.Import):
                found |= {a.name for a in node.names}
            elif isinstance(node, ast.Call) and name_called(node) in ("import_module", "__import__"):
                found |= {a.value for a in node.args if isinstance(a, ast.Constant)}
        graph[module] = (found & set(trees)) - {module}
    return graph


#: ``Schema.problems`` compares a schema with the names and types of a table: a question of the user's
#: own, which no release and no estimate asks.
UPWARDS = [("dpmodels.formula.schema", "dpmodels.api.inspected")]


def test_no_circle_of_all_imports_together():
    graph = union_graph({dotted(path): parsed(path) for path in PACKAGE.rglob("*.py")})
    for module, other in UPWARDS:
        graph[module].remove(other)
    assert circles(graph) == set()


@pytest.mark.parametrize(
    "back",
    [
        "def f():\n    from dpmodels.a import g",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from dpmodels.a import g",
        "import importlib\ndef f():\n    return importlib.import_module('dpmodels.a')",
        "def f():\n    import dpmodels.a",
        "def f():\n    from dpmodels import a",
    ],
)
def test_a_hidden_circle_is_found(back):
    trees = {"dpmodels": "", "dpmodels.a": "from dpmodels.b import f", "dpmodels.b": back}
    graph = union_graph({module: ast.parse(text) for module, text in trees.items()})
    assert circles(graph) == {frozenset(("dpmodels.a", "dpmodels.b"))}


def room_graph():
    """Return room -> rooms it imports; each subject of ``models/`` is a room."""
    graph = {}
    for module, found in import_graph().items():
        here, *others = (
            ".".join(m.split(".")[1 : 3 if ".models." in m else 2]) for m in (module, *found)
        )
        graph.setdefault(here, set()).update(o for o in others if o != here)
    return graph


def floors(graph):
    """Return room -> its floor: one above the highest that it imports. No circles in the graph."""
    found = {}

    def floor(room):
        if room not in found:
            found[room] = 1 + max((floor(below) for below in graph[room]), default=0)
        return found[room]

    return {room: floor(room) for room in graph}


def test_rooms_stand_on_few_floors_and_import_only_downwards():
    graph = room_graph()
    assert len(graph) > 30
    assert circles(graph) == set()
    assert max(floors(graph).values()) <= 12


def test_the_floors_are_measured():
    assert floors({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": 3, "b": 2, "c": 1}


def test_the_check_of_circles_can_fail():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert circles(graph) == {frozenset("abc")}


def test_the_array_type_is_spelled_once():
    """Sixty-two modules had a definition of their own."""
    bad = [
        file
        for file, tree in all_trees().items()
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node) == "Array = npt.NDArray[np.float64]"
    ]
    assert bad == ["arrays.py"]


# -- arithmetic of rows -------------------------------------------------------------------------
#: What may round a row by its place, by how it lies in memory or by the processor.
PRODUCTS = {"einsum", "norm", "dot", "vdot", "inner", "tensordot", "matmul"}
#: The primitives of sums: of integers of which every partial sum fits a float, exact in any order.
PRIMITIVES = {f"sums.products.{name}" for name in ("_exactly", "cross_product", "weighted")}
#: Products that are no arithmetic of a row, each with its reason.
NOT_OF_A_ROW = {
    "sums.rowmap.RowMap.affine": "public or released numbers: the map itself, the same for every row",
    "own.minimum.in_floats": "kept rows: the certificate pays for the rounding (glm.md 4.4)",
    "own.compared.sketch": "a sum of float normals times rows: the guarantee carries a note",
}


def is_product(n):
    if isinstance(n, (ast.BinOp, ast.AugAssign)):
        return isinstance(n.op, ast.MatMult)
    return isinstance(n, ast.Call) and name_called(n) in PRODUCTS


#: Formulas, which see opaque rows alone (a product or a rounding of rows raises there), and public
#: numbers: no array of rows reaches them.
NO_ARRAY_OF_ROWS = tuple(f"dpmodels.{m}" for m in (
    "families", "models.residual", "scoring.coordinates", "scoring.mean_models", "scoring.models", "scoring.passes",
    "scoring.unit_passes", "scoring.unit_scales", "scoring.units", "scoring.clusters",
    "models.choice", "models.panel", "models.weights", "models.survival.cox", "models.survival.hazard",
    "models.survival.table", "models.survival.zph", "models.table.layout", "models.table.quantiles",
    "models.table.weighted", "models.table.weighted_quantiles",
))  # fmt: skip


def functions_with(closure, reached, wanted):
    """Return module.function -> what is wanted in it, of functions and methods reached."""
    found = {}
    for module, name in reached:
        node = closure.nodes.get((module, name))
        if not isinstance(node, FUNCTIONS) or module in NO_ARRAY_OF_ROWS:
            continue
        hits = [ast.unparse(n) for n in ast.walk(node) if wanted(n)]
        if hits:
            found[f"{module}.{name}".removeprefix("dpmodels.")] = hits
    return found


def with_rows(closure):
    """Return every function of the modules that read rows, and what runs where rows are summed.

    That is all that can be reached from a job, from ``core/`` and from ``sums/``: not what tests
    and audits alone call of ``proof/``.
    """
    sums = [m for m in closure.trees if m.startswith(("dpmodels.core.", "dpmodels.sums."))]
    kinds = (*FUNCTIONS, ast.ClassDef)
    roots = [(m, n.name) for m in sums for n in closure.trees[m].body if isinstance(n, kinds)]
    reached = set(closure.of_all([*jobs(closure.trees), *roots], NOISE))
    for module in {*sums, *(module for module, _ in read_here(closure.trees))}:
        for n in closure.trees[module].body:
            for f in (n, *(n.body if isinstance(n, ast.ClassDef) else ())):
                if isinstance(f, FUNCTIONS):
                    name = f.name if f is n else f"{n.name}.{f.name}"
                    closure.nodes[module, name] = f
                    reached.add((module, name))
    return reached


def test_rows_are_multiplied_by_the_primitives_alone(closure):
    """Their images and lengths: ``mapped``, ``squares`` of sums/products.py."""
    reached = with_rows(closure)
    assert ("dpmodels.core.parallel", "Parallel.vectors") in reached
    assert ("dpmodels.own.minimum", "WorkingRows.apply") in reached
    found = functions_with(closure, reached, is_product)
    assert set(found) == PRIMITIVES | set(NOT_OF_A_ROW)  # and nothing is listed that is gone


def test_a_planted_product_of_rows_is_found(closure):
    codes = ["np.einsum('ij,ij->j', z, z)", "np.linalg.norm(z, axis=0)", "w @ z", "w.dot(z)"]
    planted = "".join(
        f"def planted{i}(blocks):\n    return [{code} for z in blocks]\n"
        f"class Pass{i}:\n    def over(self, blocks, coins=None):\n        return planted{i}(blocks)\n"
        for i, code in enumerate(codes)
    )
    other = Closure({**closure.trees, "dpmodels.planted": ast.parse(planted)})
    found = functions_with(other, with_rows(other), is_product)
    assert {f"planted.planted{i}" for i in range(len(codes))} <= set(found)


# -- the end of rows ----------------------------------------------------------------------------
#: What makes whole numbers of floats.
ROUNDED = {"trunc", "rint", "floor", "fix", "around", "round"}
#: Where rows, or what is made of them, become whole numbers outside sums/products.py, and why.
NOT_AN_END = {"own.minimum.mapped_sums": "a gradient on a grain of its own (glm.md 4.4)"}


def is_rounded(n):
    """Of a whole array: ``round`` of a number for a plan is none."""
    if not isinstance(n, ast.Call) or name_called(n) not in ROUNDED:
        return False
    return isinstance(n.func, ast.Attribute) and ast.unparse(n.func.value) != "math"


def rounded_rows(closure):
    """Return module.function -> roundings, where rows are mapped and added up."""
    found = functions_with(closure, with_rows(closure), is_rounded)
    rooms = ("sums.", "proof.", "core.", "own.", "scoring.", "models.", "planted.")
    public = ("models.table.nulls.noise_cdf",)  # of the noise alone
    return {k: v for k, v in found.items() if k.startswith(rooms) and k not in public}


def test_rows_become_integers_in_one_place(closure):
    found = rounded_rows(closure)
    ends = {k for k in found if k.startswith(("sums.", "proof.")) and k not in NOT_AN_END}
    assert ends == {f"sums.products.{name}" for name in (
        "end_in_ball", "end_along", "end_of_rows", "end_of_numbers", "towards_zero", "nearest")}  # fmt: skip
    assert set(found) - ends == set(NOT_AN_END)


#: Where numbers of opaque rows are read outside ``core/``, and why.
OPENED = {
    "models/choice.py:at_public_rows": "public rows, at which probabilities are predicted",
    "formula/build.py:_on_rows_let_in": "public rows, one for each level",
}
#: The wall itself, which reads numbers to sum them or to fill blocks; and proofs of their own, which
#: have blocks of rows.
WALL = ("core/", "own/", "opaque.py", "formula/program.py")


def opened_rows(trees):
    """Yield file:function where ``.numbers`` of an object is read that is no ``self``."""
    for file, tree in trees.items():
        if file.startswith((*WALL, KIT)) or "Rows" not in ast.unparse(tree):
            continue
        for function in (n for n in ast.walk(tree) if isinstance(n, FUNCTIONS)):
            for n in ast.walk(function):
                if isinstance(n, ast.Attribute) and n.attr in ("numbers", "_a", "_counts"):
                    owner = ast.unparse(n.value)
                    if owner not in ("self", "centre") and not owner.endswith("grid"):
                        yield f"{file}:{function.name}"


def test_formulas_never_open_rows():
    words = ("core.rows", "dpmodels.opaque")
    trees = {f: t for f, t in all_trees().items() if any(w in ast.unparse(t) for w in words)}
    assert len(trees) > 20
    assert set(opened_rows(trees)) == set(OPENED)
    planted = ast.parse("def f(z: Rows):\n    return z.numbers.max()")
    assert list(opened_rows({"planted.py": planted})) == ["planted.py:f"]


def test_a_planted_rounding_of_rows_is_found(closure):
    planted = """
def planted(blocks):
    return [np.trunc(z * 1048576.0) for z in blocks]
class Pass:
    def over(self, blocks, coins=None):
        return planted(blocks)
"""
    other = Closure({**closure.trees, "dpmodels.planted": ast.parse(planted)})
    assert "planted.planted" in rounded_rows(other)


# -- constants ----------------------------------------------------------------------------------
def constants(tree):
    """Yield (name, value) of the upper-case constants of a module, a leading _ left out."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        for target in targets:
            several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            pairs = zip(target.elts, node.value.elts, strict=True) if several else [(target, node.value)]
            for one, value in pairs:
                if isinstance(one, ast.Name) and one.id.isupper():
                    yield one.id.lstrip("_"), ast.unparse(value)


def test_no_constant_has_two_values_within_a_package():
    found = {}
    for path in PACKAGE.rglob("*.py"):
        package, *inside = path.relative_to(PACKAGE).parts
        for name, value in constants(parsed(path)):
            found.setdefault((package if inside else "", name), set()).add(value)
    assert len(found) > 900
    assert {key: values for key, values in found.items() if len(values) > 1} == {}


def test_the_check_of_constants_can_fail():
    trees = [ast.parse(code) for code in ("A, _MOST = 1, 2.0**5", "MOST: float = 3.0", "X = f(2)")]
    listed = [pair for tree in trees for pair in constants(tree)]
    assert listed == [("A", "1"), ("MOST", "2.0 ** 5"), ("MOST", "3.0"), ("X", "f(2)")]
