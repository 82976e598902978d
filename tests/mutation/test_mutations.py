"""Every mutation still fits the source, leaves Python that compiles, and names tests that exist."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.mutation import run
from tests.mutation.cuts import Cut, DoesNotApply, Mutation
from tests.mutation.mutations import MUTATIONS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_a_mutation_applies(mutation: Mutation) -> None:
    changed = mutation.apply(ROOT)
    for path, text in changed.items():
        assert text != path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            compile(text, str(path), "exec")


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_the_tests_of_a_mutation_exist(mutation: Mutation) -> None:
    for test in mutation.tests:
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_a_safeguard_that_is_gone_is_an_error() -> None:
    with pytest.raises(DoesNotApply, match="no such thing"):
        Cut("*.py", "no such thing").apply({}, ROOT)


def test_names_are_unique() -> None:
    names = [mutation.name for mutation in MUTATIONS]
    assert len(set(names)) == len(names)


def test_a_name_that_no_safeguard_has_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["no such safeguard"]) == 1
    assert "No safeguard has 'no such safeguard' in its name" in capsys.readouterr().err


def test_tests_that_do_not_end_are_no_sign_that_something_was_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def hang(*arguments: object, **options: object) -> None:
        raise subprocess.TimeoutExpired("pytest", 1)

    bench = run.Bench(tmp_path)
    monkeypatch.setattr(subprocess, "run", hang)
    watermark = next(one for one in MUTATIONS if one.name == "watermark")
    outcome = run._try(bench, watermark, "sqlite")
    assert not outcome.is_good
    assert "the tests could not be run" in capsys.readouterr().out
