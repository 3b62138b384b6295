"""The estimator around a rival that is trained by the one loop: as V-IP's, with settings of the method's own."""

from typing import Any, ClassVar

from pursuit.estimators import NetworkClassifier
from pursuit.networks import NetworkSettings
from pursuit.queries import QuerySet
from pursuit.stages import Stage
from pursuit.stopping import StoppingRule


class RivalClassifier(NetworkClassifier):
    """An estimator whose method has settings of its own.

    Parameters
    ----------
    query_set, stop, max_queries, network, shared, standardise, stages, random_state, device
        As for every estimator with networks (`NetworkClassifier`). `stages` are those of V-IP: the method trains on as
        many histories with the same batches, of the kinds it learns from.
    settings : optional
        The settings of the method, a frozen dataclass of the kind `Settings`. By default as published.
    """

    Settings: ClassVar[type[Any]]

    def __init__(
        self,
        query_set: QuerySet | None = None,
        *,
        stop: StoppingRule | str | None = None,
        max_queries: int | None = None,
        network: NetworkSettings | None = None,
        shared: bool = False,
        standardise: bool = False,
        stages: list[Stage] | None = None,
        settings: Any = None,
        random_state: Any = None,
        device: str = "cpu",
    ):
        super().__init__(
            query_set,
            stop=stop,
            max_queries=max_queries,
            network=network,
            shared=shared,
            standardise=standardise,
            stages=stages,
            random_state=random_state,
            device=device,
        )
        self.settings = settings

    def _check_settings(self) -> None:
        if self.settings is not None and not isinstance(self.settings, self.Settings):
            raise TypeError(
                f"The settings of {type(self).__name__} are {self.Settings.__name__}(...), not {self.settings!r}."
            )

    @property
    def _own(self) -> Any:
        """The settings of the method."""
        return self.Settings() if self.settings is None else self.settings
