"""A session as the state that a page shows, and why its question is asked."""

from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch

from pursuit.inference.chain import Chain, ChainStep, doubt
from pursuit.inference.moves import Reject, Tell
from pursuit.inference.pursuer import label_list
from pursuit.inference.reasons import Reason, reasons_of
from pursuit.inference.session import Session
from pursuit.inference.stopping import AnyOf, Budget, Confidence, StoppingRule
from pursuit.inference.target import target_of
from pursuit.inference.what_if import WhatIf, what_if
from pursuit.inference.why import Why
from pursuit.queries import Date, Number, Query, QuerySet
from pursuit.queries.query import NOT_GIVEN_TEXT
from pursuit.report.facts import label_text
from pursuit.web.serving import shown

N_LABELS = 8
"""How many labels a belief names."""
N_REASONS = 8
"""How many reasons for and against a result are given."""
LEAST_BITS, MOST_QUESTIONS = 0.02, 30
"""How many questions are left is only said where the next one tells more than this, and where no more than so many
are."""
MOST_KEPT = 50_000
"""How many questions of a query set are kept as they are put."""
FEW_QUESTIONS = 10
"""Of so few it is always said that no more are left."""


def state_of(
    session: Session,
    chain: Chain,
    title: str,
    *,
    accepted: bool = False,
    has_picture: bool = False,
    expects_reports: bool = False,
) -> shown.State:
    """All that a page shows of a session, whose `chain` this is."""
    pursuer, done = session.pursuer, session.done
    patches = pursuer.query_set.patches
    asked = None if done else session.ask()
    is_image = patches is not None
    return shown.State(
        title=title,
        n_labels=len(label_list(pursuer.classes)),
        is_number=target_of(pursuer) is not None,
        is_image=is_image,
        progress=_progress(chain),
        questions_left=None if asked is None else _questions_left(session, asked.bits, chain),
        question=None if asked is None else question_of(pursuer.query_set, asked.query, asked.number),
        belief=_belief(chain),
        answers=list(_answers(session, chain)),
        skipped=list(session.skipped),
        can_undo=bool(session.moves),
        can_skip=session.can_skip,
        can_go_on=session.can_go_on,
        done=done,
        open=[] if is_image else [_open_questions(pursuer.query_set)[i] for i in session.open_queries],
        result=_result(session, chain, accepted) if done else None,
        expects_reports=expects_reports,
        image=None if patches is None else _image(session, has_picture),
    )


# ---- questions


_put: WeakKeyDictionary[QuerySet, dict[tuple[int, int], shown.Question]] = WeakKeyDictionary()


def question_of(query_set: QuerySet, index: int, number: int) -> shown.Question:
    """A query as it is put to a person. It is made once: every state has all that were answered."""
    made = _put.setdefault(query_set, {})
    found = made.get((index, number))
    if found is None:
        found = _question(query_set, index, number)
        if len(made) < MOST_KEPT:
            made[index, number] = found
    return found


def _question(query_set: QuerySet, index: int, number: int) -> shown.Question:
    query = query_set.queries[index]
    order = query_set.order
    shared: dict[str, Any] = {
        "name": query.name,
        "text": query.text,
        "help": query.help,
        "unit": query.unit,
        "number": number,
        "is_beforehand": order is not None and query.name in order.beforehand,
        "cost": query.cost,
    }
    if query_set.patches is not None:
        row, column = query_set.patches.corner(index)
        patch = shown.Patch(row=row, column=column, size=query_set.patches.size)
        return shown.Question(kind="patch", patch=patch, **shared)
    if isinstance(query, Number):
        return shown.Question(
            kind="date" if isinstance(query, Date) else "number",
            choices=_choices([NOT_GIVEN_TEXT] if query.may_be_missing else []),
            low=query.low,
            high=query.high,
            seen=query.seen,
            centre=query.centre,
            decimals=query.decimals,
            has_time=isinstance(query, Date) and query.has_time,
            **shared,
        )
    is_yes_no = getattr(query, "is_yes_no", False) or query.choices == ("no", "yes")
    return shown.Question(kind="choice", is_yes_no=is_yes_no, choices=_choices(_shown(query, is_yes_no)), **shared)


