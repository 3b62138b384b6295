"""Methods: estimators by the names they have in the program, in tables and in figures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, TypeVar

from pursuit.estimators.classifier import PursuitClassifier, PursuitEstimator
from pursuit.queries import QuerySet
from pursuit.registry import register

E = TypeVar("E", bound=type[PursuitEstimator])


@dataclass(frozen=True)
class Method:
    """A way to ask and to believe, by name."""

    registry_kind: ClassVar[str] = "method"

    name: str
    """In the program."""
    title: str
    """In figures and tables."""
    estimator: type[PursuitEstimator]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Of the estimator, where they make it this method."""

    def accepts(self, parameter: str) -> bool:
        """Whether the estimator, or the settings of its method, have this parameter, and the method leaves it open."""
        of_settings = _names(getattr(self.estimator, "Settings", None))
        return parameter not in self.parameters and parameter in _names(self.estimator) | of_settings

    def build(self, query_set: QuerySet | None = None, **parameters: Any) -> Any:
        """The estimator with those of the parameters that it or its settings have, and with the method's own."""
        accepted = {name: value for name, value in parameters.items() if self.accepts(name)}
        of_estimator = _names(self.estimator)
        own = {name: value for name, value in accepted.items() if name in of_estimator}
        estimator = self.estimator(query_set, **{**own, **self.parameters})
        of_settings = {name: value for name, value in accepted.items() if name not in of_estimator}
        if of_settings and isinstance(estimator, MethodClassifier):
            estimator.settings = replace(estimator.chosen_settings, **of_settings)
        return estimator

    @property
    def predicts_numbers(self) -> bool:
        """Whether it predicts a number, and not a class."""
        return not issubclass(self.estimator, PursuitClassifier)

    @property
    def registry_origin(self) -> type:
        return self.estimator


def _names(cls: Any) -> set[str]:
    return {field.name for field in fields(cls)} if is_dataclass(cls) else set()


def method(name: str, title: str, **parameters: Any) -> Callable[[E], E]:
    """Register the estimator below as the method `name`; `parameters` are those that make it this method."""

    def registered(estimator: E) -> E:
        register(estimator)
        register(Method(name, title, estimator, parameters))
        return estimator

    return registered


@dataclass(kw_only=True, eq=False, repr=False)
class MethodClassifier(PursuitClassifier):
    """An estimator whose method has settings of its own, a frozen dataclass."""

    Settings: ClassVar[type[Any]]
    settings: Any = None
    """The settings of the method, a `Settings`. By default `Settings()`."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.settings is not None and not isinstance(self.settings, self.Settings):
            raise TypeError(
                f"The settings of {type(self).__name__} are {self.Settings.__name__}(...), not {self.settings!r}."
            )

    @property
    def chosen_settings(self) -> Any:
        """The settings given, or the defaults of the method."""
        return self.Settings() if self.settings is None else self.settings
