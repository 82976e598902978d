"""A codec that cannot be used is said in one sentence, before anything starts."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from sync_scheduler import checks
from sync_scheduler.errors import InvalidSetting
from sync_scheduler.jobs import codec, payload
from tests.integration.commands.shell import failing


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nowhere.Codec", "'nowhere.Codec' cannot be used: No module named 'nowhere'."),
        ("Codec", "'Codec' cannot be used: Codec doesn't look like a module path."),
        ("tests.testapp.codecs.Nothing", 'does not define a "Nothing"'),
        ("tests.testapp.codecs.broken", "cannot be used: RuntimeError."),
        ("tests.testapp.codecs.os", "cannot be used: TypeError."),
        ("tests.testapp.codecs.HalfMade", "gives an object without decode()."),
    ],
)
def test_a_codec_that_cannot_be_used_is_a_check_error(
    settings: Settings, path: str, words: str
) -> None:
    # S13, C7
    settings.SYNC_SCHEDULER = {"PAYLOAD_CODEC": path}
    (found,) = checks.check_settings()
    assert found.id == checks.E001
    assert words in found.msg
    assert len(found.msg.splitlines()) == 1
    with pytest.raises(InvalidSetting):
        codec.seal({"a": 1})


@pytest.mark.parametrize("name", ["Toy", "made_by_a_function"])
def test_a_class_or_a_function_will_do(settings: Settings, name: str) -> None:
    # S13
    settings.SYNC_SCHEDULER = {"PAYLOAD_CODEC": f"tests.testapp.codecs.{name}"}
    assert checks.check_settings() == []
    sealed = codec.seal({"a": 1})
    assert payload.is_sealed(sealed)
    assert codec.unseal(sealed, "It") == {"a": 1}


@pytest.mark.django_db
def test_the_doctor_finds_it_too(settings: Settings) -> None:
    # S13, D3
    settings.SYNC_SCHEDULER = {"PAYLOAD_CODEC": "nowhere.Codec"}
    shown, _ = failing("doctor")
    assert "'nowhere.Codec' cannot be used" in shown
