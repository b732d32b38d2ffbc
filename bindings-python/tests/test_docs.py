"""Every example in the documentation runs: docstrings of both halves, and the pages."""

from __future__ import annotations

import doctest
import importlib
import pathlib
import pkgutil
from typing import Any

import pytest
import semel
import semel._native as native

MODULES = ["semel", *(f"semel.{module.name}" for module in pkgutil.iter_modules(semel.__path__) if module.name != "_native")]


def run(tests: list[doctest.DocTest]) -> int:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in tests:
        runner.run(test)
    assert runner.failures == 0
    return runner.tries


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"{name} needs {error.name}")
    run(doctest.DocTestFinder().find(module, name))


def test_examples_of_the_native_half() -> None:
    tests: list[doctest.DocTest] = []
    for name in native.__all__:
        thing: Any = getattr(native, name)
        tests += doctest.DocTestFinder().find(thing, name, module=False, globs={})
    assert run(tests) > 50


def test_everything_public_is_documented() -> None:
    missing = []
    for name in semel.__all__:
        thing = getattr(semel, name)
        if not callable(thing):
            continue
        missing += [name] if not thing.__doc__ else []
        if isinstance(thing, type) and thing.__module__.startswith("semel"):
            members = {key: value for key, value in vars(thing).items() if not key.startswith("_") and callable(value)}
            missing += [f"{name}.{key}" for key, value in members.items() if not value.__doc__]
    assert missing == []


def test_examples_of_the_manual() -> None:
    readme = pathlib.Path(__file__).parents[1] / "README.md"
    examples = list(readme.read_text().split("```python\n")[1:])
    for number, example in enumerate(examples):
        code = example.split("```")[0]
        if ">>>" in code:
            parser = doctest.DocTestParser()
            run([parser.get_doctest(code, {}, f"README example {number}", str(readme), 0)])
        else:
            exec(compile(code, f"README example {number}", "exec"), {"__name__": f"readme_{number}"})
