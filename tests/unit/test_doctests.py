"""The examples in the docstrings run."""

import doctest
import importlib
import pkgutil
import warnings

import pytest

import dpmodels


def modules():
    for info in pkgutil.walk_packages(dpmodels.__path__, "dpmodels."):
        if not info.name.endswith("__main__") and "marginaleffects" not in info.name:
            yield info.name


@pytest.mark.parametrize("name", list(modules()))
def test_examples(name):
    try:
        module = importlib.import_module(name)
    except ImportError as error:  # an optional dependency
        pytest.skip(str(error))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
