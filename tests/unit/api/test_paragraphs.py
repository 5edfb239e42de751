"""``help()`` of a verb says what every argument is; the paragraphs stand once in the source."""

import inspect

import pytest

import dpmodels as dp
from dpmodels.verbs import _entries, _split, like

VERBS = [name for name in dp.__all__ if name.startswith("dp_")]


@pytest.mark.parametrize("name", VERBS)
def test_every_argument_is_described_where_help_shows_it(name):
    verb = getattr(dp, name)
    doc = inspect.getdoc(verb)
    described = {n.lstrip("*") for one in _entries(_split(doc)[1]) for n in one.names}
    assert described >= set(inspect.signature(verb).parameters)
    assert "As in :func:" not in doc and "\nAs :func:" not in doc
    assert "Privacy\n-------" in doc


def test_a_paragraph_is_that_of_the_other_verb_and_no_more():
    ours, theirs = (inspect.getdoc(verb) for verb in (dp.dp_survfit, dp.dp_ols))
    shared = "A pandas or polars frame, an Arrow table"
    assert shared in theirs and shared in ours
    assert "second moments" in theirs and "second moments" not in ours  # behind a blank line
    assert "its longest value is private" in " ".join(ours.split()) and ours.count("bounds : mapping") == 1


def test_the_function_is_the_one_that_was_written():
    def verb(x, *, eps):
        """Do it.

        Parameters
        ----------
        eps
            As in :func:`dp_ols`.
        """

    before = inspect.signature(verb)
    assert like(dp.dp_ols)(verb) is verb and inspect.signature(verb) == before
    assert "guarantee of the whole call" in verb.__doc__


def test_an_argument_that_the_other_does_not_have_is_a_mistake():
    def verb(nothing):
        """Do it.

        Parameters
        ----------
        nothing
            As in :func:`dp_ols`.
        """

    with pytest.raises(ValueError, match=r"says nothing of \['nothing'\]"):
        like(dp.dp_ols)(verb)