def _shown(query: Query, is_yes_no: bool) -> Sequence[str]:
    """The choices in the order in which people expect them: yes before no."""
    return (query.choices[1], query.choices[0], *query.offered[2:]) if is_yes_no else query.offered


def _choices(texts: Sequence[str]) -> list[shown.Choice]:
    return [shown.Choice(value=text, text=text) for text in texts]


_made: WeakKeyDictionary[QuerySet, list[shown.OpenQuestion]] = WeakKeyDictionary()


def _open_questions(query_set: QuerySet) -> list[shown.OpenQuestion]:
    """All queries of a query set, made once: every state lists most of them."""
    found = _made.get(query_set)
    if found is None:
        found = [shown.OpenQuestion(name=query.name, text=query.text) for query in query_set.queries]
        _made[query_set] = found
    return found


# ---- how far it is


def _progress(chain: Chain) -> float:
    first = doubt(chain.prior)
    return min(1.0, max(0.0, 1 - doubt(chain.posterior) / first)) if first > 0 else 1.0


def _questions_left(session: Session, bits: float | None, chain: Chain) -> shown.QuestionsLeft | None:
    """About how many questions are still to come; None where that would be a guess."""
    position, rules = session.position, [] if session.position.is_free else list(_rules(session.stop))
    beforehand = () if (order := session.pursuer.query_set.order) is None else order.beforehand
    queries = session.pursuer.query_set.queries
    n_open = sum(queries[i].name not in beforehand for i in session.open_queries)
    budgets = [rule.n - position.asked_by_rule for rule in rules if isinstance(rule, Budget)]
    most = min([n_open, *budgets])
    levels = [rule.level for rule in rules if isinstance(rule, Confidence)]
    if bits is not None and bits > LEAST_BITS and levels:
        level = min(levels)
        enough = doubt(torch.tensor([level, 1 - level]))
        left = max(1, -int(-(doubt(chain.posterior) - enough) // bits))
        if left <= min(most, MOST_QUESTIONS):
            return shown.QuestionsLeft(kind="about", n=left)
    return shown.QuestionsLeft(kind="at_most", n=most) if budgets or n_open <= FEW_QUESTIONS else None


def _rules(stop: StoppingRule | None) -> Iterator[StoppingRule]:
    """The rules of which any ends a session."""
    if isinstance(stop, AnyOf):
        for rule in stop.rules:
            yield from _rules(rule)
    elif stop is not None:
        yield stop


# ---- what is believed


def _belief(chain: Chain) -> shown.Belief:
    leading = _leading(chain)
    others = max(0.0, 1 - sum(share.probability for share in leading))
    number = None
    if chain.target is not None:
        low, high = chain.target.interval(chain.posterior[None])[0].tolist()
        expected, text = float(chain.target.mean(chain.posterior[None])), chain.target.belief(chain.posterior)
        number = shown.NumberBelief(expected=expected, low=low, high=high, text=text)
    n_others = len(chain.classes) - len(chain.excluded) - len(leading)
    return shown.Belief(labels=leading, n_others=n_others, others=others if n_others else 0.0, number=number)


def _leading(chain: Chain) -> list[shown.LabelShare]:
    """The labels to show, the most probable first."""
    n_shown = min(N_LABELS, len(chain.classes) - len(chain.excluded))
    best = chain.posterior.topk(n_shown)
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [shown.LabelShare(label=label_text(chain.classes[i]), probability=p) for i, p in pairs]


def _answers(session: Session, chain: Chain) -> Iterator[shown.GivenAnswer | shown.Rejection]:
    """What was said, in order."""
    query_set, labels = session.pursuer.query_set, label_list(session.pursuer.classes)
    steps, number = iter(chain.steps), 0
    for move in session.moves:
        if isinstance(move, Reject):
            yield from (shown.Rejection(label=label_text(labels[i])) for i in move.labels)
        if not isinstance(move, Tell):
            continue
        step = next(steps)
        number += not step.volunteered
        yield shown.GivenAnswer(
            question=question_of(query_set, step.query, 0 if step.volunteered else number),
            value=_value(query_set.queries[step.query], move.answer, step),
            shown=step.answer,
            gained=None if step.answer is None else step.gained,
            volunteered=step.volunteered,
        )


def _value(query: Query, answer: Any, step: ChainStep) -> str | float | None:
    """An answer as a client would send it."""
    if not isinstance(query, Number) or step.answer in (None, NOT_GIVEN_TEXT):
        return step.answer
    number = query.parse(answer)
    return query.written(number) if isinstance(query, Date) else number


def _image(session: Session, has_picture: bool) -> shown.Image:
    patches = session.pursuer.query_set.patches
    assert patches is not None
    _, height, width = patches.image_shape
    n_revealed = sum(isinstance(move, Tell) and move.answer is not None for move in session.moves)
    n_patches = len(session.pursuer.query_set)
    return shown.Image(width=width, height=height, n_patches=n_patches, n_revealed=n_revealed, has_picture=has_picture)


# ---- the result


def outcome_of(session: Session) -> tuple[str, float | None]:
    """What is predicted, in words, and how probable it is; of a number, None."""
    target = target_of(session.pursuer)
    if target is not None:
        return target.text(session.prediction), None
    label, probability = next(iter(session.posterior.items()))
    return label_text(label), probability


def _result(session: Session, chain: Chain, accepted: bool) -> shown.Result:
    label, probability = outcome_of(session)
    leading = [] if chain.target is not None else _leading(chain)
    found, changes = reasons_of(chain), what_if(session.pursuer, session.history.x[0], chain)
    odd = session.unusual
    return shown.Result(
        label=label,
        probability=probability,
        runner_up=leading[1] if len(leading) > 1 else None,
        n_asked=chain.n_asked,
        reasons=shown.Reasons(
            **{
                "for": [_reason(one) for one in found.reasons_for[:N_REASONS]],
                "against": [_reason(one) for one in found.reasons_against[:N_REASONS]],
            }
        ),
        what_if=None if not changes else _what_if(changes[0]),
        unusual=None if odd is None else shown.GivenReply(name=odd.query, text=odd.text, answer=odd.answer),
        accepted=accepted,
        decided=chain.decided,
        label_set=None if chain.label_set is None else [label_text(label) for label in chain.label_set],
    )


def _reason(reason: Reason) -> shown.Reason:
    return shown.Reason(
        name=reason.query,
        text=reason.text,
        answer=reason.answer,
        before=reason.before,
        after=reason.after,
        weight=reason.weight,
    )


def _what_if(change: WhatIf) -> shown.WhatIf:
    return shown.WhatIf(
        name=change.query,
        text=change.text,
        answer=change.answer,
        instead=change.instead,
        label=label_text(change.prediction),
        probability=change.probability,
    )


# ---- why


def why_of(session: Session) -> shown.Why:
    """Why the next question is asked; raises ValueError if there is none."""
    why = session.why()
    n_left = len(session.open_queries)
    is_number = isinstance(session.pursuer.query_set.queries[why.question.query], Number)
    return shown.Why(
        reason=shown.WhyReason(
            kind=_kind(why, n_left),
            n=n_left,
            bits=why.question.bits,
            cost=why.question.cost,
            is_restricted=why.is_restricted,
            n_skipped=why.n_skipped,
        ),
        candidates=[
            shown.Candidate(name=one.name, text=one.text, bits=one.bits, share=one.share)
            for one in (why.question, *why.next_best)
        ],
        answers=[
            shown.AnswerEffect(
                text=effect.text,
                probability=effect.probability,
                labels=[
                    shown.LabelShift(label=label_text(one.label), before=one.before, probability=one.after)
                    for one in effect.shifts
                ],
                number=effect.number,
                **(_bounds(effect.text) if is_number else {}),
            )
            for effect in why.answers
        ],
    )


def _bounds(text: str) -> dict[str, str]:
    """The ends of a range of numbers, which a page may put into words of its own."""
    for start, end in (("up to ", "high"), ("above ", "low")):
        if text.startswith(start):
            return {end: text.removeprefix(start)}
    low, between, high = text.partition(" to ")
    return {"low": low, "high": high} if between else {}


def _kind(why: Why, n_left: int) -> Any:
    if why.is_beforehand:
        return "beforehand"
    if why.is_again:
        return "again"
    if n_left == 1:
        return "last"
    if why.question.bits is None:
        return "share"
    if why.is_cost_aware:
        return "cost"
    if why.tells_little:
        return "decides"
    return "bits" if why.promises_most else "prefers"
