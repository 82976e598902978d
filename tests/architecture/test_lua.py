"""Each Lua script says what it is for, and what its keys and arguments mean."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.package import PACKAGE

SCRIPTS = sorted((PACKAGE / "coordination" / "scripts").glob("*.lua"))


def faults(script: str) -> list[str]:
    """What the header lacks. It is the block of comments that the script begins with."""
    lines = script.splitlines()
    header = [line for line in lines[: _first_code(lines)] if line.startswith("--")]
    text, code = "\n".join(header), "\n".join(lines[_first_code(lines) :])
    found = []
    if not header or not re.match(r"-- (?!KEYS|ARGV|Returns)[A-Z].*\w", header[0]):
        found.append("the first line does not say the purpose")
    if not re.search(r"^-- Returns +\S", text, re.MULTILINE):
        found.append("no line `-- Returns`")
    for kind in ("KEYS", "ARGV"):
        used = set(re.findall(rf"\b{kind}\[\d+\]", code))
        said = set(re.findall(rf"^-- ({kind}\[\d+\])", text, re.MULTILINE))
        # `KEYS` without a number describes all of them, for scripts that take any number.
        covers_all = re.search(rf"^-- {kind} +\S", text, re.MULTILINE) is not None
        if not said and not covers_all:
            found.append(f"no line `-- {kind}`")
        elif not covers_all:
            found += [f"{name} is used but not described" for name in sorted(used - said)]
        found += [f"{name} is described but not used" for name in sorted(said - used)]
    return found


def _first_code(lines: list[str]) -> int:
    return next((i for i, line in enumerate(lines) if not line.startswith("--")), len(lines))


def test_there_are_scripts() -> None:
    assert SCRIPTS


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_the_header_says_purpose_keys_arguments_and_return(path: Path) -> None:
    assert not faults(path.read_text())


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_the_name_is_a_verb_and_a_noun(path: Path) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", path.stem)


WHOLE = "-- Do it.\n-- KEYS[1]  the key\n-- ARGV     none\n-- Returns  1\nreturn KEYS[1]\n"


@pytest.mark.parametrize(
    "script",
    [
        WHOLE.replace("-- Do it.\n", ""),
        WHOLE.replace("-- Returns  1\n", ""),
        WHOLE.replace("-- ARGV     none\n", ""),
        WHOLE.replace("-- KEYS[1]  the key\n", ""),
        WHOLE + "local a = KEYS[2]\n",
        WHOLE.replace("return KEYS[1]", "return 1"),
    ],
)
def test_a_gap_in_the_header_is_noticed(script: str) -> None:
    assert not faults(WHOLE)
    assert faults(script)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_carry_ids_and_interpret_nothing(path: Path) -> None:
    # R4: Lua's JSON turns [] into {} and rounds large numbers; unpack fails on long lists
    code = "\n".join(
        line for line in path.read_text().splitlines() if not line.strip().startswith("--")
    )
    assert not re.findall(r"cjson|cmsgpack|\bunpack\b|tonumber\(redis", code)
