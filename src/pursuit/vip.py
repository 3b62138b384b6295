"""Variational Information Pursuit: the algorithm, with two ways to learn what to ask.

A querier g scores queries and a classifier f predicts the label, both from a history S of answers. Trained together on

    min over f, g of   E_{X, S} [ -log f(Y | {q, q(X)} u S) ],   q = argmax g(S)

the querier learns to ask the query with the most mutual information with the label given the history, because the loss
after an answer is lowest, on average, for the most informative one (docs/algorithm.md has the argument).

`VIP` is the paper's way: the choice is hard, and its gradient is that of a softmax. That gradient comes from a single
answer and label, and says little about which of hundreds of queries was best. `InformationVIP` trains the same
classifier on the histories of its own queries, but asks by the expected information of an `AnswerModel`, which learns
from every answer of a row. `VIP` may have an answer model too; it then does not choose queries, but says how many bits
they are expected to give.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.inference.history import History
from pursuit.inference.pursuer import ASKED, Labels, PossibleAnswer, ScoreUnit, choose, per_cost
from pursuit.inference.unusual import NEVER
from pursuit.information import AnswerModel
from pursuit.networks import MLP, TrunkAndHeads
from pursuit.queries import QuerySet
from pursuit.registry import register
from pursuit.training.learner import ModelSpec, QuerierClassifier
from pursuit.training.lookahead import Lookahead
from pursuit.training.rows import Rows
from pursuit.training.samplers import Batch, TrainingOutcome

MOST_LABELS = 64
"""Most labels of a row that training estimates information on; prediction uses all of them."""


@register
class VIP(QuerierClassifier):
    """A querier and a classifier that learn what to ask and what to believe by one objective."""

    unusual_from: Tensor
    may_be_infinite = (*QuerierClassifier.may_be_infinite, "unusual_from")
    label_kernel: Tensor | None

    def __init__(
        self,
        spec: ModelSpec,
        querier: nn.Module,
        classifier: nn.Module,
        *,
        answer_model: AnswerModel | None = None,
        reader: nn.Module | None = None,
    ):
        super().__init__(spec, querier, classifier)
        self.answer_model, self.reader = answer_model, reader
        """The answer model, and the network that reads the history for it."""
        self.lookahead: Lookahead | None = None
        """While it is trained: what lies beyond the next answer, if the querier learns to look there."""
        # (Q + 1,) oddness beyond which answers are unusual, by the number of known ones: see `inference/unusual.py`
        self.register_buffer("unusual_from", torch.full((len(spec.query_set) + 1,), NEVER))
        # (C, C) weight with which a training row of each label counts for the others, where labels are ordered
        self.register_buffer("label_kernel", None, persistent=False)

    @classmethod
    def _with_fresh_networks(cls, spec: ModelSpec, *, answer_model: AnswerModel | None = None, **parts: Any) -> Self:
        reader = None if answer_model is None else fresh_reader(spec, answer_model)
        return cls(spec, *spec.networks(), answer_model=answer_model, reader=reader, **parts)

    def look_ahead(self, n_answers: int) -> None:
        """Train the straight-through querier on the losses of so many answers ahead; 1: of the next one alone."""
        self.lookahead = None
        if n_answers > 1:
            assert self.spec.network is not None
            _, value = self.spec.network.build(self.query_set, 1, shared=False)
            self.lookahead = Lookahead(starting_at_zero(value), n_answers)

    def schedule(self, share: float) -> None:
        if self.lookahead is not None:
            self.lookahead.schedule(share)

    @torch.no_grad()
    def start_from_counts(self, rows: Rows) -> None:
        """Let a classifier with a direct path start as naive Bayes: each answer adds its log likelihood under every
        label, as counted by the answer model, and the hidden layers add nothing yet. `rows` show the encoding of
        answers."""
        assert self.answer_model is not None
        head: Any = self.classifier[-1]  # type: ignore[index]
        head.weight.zero_()
        head.bias.copy_(self.log_prior)
        encoded, holds = self.network_input(rows.x, rows.available), self.answer_model.outcomes.holds(rows.x)
        n_queries, n_inputs = len(self.query_set), encoded.shape[1]
        own_inputs = self.query_set.own_inputs
        query_of_input = self.query_set.units.of_feature if own_inputs is None else own_inputs.of_query
        if self.query_set.mask:
            query_of_input = torch.cat([query_of_input, torch.arange(n_queries)])
        inputs = query_of_input.argsort(stable=True).split(query_of_input.bincount(minlength=n_queries).tolist())
        for query, own in enumerate(inputs):
            there = rows.available[:, query]
            evidence = self.answer_model.evidence(query, holds)[there]  # (n, C)
            evidence = evidence - evidence.mean(dim=1, keepdim=True)
            weight = torch.linalg.pinv(encoded[:, own][there]) @ evidence  # columns first: there may be very many
            head.weight[:, head.in_features - n_inputs + own] = weight.T

    def forward(self, batch: Batch) -> TrainingOutcome:
        """The V-IP objective on a batch of histories, and the queries chosen (B,)."""
        encoded = self.network_input(batch.x, batch.known.to(batch.x.dtype))
        scores = self.querier(encoded).float()
        query = choose_straight_through(scores, self.closed(batch), batch.tau)  # (B, Q) one-hot
        loss, chosen = self.loss_after(query, batch, encoded)
        return TrainingOutcome(loss + self.loss_at_start(encoded, batch) + self.surprise(encoded, batch), chosen)

    def loss_after(self, query: Tensor, batch: Batch, before: Tensor | None = None) -> TrainingOutcome:
        """The classifier's loss once the answers to `query` (B, Q), one-hot, are known too, and what lies ahead of it,
        if a querier is trained that looks there: from the networks' input `before` (B, ...)."""
        answered = self.answered(query, batch)
        after = self.input_after(batch.x, batch.known.to(batch.x.dtype), answered)
        logits = self.classifier(after).float()
        loss = batch.label_loss(logits, self.label_kernel)
        if before is not None:
            loss = loss + self.loss_ahead(before, after, answered, logits, batch)
        return TrainingOutcome(loss, query.detach().argmax(dim=1))

    def answered(self, query: Tensor, batch: Batch) -> Tensor:
        """Which answers (B, Q) a `query` (B, Q), one-hot, reveals: its own and those of its group. What has no answer
        reveals nothing."""
        return self.query_set.whole_groups(query) * (batch.available & ~self.closed(batch))

    def loss_ahead(
        self, before: Tensor, after: Tensor, answered: Tensor, logits: Tensor, batch: Batch
    ) -> Tensor | float:
        """What looking further ahead adds to the loss, if it does: from the networks' inputs `before` and `after` some
        queries were `answered` (B, Q), and the classifier's logits after it."""
        if self.lookahead is None:
            return 0.0
        if self.reads_next_apart:
            after = self.network_input(batch.x, batch.known.to(batch.x.dtype) + answered)
        losses = batch.label_losses(logits, self.label_kernel)
        goes_on = (~batch.known & (answered < 0.5) & batch.available).any(dim=1)
        return batch.mean(self.lookahead(before, after, losses, goes_on))

    def loss_at_start(self, encoded: Tensor, batch: Batch) -> Tensor | float:
        """The classifier's loss at histories of nothing but initially known answers. The objective always adds one more
        answer, so without this term the posterior there, which may end a chain, would not be trained."""
        beforehand = self.query_set.known_beforehand(1)
        if beforehand is None:
            return 0.0
        is_start = ~(batch.asked & ~beforehand).any(dim=1)
        logits = self.classifier(encoded).float()
        return batch.mean(batch.label_losses(logits, self.label_kernel) * is_start)

    def surprise(self, encoded: Tensor, batch: Batch) -> Tensor | float:
        """The loss of the answer model, if there is one."""
        return 0.0 if self.answer_model is None else self.surprise_at(self.read(encoded), batch)

    def surprise_at(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The loss of the answer model, from the outputs of the network that reads histories."""
        assert self.answer_model is not None
        return self.answer_model.loss(outputs, batch.x, batch.y, batch.available, batch.asked, batch.weight)

    def read(self, encoded: Tensor) -> Tensor:
        """The outputs of the network that reads histories for the answer model."""
        assert self.reader is not None
        return self.reader(encoded)

    def expected_information(self, history: History) -> Tensor | None:
        return None if self.answer_model is None else self.information_at(history, self.log_posterior(history))

    def information_at(self, history: History, log_posterior: Tensor) -> Tensor | None:
        """The expected bits of each query (B, Q) at another log posterior (B, C); None without an answer model."""
        if self.answer_model is None:
            return None
        outputs = self.read(self.network_input(history.x, history.known))
        return self.answer_model.information(outputs, log_posterior)

    def possible_answers(self, history: History, query: int) -> tuple[PossibleAnswer, ...]:
        """The possible answers to a query in a single history, each with the posterior after it by Bayes; none without
        an answer model."""
        if self.answer_model is None:
            return ()
        outputs = self.read(self.network_input(history.x, history.known))
        return self.answer_model.possible_answers(outputs, self.log_posterior(history), query)

    def answer_surprise(self, history: History, query: Tensor) -> Tensor:
        """The surprise of the answers in `history.x` to a `query` (B,) of each row that is not known yet, its
        expectation and its variance: (B, 3), in nats."""
        assert self.answer_model is not None
        encoded = self.network_input(history.x, history.known)
        log_posterior = self.log_probabilities(self.classifier(encoded), history.n_known)
        return self.answer_model.answer_surprise(self.read(encoded), log_posterior, history.x, query)

    def to_config(self) -> dict[str, Any]:
        answers = None if self.answer_model is None else self.answer_model.to_config()
        ahead = {} if self.lookahead is None else {"lookahead": self.lookahead.n_answers}  # only while it is trained
        return {**super().to_config(), "answers": answers, **ahead}

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        answers = config["answers"]
        answer_model = answers and AnswerModel.from_config(query_set, len(classes), answers)
        return cls.build(ModelSpec.from_config(query_set, classes, config), answer_model=answer_model)


def choose_straight_through(scores: Tensor, closed: Tensor, tau: Tensor | float) -> Tensor:
    """One-hot choice (B, Q) of the best query not closed, whose gradient is that of softmax(scores / tau).

    A row in which everything was asked, or nothing more may be asked, chooses nothing: all zeros.
    """
    soft = (scores.masked_fill(closed, ASKED) / tau).softmax(dim=1)
    hard = F.one_hot(choose(scores, closed), scores.shape[1])
    # Bracketed so that the softmax cancels to exactly zero: no trace of an unasked answer gets through.
    return (hard + (soft - soft.detach())) * ~closed


@register
class InformationVIP(VIP):
    """Asks the query whose answer has the most expected information about the label.

    It has no network that scores queries; in place of the querier, a network reads the history for the answer model.
    """

    answer_model: AnswerModel
    _most_labels: int | None = None
    cost_aware: bool = False
    """Whether it asks the query with the most expected bits per unit of cost."""
    learns_after: bool = True
    """Whether a training step also shows the classifier each history with one more answer. Carried chains do so in
    their next step."""

    @classmethod
    def _with_fresh_networks(cls, spec: ModelSpec, *, answer_model: AnswerModel | None = None, **parts: Any) -> Self:
        if answer_model is None:
            raise ValueError("InformationVIP asks by an answer model, so it cannot be built without one.")
        _, classifier = replace(spec, shared=False).networks()
        trunk = None
        if spec.shared:
            if not isinstance(spec.network, TrunkAndHeads) or not isinstance(classifier, nn.Sequential):
                raise ValueError(f"{spec.network} has no trunk that an answer model could share: use shared=False.")
            trunk = classifier[0]
        return cls(spec, fresh_reader(spec, answer_model, trunk), classifier, answer_model=answer_model, **parts)

    def forward(self, batch: Batch) -> TrainingOutcome:
        """The classifier's loss before and after the most informative query, plus the loss of the answer model."""
        encoded = self.network_input(batch.x, batch.known.to(batch.x.dtype))
        outputs, logits = self.read(encoded), self.classifier(encoded).float()
        loss = batch.label_loss(logits, self.label_kernel) + self.surprise_at(outputs, batch)
        asking = batch if self.learns_after else batch.take(slice(batch.n_chains))
        n, closed = len(asking.y), self.closed(asking)
        with torch.no_grad():
            log_posterior = self.log_probabilities(logits[:n], asking.history.n_known)
            scores = self._scored(self.answer_model.information(outputs[:n], log_posterior, MOST_LABELS))
            query = choose(self.query_set.group_scores(scores, closed, self.cost_aware), closed)
        if not self.learns_after:
            return TrainingOutcome(loss, query)
        after = self.loss_after((F.one_hot(query, scores.shape[1]) * ~closed).to(batch.x.dtype), batch)
        return TrainingOutcome(loss + after.loss, after.query)

    def read(self, encoded: Tensor) -> Tensor:
        return self.querier(encoded)

    @property
    def score_unit(self) -> ScoreUnit:
        return "bits per cost" if self.cost_aware else "bits"

    def scores_from(self, outputs: Tensor, log_posterior: Callable[[], Tensor]) -> Tensor:
        """The expected information (B, Q) in bits, or in bits per unit of cost."""
        return self._scored(self.answer_model.information(outputs, log_posterior(), self._most_labels))

    @contextmanager
    def roughly(self) -> Iterator[None]:
        """Within this context, information is estimated on as many labels as in training."""
        self._most_labels = MOST_LABELS
        try:
            yield
        finally:
            self._most_labels = None

    def _scored(self, bits: Tensor) -> Tensor:
        return per_cost(bits, self.query_set.costs) if self.cost_aware else bits

    def to_config(self) -> dict[str, Any]:
        return {**super().to_config(), "cost_aware": self.cost_aware}

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        model = super().from_config(query_set, classes, config)
        model.cost_aware = config["cost_aware"]
        return model


class TwoQueriers(VIP):
    """Trains both queriers at once, so that held-out rows can choose between them.

    Half of the chains follow the straight-through querier, half the expected information, and the classifier learns
    from all of them. It only learns: `asking` gives the model to use.
    """

    answer_model: AnswerModel
    reader: nn.Module

    def forward(self, batch: Batch) -> TrainingOutcome:
        """The classifier's loss on all histories, its loss after the straight-through querier's choice in every other
        one, and the loss of the answer model, by whose information the rest continue."""
        encoded = self.network_input(batch.x, batch.known.to(batch.x.dtype))
        through, by_bits = (batch.take(slice(first, None, 2)) for first in (0, 1))
        choice = choose_straight_through(self.querier(encoded[::2]).float(), self.closed(through), batch.tau)
        answered = self.answered(choice, through)
        after = self.input_after(through.x, through.known.to(batch.x.dtype), answered)
        logits, logits_after = self._classified(encoded, after)
        loss = batch.label_loss(logits, self.label_kernel) + through.label_loss(logits_after, self.label_kernel)
        loss = loss + self.loss_ahead(encoded[::2], after, answered, logits_after, through)
        outputs = self.read(encoded[1::2])
        query = torch.zeros_like(batch.y)
        query[::2] = choice.detach().argmax(dim=1)
        going_on = query[: batch.n_chains][1::2]
        with torch.no_grad():
            n = len(going_on)
            log_posterior = self.log_probabilities(logits[1::2][:n], by_bits.history.n_known[:n])
            bits = self.answer_model.information(outputs[:n], log_posterior, MOST_LABELS)
            closed = self.closed(by_bits.take(slice(n)))
            going_on.copy_(choose(self.query_set.group_scores(bits, closed), closed))
        return TrainingOutcome(loss + self.surprise_at(outputs, by_bits), query)

    def _classified(self, encoded: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        """The logits of the histories and of those with one more answer, in one pass if their shapes agree."""
        if encoded.shape[1:] != after.shape[1:]:
            return self.classifier(encoded).float(), self.classifier(after).float()
        logits, logits_after = self.classifier(torch.cat([encoded, after])).float().split([len(encoded), len(after)])
        return logits, logits_after

    def asking(self, querier: Literal["information", "straight-through"]) -> VIP:
        """The model with one of the two queriers, on the same networks."""
        model: VIP
        if querier == "information":
            model = InformationVIP(self.spec, self.reader, self.classifier, answer_model=self.answer_model)
        else:
            parts: Any = {"answer_model": self.answer_model, "reader": self.reader}
            model = VIP(self.spec, self.querier, self.classifier, **parts)
            model.lookahead = self.lookahead
        for name, buffer in self.named_buffers(recurse=False):
            setattr(model, name, buffer)
        return model.eval()


def fresh_reader(spec: ModelSpec, answer_model: AnswerModel, trunk: nn.Module | None = None) -> nn.Module:
    """A network that reads histories for an answer model, on a trunk of its own unless one is given."""
    network = spec.network
    assert network is not None
    if trunk is None:
        alone = replace(network, direct=False) if isinstance(network, MLP) else network  # counts are the direct path
        _, reader = alone.build(spec.query_set, answer_model.n_outputs, shared=False)
    else:
        assert isinstance(network, TrunkAndHeads)
        reader = nn.Sequential(trunk, network.heads(spec.query_set, answer_model.n_outputs)[1])
    return starting_at_zero(reader)  # so that the model starts with its counts, as naive Bayes


def starting_at_zero(network: nn.Module) -> nn.Module:
    """The network, with a last layer that gives zeros whatever it reads, if it ends in a linear one."""
    last = network[-1] if isinstance(network, nn.Sequential) else None
    if isinstance(last, nn.Linear):
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
    return network
