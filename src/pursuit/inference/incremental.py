"""The state of histories that grow answer by answer, without computing again what an answer does not change.

A pursuer is two functions of a history. Rollouts and sessions, which go on from answer to answer, hold a `HistoryState`
of it instead: the histories of B rows, with whatever saves work. A pursuer that can save work has a method
`history_state(history)`; of any other, the two functions are called each time.
"""

from collections.abc import Callable
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer
from pursuit.networks.first_layer import SplitNetworks, split_first_layer
from pursuit.queries import QuerySet

LOOKUP_COST = 8
"""Reading the weights of one input, row by row, takes as long as multiplying this many inputs in one matrix product:
5 to 10 for 1024 rows on one core of a Neoverse N1, about 2 for 32 rows, and less for a single row."""


class HistoryState:
    """The histories of B rows, and what a pursuer asks and believes there, computed from scratch each time."""

    def __init__(self, pursuer: Pursuer, history: History):
        self._pursuer, self._history = pursuer, history

    @property
    def asked(self) -> Tensor:
        """(B, Q) bool; valid until the next query is asked."""
        return self._history.asked

    def log_posterior(self) -> Tensor:
        """(B, C)"""
        return self._pursuer.log_posterior(self._history)

    def scores(self) -> Tensor:
        """(B, Q)"""
        return self._pursuer.scores(self._history)

    def information(self) -> Tensor | None:
        """(B, Q) the bits that each query is expected to give, for pursuers that know them beside their scores."""
        return None

    def ask(self, query: Tensor, answered: Tensor) -> None:
        """Ask each row a `query` (B,) that it was not asked yet; its answer stands in `x` where it was `answered`."""
        self._history = self._history.record(query, answered)

    def ask_one(self, query: int, answered: bool) -> None:
        """The same where there is a single row."""
        device = self.asked.device
        self.ask(torch.tensor([query], device=device), torch.tensor([answered], device=device))

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these."""
        self._history = self._history.rows(rows)

    def stand_for(self, x: Tensor) -> None:
        """Let other rows `x` (B, *answer_shape) have these histories, whose answers are the same where they are
        known."""
        self._history = History(x, self._history.known, self._history.asked)

    def restart(self, history: History) -> "HistoryState":
        """The state of other histories, which shares with this one what does not depend on them."""
        return history_state(self._pursuer, history)


class EvidenceState(HistoryState):
    """A state whose answers add evidence for the classes. Subclasses set the numbers of the rows (B,), the queries
    asked (B, Q) and the evidence (B, C), logarithms of joint probabilities."""

    _rows: Tensor
    _asked: Tensor
    _evidence: Tensor

    @property
    def asked(self) -> Tensor:
        return self._asked

    def log_posterior(self) -> Tensor:
        return self._evidence.log_softmax(dim=1)

    def keep(self, rows: Tensor) -> None:
        self._rows, self._asked, self._evidence = self._rows[rows], self._asked[rows], self._evidence[rows]


def history_state(pursuer: Pursuer, history: History) -> HistoryState:
    """The state of a pursuer at these histories. Answers may be written into `history.x` until they are asked for."""
    make = getattr(pursuer, "history_state", None)
    return HistoryState(pursuer, history) if make is None else make(history)


class TwoNetworks(Protocol):
    """What a state needs to know of a pursuer that is a querier and a classifier network."""

    query_set: QuerySet
    querier: nn.Module
    classifier: nn.Module

    def network_input(self, x: Tensor, known: Tensor) -> Tensor: ...

    def standardise_features(self, values: Tensor, features: Tensor | slice) -> Tensor: ...

    def log_probabilities(self, logits: Tensor, n_known: Tensor) -> Tensor: ...

    def scores_from(self, outputs: Tensor, log_posterior: Callable[[], Tensor]) -> Tensor: ...

    def expected_information(self, history: History) -> Tensor | None: ...


def network_state(model: TwoNetworks, history: History) -> HistoryState:
    """The fastest state of the model: by single answers, or with what both networks share computed once."""
    inputs = model.query_set.own_inputs
    if inputs is not None and inputs.per_answer * LOOKUP_COST <= inputs.n_inputs:
        split = split_first_layer(model.querier, model.classifier, inputs.n_inputs)
        if split is not None:
            return FirstLayerState(model, split, history)
    return SharedInputState(model, history)


class SharedInputState(HistoryState):
    """Computes once a step what querier and classifier share: their input, and a trunk if they have one.

    The input is changed in place where the query set can do that, as patches can: an answer changes only its pixels.
    """

    def __init__(self, model: TwoNetworks, history: History):
        super().__init__(cast(Pursuer, model), history)
        self._model = model
        querier, classifier = model.querier, model.classifier
        self._trunk: nn.Module = nn.Identity()
        if isinstance(querier, nn.Sequential) and isinstance(classifier, nn.Sequential) and querier[0] is classifier[0]:
            self._trunk, querier, classifier = querier[0], querier[1:], classifier[1:]
        self._querier_head, self._classifier_head = querier, classifier
        self._input: Tensor | None = None  # of the networks, for the histories as they are now
        self._features: Any = None  # a tensor, or a list of them: what the trunk makes of it
        self._log_posterior: Tensor | None = None

    def _read(self) -> Any:
        if self._features is None:
            if self._input is None:
                self._input = self._model.network_input(self._history.x, self._history.known).contiguous()
            self._features = self._trunk(self._input)
        return self._features

    def log_posterior(self) -> Tensor:
        if self._log_posterior is None:
            logits = self._classifier_head(self._read())
            self._log_posterior = self._model.log_probabilities(logits, self._history.n_known)
        return self._log_posterior

    def scores(self) -> Tensor:
        return self._model.scores_from(self._querier_head(self._read()), self.log_posterior)

    def information(self) -> Tensor | None:
        return self._model.expected_information(self._history)

    def ask(self, query: Tensor, answered: Tensor) -> None:
        super().ask(query, answered)
        self._features = self._log_posterior = None
        if self._input is not None and not self._model.query_set.reveal(self._input, self._history.x, query, answered):
            self._input = None

    def keep(self, rows: Tensor) -> None:
        super().keep(rows)
        has_trunk = self._features is not self._input
        self._input = None if self._input is None else self._input[rows]
        if not has_trunk:
            self._features = self._input
        elif isinstance(self._features, list):
            self._features = [part[rows] for part in self._features]
        elif self._features is not None:
            self._features = self._features[rows]
        self._log_posterior = None if self._log_posterior is None else self._log_posterior[rows]


class FirstLayerState(HistoryState):
    """For networks whose input enters by one linear map: an answer adds its rows of that map, and no input is made."""

    def __init__(self, model: TwoNetworks, networks: SplitNetworks, history: History):
        assert model.query_set.own_inputs is not None
        self._model, self._inputs, self._networks = model, model.query_set.own_inputs, networks
        self._x, self._rows = history.x, torch.arange(len(history), device=history.x.device)
        self._asked, self._known, self._n_known = history.asked.clone(), history.known.clone(), history.n_known
        if history.x.is_cuda or self._n_known.any():  # a CUDA graph cannot record any()
            self._hidden = networks.start(model.network_input(history.x, history.known))  # (B, H)
        else:
            self._hidden = networks.bias.repeat(len(history), 1)
        self._features: Tensor | None = None  # of a shared trunk
        self._log_posterior: Tensor | None = None

    @property
    def asked(self) -> Tensor:
        return self._asked

    def _read(self) -> Tensor:
        if not self._networks.is_shared:
            return self._hidden
        if self._features is None:
            self._features = self._networks.features(self._hidden)
        return self._features

    def log_posterior(self) -> Tensor:
        if self._log_posterior is None:
            self._log_posterior = self._model.log_probabilities(self._networks.logits(self._read()), self._n_known)
        return self._log_posterior

    def scores(self) -> Tensor:
        return self._model.scores_from(self._networks.scores(self._read()), self.log_posterior)

    def information(self) -> Tensor | None:
        return self._model.expected_information(History(self._x[self._rows], self._known, self._asked))

    def ask(self, query: Tensor, answered: Tensor) -> None:
        if len(query) == 1 and self._inputs.are_plain:
            self.ask_one(int(query), bool(answered))
            return
        self._asked.scatter_(1, query[:, None], True)
        self._known.scatter_(1, query[:, None], answered[:, None])
        self._networks.reveal(self._hidden, *self._revealed(query, answered))
        self._n_known = self._n_known + answered
        self._features = self._log_posterior = None

    def _revealed(self, query: Tensor, answered: Tensor) -> tuple[Tensor, Tensor]:
        """The inputs that the answers to `query` (B,) have, and their values: (B, w) each."""
        features, there, known = self._inputs.place(query)
        values = self._model.standardise_features(self._x[self._rows[:, None], features], features)
        values = self._inputs.shown(values)
        if there is not None:
            values = values * there
        if (code := self._inputs.codes(query, self._x, self._rows)) is not None:
            features, values = (torch.cat(parts, dim=1) for parts in zip((features, values), code, strict=True))
        if known is not None:
            features = torch.cat([features, known], dim=1)
            values = torch.cat([values, torch.ones_like(known, dtype=values.dtype)], dim=1)
        return features, values.masked_fill(~answered[:, None], 0).to(self._hidden.dtype)

    def ask_one(self, query: int, answered: bool) -> None:
        if not self._inputs.are_plain:
            super().ask_one(query, answered)
            return
        # Every small operation counts here, so positions are plain numbers and not tensors.
        self._asked[0, query] = True
        if not answered:
            return
        features = self._inputs.features(query)
        values = self._model.standardise_features(self._x[int(self._rows), features], features)[None].to(
            self._hidden.dtype
        )
        known = self._inputs.n_shown + query if self._inputs.mask else None
        self._networks.reveal_one(self._hidden, features, values, known)
        self._known[0, query] = True
        self._n_known = self._n_known + 1
        self._features = self._log_posterior = None

    def stand_for(self, x: Tensor) -> None:
        self._x, self._rows = x, torch.arange(len(x), device=x.device)

    def restart(self, history: History) -> HistoryState:
        return FirstLayerState(self._model, self._networks, history)

    def keep(self, rows: Tensor) -> None:
        self._rows, self._asked, self._known = self._rows[rows], self._asked[rows], self._known[rows]
        self._n_known = self._n_known[rows]
        self._hidden = self._hidden[rows]
        self._features = None if self._features is None else self._features[rows]
        self._log_posterior = None if self._log_posterior is None else self._log_posterior[rows]
