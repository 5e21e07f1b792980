"""What is right of a model with faults, so that everything else about it can be told as well.

Pydantic stops at faulty fields: the rules of the model, and of those around it,
are not looked at. Here the fields are taken one by one. What is left is a
model whose faulty fields are not there (``sim.core.rules.Unusable``), and
the rules that are broken whatever these were meant to be.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError, create_model
from pydantic.fields import FieldInfo

from sim.core.fields import SALVAGED, Model
from sim.core.rules import Hole, Problem, Unusable, broken
from sim.core.suggest import SLIP, meant, nearest
from sim.scenario.translate import kinds, members

Part = TypeVar("Part", bound=BaseModel)
Location = tuple[str | int, ...]


@dataclass
class Salvage:
    """Takes models with faults apart.

    ``broken`` are their rules that do not hold, ``misnamed`` what else is wrong
    with models whose ``kind`` is a slip of the pen; each with where the model is.
    """

    broken: list[tuple[Location, Problem]] = field(default_factory=list)
    misnamed: list[tuple[Location, type[BaseModel], ValidationError]] = field(default_factory=list)

    def model(
        self, model: type[Part], written: Any, error: ValidationError, here: Location = ()
    ) -> Part | None:
        """What is right of ``written``, which ``error`` says is no ``model``; None if nothing."""
        values = _completed(model, written)
        if not isinstance(values, Mapping) or not issubclass(model, Model):
            return None
        faulty = {str(detail["loc"][0]) for detail in error.errors() if detail["loc"]}
        found = blank(model)
        keys = {name: each.alias or name for name, each in model.model_fields.items()}
        misspelt = meant(values, keys.values())
        for name, key in keys.items():
            if key in values:
                found.model_fields_set.add(name)
                value = self._field(model, name, values[key], key in faulty, (*here, key))
            else:
                value = Hole() if key in misspelt else _default(model.model_fields[name], found)
            if not isinstance(value, Hole):
                found.__dict__[name] = value
        self.broken += [(here, problem) for problem in broken(found)]
        return found

    def _field(
        self, model: type[BaseModel], name: str, value: Any, faulty: bool, here: Location
    ) -> Any:
        if faulty:
            return self._rest(model.model_fields[name].annotation, value, here)
        try:
            return getattr(_alone(model, name).model_validate({here[-1]: value}), name)
        except ValidationError:
            return Hole()

    def _rest(self, annotation: Any, value: Any, here: Location) -> Any:
        """What is right of ``value``, which has a fault or is a list or a mapping that has."""
        for each in members(annotation):
            origin, inner = get_origin(each), get_args(each)
            if isinstance(value, tuple) and origin is tuple:
                read = self._reader(inner[0])
                return tuple([read(item, (*here, index)) for index, item in enumerate(value)])
            if not isinstance(value, Mapping):
                continue
            if isinstance(origin, type) and issubclass(origin, Mapping):
                read = self._reader(inner[1])
                return {key: read(item, (*here, key)) for key, item in value.items()}
            if isinstance(each, type) and issubclass(each, BaseModel) and _is_of(each, value):
                return self._reader(each)(value, here)
        return self._misnamed(annotation, value, here)

    def _misnamed(self, annotation: Any, value: Any, here: Location) -> Any:
        """What is right of ``value`` if its ``kind`` is nearly that of one of the models."""
        models = {kind: each for each in members(annotation) for kind in kinds(each)}
        written = value.get("kind") if isinstance(value, Mapping) else None
        slip = nearest(written, models, SLIP) if isinstance(written, str) else None
        if slip is None or written == slip:
            return Hole()
        model, value = models[slip], {**value, "kind": slip}
        try:
            model.model_validate(value, by_alias=True, by_name=False)
        except ValidationError as error:
            self.misnamed.append((here, model, error))
        return self._whole(model, value, here)

    def _reader(self, annotation: Any) -> Callable[[Any, Location], Any]:
        """Reads values of the type ``annotation`` that may be right or not."""
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return lambda value, here: self._whole(annotation, value, here)
        name = "value"
        fields: dict[str, Any] = {name: (annotation, ...)}
        alone = create_model("Alone", __config__=Model.model_config, **fields)

        def read(value: Any, here: Location) -> Any:
            try:
                return getattr(alone.model_validate({name: value}), name)
            except ValidationError:
                return self._rest(annotation, value, here)

        return read

    def _whole(self, model: type[BaseModel], value: Any, here: Location) -> Any:
        try:
            return model.model_validate(value, by_alias=True, by_name=False)
        except ValidationError as error:
            found = self.model(model, value, error, here)
            return Hole() if found is None else found


def blank(model: type[Part]) -> Part:
    """A ``model`` of which nothing is known."""
    found = model.__new__(model)
    object.__setattr__(found, "__dict__", {SALVAGED: True})
    object.__setattr__(found, "__pydantic_fields_set__", set())
    object.__setattr__(found, "__pydantic_extra__", None)
    object.__setattr__(found, "__pydantic_private__", None)
    return found


class _Known(dict[str, Any]):
    """Fields for the default of another, which may ask for one that is not there."""

    def __missing__(self, name: str) -> Any:
        raise Unusable

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]


def _completed(model: type[BaseModel], values: Any) -> Any:
    """As the model's own validators complete what is written, before it is looked at."""
    for name, each in model.__pydantic_decorators__.model_validators.items():
        if each.info.mode == "before":
            values = getattr(model, name)(values)
    return values


def _default(missing: FieldInfo, found: BaseModel) -> Any:
    if missing.is_required():
        return Hole()
    try:
        return missing.get_default(call_default_factory=True, validated_data=_Known(found.__dict__))
    except Unusable:
        return Hole()


def _is_of(model: type[BaseModel], value: Mapping[str, Any]) -> bool:
    """Whether ``value`` is of the ``kind`` that the model is for, if it is for one."""
    known = kinds(model)
    return not known or value.get("kind", model.model_fields["kind"].default) in known


@cache
def _alone(model: type[BaseModel], name: str) -> type[BaseModel]:
    """A model with one field of ``model``."""
    each = model.model_fields[name]
    fields: dict[str, Any] = {name: (each.annotation, each)}
    return create_model("Alone", __config__=model.model_config, **fields)
