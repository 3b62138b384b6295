"""A world that is known, so that exact IP judges V-IP: ten labels of equal prior and thirty yes/no queries, independent
given the label, with P(yes | label) drawn uniformly. Its table stands in docs/algorithm.md, section 8, too."""

from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.report import Record, columns, grid, grouped, origins
from benchmarks.study import Study, every
from benchmarks.worlds import draw_yes_no, yes_no_queries
from pursuit import MLP, CarriedHistories, Confidence, InformationVIP, ModelSpec, Rows, SetNetwork, Stage
from pursuit.evaluation.curves import evaluate
from pursuit.exact import IndependentIP
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer, choose
from pursuit.information import AnswerModel
from pursuit.training import train
from pursuit.training.samplers import random_histories, rolled_out_histories
from pursuit.vip import VIP

NAME, N_LABELS, N_QUERIES, BATCH, LONGEST = "known-world", 10, 30, 256, 15
QUERIES = yes_no_queries(N_QUERIES)
PRIOR = torch.full((N_LABELS,), 1 / N_LABELS)
YES = torch.rand(N_LABELS, N_QUERIES, generator=torch.Generator().manual_seed(0))
EXACT = IndependentIP.from_yes(QUERIES, range(N_LABELS), PRIOR, YES)
BY_INFORMATION, SIZES, SEEDS = "V-IP, by information", (300, 3_000, 50_000), (0, 1, 2)


def draw(n: int, seed: int) -> Rows:
    return draw_yes_no(YES, n, torch.Generator().manual_seed(seed))


def pursuer_of(pursuer: str, rows: int, seed: int, steps: int) -> Pursuer:
    if pursuer == "exact IP":
        return EXACT
    learnt = draw(rows, seed=2)
    if pursuer == "counted":  # exact IP with the table counted from rows, one yes and one no added
        members = F.one_hot(learnt.y, N_LABELS).float()
        yes = (members.T @ (learnt.x > 0).float() + 1) / (members.sum(dim=0)[:, None] + 2)
        return IndependentIP.from_yes(QUERIES, range(N_LABELS), PRIOR, yes)
    torch.manual_seed(seed)
    is_set = pursuer.startswith("set network")
    network: Any = SetNetwork(aggregate=pursuer[-3:], hidden=(256, 256)) if is_set else MLP((256, 256))
    spec = ModelSpec(QUERIES, range(N_LABELS), network, prior=PRIOR, shared=is_set)
    if pursuer == BY_INFORMATION:
        model: VIP = InformationVIP.build(spec, answer_model=AnswerModel.count(QUERIES, N_LABELS, learnt))
    else:
        model = VIP.build(spec)
    random_share = 0.0 if pursuer.endswith("random_share=0") else 0.25
    stage = Stage(steps * BATCH / rows, CarriedHistories(LONGEST, random_share), batch_size=BATCH)
    train(model, learnt, [stage], seed=seed)
    return model


def share_of_best(pursuer: Pursuer, own: History) -> float:
    """The exact information of the next queries over that of the best ones."""
    information = EXACT.scores(own).masked_fill(own.asked, 0)
    chosen = information.gather(1, choose(pursuer.scores(own), own.asked)[:, None])
    return float(chosen.sum() / information.max(dim=1).values.sum())


def divergence(pursuer: Pursuer, history: History) -> float:
    """Mean KL from the exact posterior to the pursuer's."""
    log_p, log_q = EXACT.log_posterior(history), pursuer.log_posterior(history).double()
    return float((log_p.exp() * (log_p - log_q)).sum(dim=1).mean())


def measure(pursuer: str, rows: int = 0, seed: int = 0, test_rows: int = 20_000, steps: int = 3_000) -> Record:
    model, test = pursuer_of(pursuer, rows, seed, steps), draw(test_rows, seed=1)
    five = torch.full((len(test),), 5)
    with torch.no_grad():
        found = evaluate(model, test, Confidence(0.95))
        own = rolled_out_histories(test, five, model)
        other = random_histories(test, five, torch.Generator().manual_seed(1))
        kl, share = [divergence(model, history) for history in (own, other)], share_of_best(model, own)
    stop = {key: getattr(found.at_stop, key) for key in ("mean_asked", "accuracy", "mean_confidence")}
    after = [found.accuracy_by_asked[n] for n in (5, 10, 20, 30)]
    return {"after": after, "at_stop": stop, "kl_own": kl[0], "kl_random": kl[1], "share": share}


def page(records: list[Record]) -> dict[str, str]:
    shown = columns(
        "after 5 = after.0|.3f; after 10 = after.1|.3f; after 20 = after.2|.3f; after 30 = after.3|.3f;"
        "`Confidence(0.95)`: queries = at_stop.mean_asked|.2f; accuracy = at_stop.accuracy|.3f;"
        "mean confidence = at_stop.mean_confidence|.3f; KL own = kl_own|.3f; KL random = kl_random|.3f;"
        "share = share|.3f"
    )
    by = grouped(records, "pursuer", "rows", "seed")
    return {"figures": grid(by, shown, "pursuer", "rows", "seed"), "origins": origins(records)}


STUDY = Study(
    name=NAME,
    runs=[
        {"pursuer": "exact IP", "rows": 0, "seed": 0},
        *every(rows=SIZES, pursuer=("counted", "V-IP"), seed=[0]),
        *every(rows=SIZES[1:], pursuer=[BY_INFORMATION], seed=[0]),
        {"pursuer": "V-IP, random_share=0", "rows": SIZES[-1], "seed": 0},
        *every(rows=SIZES[-1:], pursuer=("set network, max", "set network, sum"), seed=SEEDS),
    ],
    measure=measure,
    page=page,
    quick={"test_rows": 50, "steps": 3},
)
