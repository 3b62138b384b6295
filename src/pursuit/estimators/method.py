"""Methods: estimators by the names they have in the program, in tables and in figures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from pursuit.estimators.classifier import PursuitClassifier
from pursuit.registry import register

E = TypeVar("E", bound=type[PursuitClassifier])


@dataclass(frozen=True)
class Method:
    """A way to ask and to believe, by name."""

    registry_kind: ClassVar[str] = "method"

    name: str
    """In the program."""
    title: str
    """In figures and tables."""
    estimator: type[PursuitClassifier]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Of the estimator, where they make it this method."""

    @property
    def registry_origin(self) -> type:
        return self.estimator


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
    """The settings of the method, a `Settings`. By default those of `default_settings`."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.settings is not None and not isinstance(self.settings, self.Settings):
            raise TypeError(
                f"The settings of {type(self).__name__} are {self.Settings.__name__}(...), not {self.settings!r}."
            )

    def settings_for(self, query_set: Any) -> Any:
        """The settings given, or the defaults for this query set."""
        return self.default_settings(query_set) if self.settings is None else self.settings

    def default_settings(self, query_set: Any) -> Any:
        return self.Settings()
