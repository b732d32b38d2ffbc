"""The shared vectors of the canonical form: what Rust, C and JavaScript play as well. `tests/vectors/README.md` says what they mean."""

from __future__ import annotations

import json
import pathlib
import struct
from collections.abc import Callable
from typing import Any

import pytest
import semel

VECTORS = pathlib.Path(__file__).parents[2] / "tests" / "vectors"
CANONICAL = json.loads((VECTORS / "canonical.json").read_text())
RFC8785 = json.loads((VECTORS / "rfc8785.json").read_text())
GENERATED = json.loads((VECTORS / "generated.json").read_text())


def text_of(case: dict[str, Any]) -> bytes:
    return bytes.fromhex(case["json_hex"]) if "json_hex" in case else case["json"].encode("utf-8")


def forms(text: bytes) -> tuple[str, str]:
    value = semel.Json(text)
    return semel.canonical(value).decode(), semel.fingerprint(value)


@pytest.mark.parametrize("case", CANONICAL["accepted"] + RFC8785["samples"], ids=lambda case: case["name"])
def test_accepted(case: dict[str, Any]) -> None:
    form, fingerprint = forms(text_of(case))
    assert form == case["canonical"]
    if "fingerprint" in case:
        assert fingerprint == case["fingerprint"]
    assert forms(form.encode()) == (form, fingerprint)
    if case.get("agrees"):
        assert form == case["rfc8785"]


@pytest.mark.parametrize("case", CANONICAL["rejected"], ids=lambda case: case["name"])
def test_rejected(case: dict[str, Any]) -> None:
    for call in (semel.canonical, semel.fingerprint):
        with pytest.raises(semel.InvalidInput):
            call(semel.Json(text_of(case)))


@pytest.mark.parametrize("case", CANONICAL["distinct"], ids=lambda case: case["name"])
def test_distinct(case: dict[str, Any]) -> None:
    one, two = forms(case["a"].encode()), forms(case["b"].encode())
    assert one[0] != two[0]
    assert one[1] != two[1]


@pytest.mark.parametrize("case", CANONICAL["same"], ids=lambda case: case["name"])
def test_same(case: dict[str, Any]) -> None:
    assert forms(case["a"].encode()) == forms(case["b"].encode())


def double(bits: str) -> float:
    value: float
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    return value


@pytest.mark.parametrize("case", RFC8785["doubles"], ids=lambda case: case["bits"])
def test_doubles(case: dict[str, Any]) -> None:
    assert semel.canonical(double(case["bits"])).decode() == case["canonical"]


@pytest.mark.parametrize("bits", RFC8785["refused_doubles"])
def test_refused_doubles(bits: str) -> None:
    with pytest.raises(semel.InvalidInput, match="NaN and the infinities"):
        semel.canonical(double(bits))


MASK = 2**64 - 1
#: How many of the generated texts are played here: the generator is slow in Python, and the rules are those of the core,
#: where all of them are.
PLAYED = 3000


class Generator:
    """Makes the generated texts, in the draws of the page."""

    def __init__(self, index: int) -> None:
        self.state = (0x73656D656C + index) & MASK
        self.out: list[str] = []

    def below(self, n: int) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        return (z ^ (z >> 31)) % n

    def pick(self, items: Any) -> Any:
        return items[self.below(len(items))]

    def add(self, text: str) -> None:
        self.out.append(text)

    def text(self, index: int) -> str:
        (self.value if index % 2 else self.object)(0)
        return "".join(self.out)

    def value(self, depth: int) -> None:
        self.space()
        k = self.below(8 if depth < 4 else 6)
        if k == 0:
            self.add(self.pick(("null", "true", "false")))
        elif k <= 2:
            self.number()
        elif k <= 5:
            self.string("")
        else:
            (self.array if k == 6 else self.object)(depth)
        self.space()

    def space(self) -> None:
        k = self.below(8)
        if k < 4:
            self.add(" \n\t\r"[k])

    def members(self, n: int, member: Callable[[int], None]) -> None:
        for j in range(n):
            if j:
                self.add(",")
            member(j)
        if n == 0:
            self.space()

    def array(self, depth: int) -> None:
        self.add("[")
        self.members(self.below(5), lambda j: self.value(depth + 1))
        self.add("]")

    def object(self, depth: int) -> None:
        def member(j: int) -> None:
            self.space()
            self.string(str(j))
            self.space()
            self.add(":")
            self.value(depth + 1)

        self.add("{")
        self.members(self.below(8), member)
        self.add("}")

    def digits(self, m: int) -> None:
        for _ in range(m):
            self.add(self.pick("0123456789000000"))

    def number(self) -> None:
        if self.below(2):
            self.add("-")
        k = self.below(4)
        if k == 0:
            self.add("0")
        else:
            m = self.below(8 * k)
            self.add(self.pick("123456789"))
            self.digits(m)
        if self.below(2):
            self.add(".")
            self.digits(1 + self.below(20))
        if self.below(3) == 0:
            self.add(self.pick("eE"))
            self.add(("", "+", "-")[self.below(3)])
            self.digits(1 + self.below(3))

    def string(self, last: str) -> None:
        self.add('"')
        for _ in range(self.below(12)):
            self.character()
        self.add(last + '"')

    def unit(self, u: int) -> None:
        self.add("\\u" + (f"{u:04X}" if self.below(2) else f"{u:04x}"))

    def character(self) -> None:
        k = self.below(8)
        if k <= 3:
            c = 0x20 + self.below(0x5F)
            self.add("\\" + chr(c) if chr(c) in '"\\' else chr(c))
        elif k == 4:
            self.add("\\" + self.pick('"\\/bfnrt'))
        elif k == 5:
            self.unit(self.below(0x800))
        elif k == 6:
            c = 0x80 + self.below(0xF780)
            self.add(chr(c + 0x800 if c >= 0xD800 else c))
        else:
            c = self.below(0x100000)
            if self.below(2):
                self.unit(0xD800 + (c >> 10))
                self.unit(0xDC00 + (c & 0x3FF))
            else:
                self.add(chr(0x10000 + c))


def test_generated() -> None:
    for index, case in enumerate(GENERATED["first"]):
        assert Generator(index).text(index) == case["json"]
        assert forms(case["json"].encode()) == (case["canonical"], case["fingerprint"])
    digest = "0" * 64
    for index in range(PLAYED):
        form, print_ = forms(Generator(index).text(index).encode())
        digest = semel.fingerprint([digest, form.encode().hex(), print_])
        if (index + 1) % 1000 == 0:
            assert digest == GENERATED["checkpoints"][index // 1000]
