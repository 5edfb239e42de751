"""The note of the wall names functions by file and line: each is there."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[3] / "dpmodels"
PLACE = re.compile(r"`([\w/]+\.py):(\d+)` \(`([\w.]+)`\)")


def line_of(body, names):
    for node in body:
        if getattr(node, "name", "") == names[0]:
            return node.lineno if len(names) == 1 else line_of(node.body, names[1:])
    return None


def test_every_place_in_the_note_is_where_it_says():
    places = PLACE.findall((PACKAGE / "core" / "theory.md").read_text(encoding="utf-8"))
    assert len(places) >= 15
    for file, line, name in places:
        tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
        assert line_of(tree.body, name.split(".")) == int(line), (file, name)
