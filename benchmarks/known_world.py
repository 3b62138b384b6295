"""V-IP judged by exact IP on a world that is known: the table of docs/algorithm.md, section 8.

Ten labels of equal prior and thirty yes/no queries, independent given the label, with P(yes | label) drawn uniformly.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from pursuit.data.rows import Rows
from pursuit.evaluation.curves import evaluate
from pursuit.exact import IndependentIP
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer, choose
from pursuit.inference.stopping import Confidence
from pursuit.networks import MLP, NetworkSettings, SetNetwork
from pursuit.queries import ColumnQueries, yes_no
from pursuit.training import CarriedHistories, Stage, train
from pursuit.training.samplers import random_histories, rolled_out_histories
from pursuit.vip import VIP
from report import RESULTS, where

N_LABELS, N_QUERIES, N_STEPS, BATCH = 10, 30, 3_000, 256
HIDDEN, SEEDS = (256, 256), (0, 1, 2)
MASKED = MLP(HIDDEN)
QUERIES = ColumnQueries([yes_no(f"q{i}") for i in range(N_QUERIES)])
PRIOR = torch.full((N_LABELS,), 1 / N_LABELS)
YES = torch.rand(N_LABELS, N_QUERIES, generator=torch.Generator().manual_seed(0))
EXACT = IndependentIP.from_yes(QUERIES, range(N_LABELS), PRIOR, YES)


def main() -> None:
    test = draw(20_000, seed=1)
    lines = [
        "# V-IP judged by exact IP",
        "",
        "Written by `make bench`. KL is the mean divergence of a posterior from the exact one after 5 queries; the",
        "share is the information of the sixth query over that of the best one. One seed, where none is named. Set",
        "networks have the maximum or the sum of embedded answers, BatchNorm and one trunk for querier and classifier.",
        "",
        *(f"- {key}: {value}" for key, value in where().items()),
        "",
        "| pursuer | accuracy after 5, 10, 20, 30 queries | `Confidence(0.95)`: queries, accuracy, mean confidence "
        "| KL own, random | share |",
        "|---|---|---|---|---|",
        judged("exact IP", EXACT, test),
    ]
    for n_rows in (300, 3_000, 50_000):
        rows = draw(n_rows, seed=2)
        lines.append(judged(f"counted, {n_rows:,} rows", counted(rows), test))
        lines.append(judged(f"V-IP, {n_rows:,} rows", trained(rows, random_share=0.25), test))
    lines.append(judged("the same, `random_share=0`", trained(rows, random_share=0.0), test))
    for aggregate in ("max", "sum"):
        for seed in SEEDS:
            network = SetNetwork(aggregate=aggregate, hidden=HIDDEN)  # type: ignore[arg-type]
            model = trained(rows, random_share=0.25, network=network, shared=True, seed=seed)
            lines.append(judged(f"set network, {aggregate}, 50,000 rows, seed {seed}", model, test))
    text = "\n".join(lines) + "\n"
    (RESULTS / "known-world.md").write_text(text)
    print(text)


def draw(n: int, seed: int) -> Rows:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(N_LABELS, (n,), generator=generator)
    x = 2 * (torch.rand(n, N_QUERIES, generator=generator) < YES[y]).float() - 1
    return Rows(x, torch.ones(n, N_QUERIES, dtype=torch.bool), y)


def counted(rows: Rows) -> IndependentIP:
    """Exact IP with the table counted from rows, one yes and one no added."""
    members = F.one_hot(rows.y, N_LABELS).float()
    yes = (members.T @ (rows.x > 0).float() + 1) / (members.sum(dim=0)[:, None] + 2)
    return IndependentIP.from_yes(QUERIES, range(N_LABELS), PRIOR, yes)


def trained(
    rows: Rows, random_share: float, network: NetworkSettings = MASKED, shared: bool = False, seed: int = 0
) -> VIP:
    torch.manual_seed(seed)
    model = VIP.build(QUERIES, range(N_LABELS), network, prior=PRIOR, shared=shared)
    stage = Stage(N_STEPS * BATCH / len(rows), CarriedHistories(15, random_share), batch_size=BATCH)
    train(model, rows, [stage], seed=seed)
    return model


@torch.no_grad()
def judged(name: str, pursuer: Pursuer, test: Rows) -> str:
    """A line of the table."""
    found = evaluate(pursuer, test, Confidence(0.95))
    assert found.at_stop
    five = torch.full((len(test),), 5)
    own = rolled_out_histories(test, five, pursuer)
    other = random_histories(test, five, torch.Generator().manual_seed(1))
    information = EXACT.scores(own).masked_fill(own.asked, 0)
    chosen = information.gather(1, choose(pursuer.scores(own), own.asked)[:, None])
    share = float(chosen.sum() / information.max(dim=1).values.sum())
    accuracy = " ".join(f"{found.accuracy_by_asked[n]:.3f}" for n in (5, 10, 20, 30))
    at = found.at_stop
    stop = f"{at.mean_asked:.2f} {at.accuracy:.3f} {at.mean_confidence:.3f}"
    gaps = f"{divergence(pursuer, own):.3f} {divergence(pursuer, other):.3f}"
    return f"| {name} | {accuracy} | {stop} | {gaps} | {share:.3f} |"


def divergence(pursuer: Pursuer, history: History) -> Tensor:
    """Mean KL from the exact posterior to the pursuer's."""
    log_p, log_q = EXACT.log_posterior(history), pursuer.log_posterior(history).double()
    return (log_p.exp() * (log_p - log_q)).sum(dim=1).mean()


if __name__ == "__main__":
    main()
