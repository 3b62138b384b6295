"""Models of a querier and a classifier network whose method has settings of its own."""

from typing import Any, ClassVar, Self

from torch import Tensor, nn

from pursuit.inference.pursuer import Labels
from pursuit.queries import QuerySet
from pursuit.registry import from_config, to_config
from pursuit.training.learner import QuerierClassifier


class MethodModel(QuerierClassifier):
    """A querier and a classifier network, with the settings of their method, which are saved with them."""

    Settings: ClassVar[type[Any]]
    settings: Any

    def __init__(
        self,
        query_set: QuerySet,
        classes: Labels,
        querier: nn.Module,
        classifier: nn.Module,
        prior: Tensor | None = None,
        standardised: bool = False,
        settings: Any = None,
    ):
        super().__init__(query_set, classes, querier, classifier, prior, standardised)
        self.settings = self.Settings() if settings is None else settings
        self.prepare()

    def prepare(self) -> None:
        """Register what the method needs besides networks and settings, which are in place."""
        return

    def extra_repr(self) -> str:
        return repr(self.settings)

    def to_config(self) -> dict[str, Any]:
        return {**super().to_config(), "settings": to_config(self.settings)}

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        return cls.build(query_set, classes, **from_config(config))  # which has the names of `build`
