"""Keys of a Serve config that no field of Ray's schema takes.

Ray Serve ignores such keys, so a misspelt option silently keeps its default.
"""

import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import AliasChoices, BaseModel


def unknown_keys(model: type[BaseModel], data: Any, path: str = "") -> list[str]:
    """Paths of the keys in `data` that `model` has no field for, such as `applications[0].deploymets`.

    Descends wherever a field's type names a model, also as one choice of several (`Dict | AutoscalingConfig`). Plain
    dictionaries (`args`, `user_config`, `runtime_env`) are the application's, and not looked into. Values are not
    checked: that is `model.model_validate`'s part.
    """
    if not isinstance(data, dict):
        return []
    fields = {name: field.annotation for key, field in model.model_fields.items() for name in _names(key, field)}
    unknown = []
    for key, value in data.items():
        place = f"{path}.{key}" if path else str(key)
        if key in fields:
            unknown += _below(fields[key], value, place)
        else:
            unknown.append(place)
    return unknown


def _names(key: str, field: Any) -> Iterator[str]:
    """What the field may be called in data: its own name and its aliases."""
    yield key
    for alias in (field.alias, field.validation_alias):
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
        yield from (choice for choice in choices if isinstance(choice, str))


def _below(annotation: Any, value: Any, path: str) -> list[str]:
    if isinstance(value, list):
        items = [item for choice in _choices(annotation) for item in typing.get_args(choice)]
        union = typing.Union[tuple(items)] if items else Any
        return [key for at, item in enumerate(value) for key in _below(union, item, f"{path}[{at}]")]
    models = [choice for choice in _choices(annotation) if isinstance(choice, type) and issubclass(choice, BaseModel)]
    # With several models the value is taken as the one that it fits best.
    return min((unknown_keys(model, value, path) for model in models), key=len, default=[])


def _choices(annotation: Any) -> list[Any]:
    """The members of a union, however deep; anything else is its own only choice."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _choices(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [choice for member in typing.get_args(annotation) for choice in _choices(member)]
    return [annotation]
