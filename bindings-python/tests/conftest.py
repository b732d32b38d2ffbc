"""What the tests share: stores in memory and on disk, and clocks that stand still."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
import semel


@pytest.fixture
def store() -> Iterator[semel.Store]:
    """A store that keeps nothing."""
    with semel.open("memory:") as opened:
        yield opened


@pytest.fixture
def clock() -> semel.Clock:
    """A clock that stands still."""
    return semel.Clock()


@pytest.fixture
def place(tmp_path: pathlib.Path) -> pathlib.Path:
    """Where a store on disk can be made. Short: a path of a socket has at most 107 bytes."""
    return tmp_path / "s"
