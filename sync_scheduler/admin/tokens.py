"""Tokens: one per form that was handed out, so that sending it twice does one thing."""

from __future__ import annotations

import secrets

from django import forms
from django.core.validators import RegexValidator

_SHAPE = RegexValidator(r"\A[A-Za-z0-9_-]{16,64}\Z")


def new() -> str:
    return secrets.token_urlsafe(18)


class TokenField(forms.CharField):
    """Hidden; becomes the key of what the form submits."""

    def __init__(self) -> None:
        super().__init__(widget=forms.HiddenInput, validators=[_SHAPE], initial=new)
