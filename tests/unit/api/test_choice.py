"""``errors.choice``: one spelling of "is not one of", for anything that may be handed over."""

import pandas as pd
import pytest

from dpmodels.errors import RequestError, choice


def test_a_known_word_comes_back():
    assert choice("fmt", "text", ["html", "text"]) == "text"
    assert choice("interval", None, (None, "confidence")) is None


@pytest.mark.parametrize(
    "value",
    [pd.Series(["text"]), pd.DataFrame({"text": [1]}), ["text"], 1.5, True, None],
)
def test_what_is_no_word_is_refused_and_not_repeated(value):
    """A column was compared cell by cell, and the error was not ours."""
    with pytest.raises(RequestError, match=r"fmt=\S+ is not one of \['text'\]\.$"):
        choice("fmt", value, ["text"])


def test_a_near_miss_is_named():
    with pytest.raises(RequestError, match="Did you mean 'text'"):
        choice("fmt", "txt", ["html", "text"])
