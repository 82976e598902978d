"""The input of a job as a form that is made from its signature.

Every parameter is a field; what a person types is read by the parameter's type and then checked
by the job's own signature, the same way as any submit.
"""

from __future__ import annotations

import inspect
import json
import typing
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from sync_scheduler.admin.payloads import sensitive_names
from sync_scheduler.admin.tokens import TokenField
from sync_scheduler.errors import SchedulerError
from sync_scheduler.jobs.definition import Job

PREFIX = "input_"
_UNCHANGED = gettext_lazy("Not shown. Leave it empty to keep the stored value.")


class InputForm(forms.Form):
    """`encoded` is the checked input, after `is_valid()`."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=300,
        widget=forms.TextInput(attrs={"size": 60, "autocomplete": "off"}),
        help_text=gettext_lazy("Kept with the run, with your name and the time."),
    )
    token = TokenField()

    def __init__(
        self,
        data: Any = None,
        *,
        job: Job,
        stored: dict[str, Any],
        show_input: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(data, **kwargs)
        self.job = job
        self.stored = stored
        self.encoded: dict[str, Any] = dict(stored)
        self._secret = sensitive_names(job.name)
        self._hints = _hints(job)
        self.shows_input = show_input
        if show_input:
            for parameter in job.signature.parameters:
                if parameter.kind is not parameter.VAR_KEYWORD:
                    self.fields[PREFIX + parameter.name] = self._field(parameter)

    def _field(self, parameter: inspect.Parameter) -> forms.Field:
        name = parameter.name
        hint = self._hints.get(name, Any)
        required = parameter.default is parameter.empty
        if name in self._secret:
            return forms.CharField(
                label=name,
                required=required and name not in self.stored,
                widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
                help_text=_UNCHANGED if name in self.stored else "",
            )
        default = None if required else _plain(parameter.default)
        value = self.stored.get(name, default)
        if hint is bool:
            return forms.BooleanField(label=name, required=False, initial=bool(value))
        if (choices := _choices(hint)) is not None:
            return forms.ChoiceField(
                label=name, choices=[(_shown(c), str(c)) for c in choices], initial=_shown(value)
            )
        help_text = _type_name(hint)
        if not required:
            help_text = _("%(type)s, default %(default)s") % {
                "type": help_text,
                "default": _shown(default),
            }
        initial = value if hint is str and isinstance(value, str) else _shown(value)
        if required and name not in self.stored:
            initial = ""
        is_long = hint not in (str, int, float) and len(str(initial)) > 60
        widget: forms.Widget = (
            forms.Textarea(attrs={"rows": 5, "cols": 60})
            if is_long
            else forms.TextInput(attrs={"size": 40, "autocomplete": "off"})
        )
        return forms.CharField(
            label=name,
            required=required and hint is not str,
            initial=initial,
            help_text=help_text,
            widget=widget,
            strip=hint is not str,
        )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if self.errors or not self.shows_input:
            return cleaned
        given = {name: value for name, value in self.stored.items() if not self._is_field(name)}
        for parameter in self.job.signature.parameters:
            field = PREFIX + parameter.name
            if field in self.fields:
                self._read(parameter.name, cleaned.get(field), given)
        if self.errors:
            return cleaned
        try:
            self.encoded = self.job.signature.encode((), given)
        except SchedulerError as error:
            self.add_error(None, str(error))
        return cleaned

    def _is_field(self, name: str) -> bool:
        return PREFIX + name in self.fields

    def _read(self, name: str, value: Any, given: dict[str, Any]) -> None:
        if name in self._secret and value in ("", None):
            if name in self.stored:
                given[name] = self.stored[name]
            return
        hint = self._hints.get(name, Any)
        if isinstance(value, bool) or hint is str:
            given[name] = value
            return
        if value in ("", None):
            return  # the handler's own default
        try:
            given[name] = json.loads(value)
        except ValueError:
            # Dates, ids and free text need no quotes.
            given[name] = value


def _hints(job: Job) -> dict[str, Any]:
    try:
        return typing.get_type_hints(job.func)
    except Exception:  # noqa: BLE001  # whatever a hint names may be missing
        return {}


def _choices(hint: Any) -> tuple[Any, ...] | None:
    return typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else None


def _type_name(hint: Any) -> str:
    if hint is Any:
        return _("JSON")
    return getattr(hint, "__name__", str(hint)) if isinstance(hint, type) else str(hint)


def _plain(value: Any) -> Any:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return str(value)
    return value


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
