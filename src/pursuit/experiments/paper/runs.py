"""The runs behind the numbers of the paper's tables and figures, as data: what each trains, costs and is worth."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pursuit.estimators import Method
from pursuit.experiments.beside import EXACT_IP, RANDOM_ORDER
from pursuit.experiments.reproduce import TRADE_OFF, VIP, Reproduction, changed, run_name
from pursuit.experiments.run import Measurement, MethodRun
from pursuit.experiments.table import ALL_ANSWERS
from pursuit.methods import METHODS
from pursuit.methods.ram import RAMSettings
from pursuit.tasks import TASKS, files, find_recipe
from pursuit.tasks.recipe import Recipe

STRAIGHT_THROUGH, INFORMATION = "straight-through", "information"
RAM: Mapping[str, RAMSettings] = {"ram": RAMSettings("last"), "ram+": RAMSettings("sum")}
"""As published; the methods of these names learn faster."""
FIRST_SEEDS = 3
"""Further seeds are worth less than anything else that is missing."""


@dataclass(frozen=True)
class PaperRun:
    """One method trained on one task with one seed, as the program is told to."""

    task: str
    method: str = VIP
    recipe: str = "gpu"
    querier: str | None = None
    """Of V-IP."""
    sampling: str | None = None
    network: str | None = None
    published: bool = False
    """Whether RAM has the learning rate it was published with."""
    effort: float = 1.0
    seed: int = 0
    curve: int | None = field(default=None, compare=False)
    """Where its curve ends, if not where everything was asked."""
    minutes: float = field(default=1.0, compare=False)
    """What it takes beside other runs on one H200, measuring included: an estimate."""
    value: int = field(default=0, compare=False)
    """Which runs come first: the higher, the sooner."""
    fills: str = field(default="", compare=False)
    """The tables and figures that show it."""

    @property
    def way(self) -> "PaperRun":
        """What all seeds of it have in common: the first of them."""
        return replace(self, seed=0)

    @property
    def name(self) -> str:
        """What its file is called."""
        method = [self.method] if self.method != VIP else []
        published = ["published settings"] if self.published else []
        return run_name(self.task, self.recipe, [*method, *published, *self._changed()[1], f"seed {self.seed}"])

    @property
    def has_data(self) -> bool:
        """Whether the files of its task are on this machine."""
        return all(files.locate(file) for file in TASKS[self.task].files)

    @property
    def is_ablation(self) -> bool:
        return bool(self.sampling or self.network)

    def scaled(self, effort: float) -> "PaperRun":
        """The same run with more or less training: another run, with another name."""
        return replace(self, effort=self.effort * effort, minutes=self.minutes * effort)

    def method_run(self, folder: Path, device: str) -> MethodRun:
        """What trains and measures it."""
        recipe, options = self._changed()
        reproduction = Reproduction(
            self.task, self.recipe, recipe, device=device, options=tuple(options), curve_queries=self.curve
        )
        run = reproduction.method_run(self.seed, folder, self._measurement(reproduction), self.method)
        return replace(run, run={**run.run, "method_settings": _as_text(self._method)}, method=self._method)

    def _changed(self) -> tuple[Recipe, list[str]]:
        return changed(
            find_recipe(self.task, self.recipe),
            querier=self.querier,
            sampling=self.sampling,
            network=self.network,
            effort=self.effort,
        )

    @property
    def _method(self) -> Method:
        method = METHODS[self.method]
        return replace(method, parameters={"settings": RAM[self.method]}) if self.published else method

    def _measurement(self, reproduction: Reproduction) -> Measurement:
        if self.method == ALL_ANSWERS:
            return Measurement(max_queries=1)
        of_vip = self.method == VIP and not self.is_ablation
        return Measurement(
            max_queries=reproduction.last_query,
            trade_off=TRADE_OFF,
            beside=(RANDOM_ORDER, EXACT_IP) if of_vip else (),
            protocols=reproduction.info.protocols if of_vip else (),
            protocol_length=reproduction.info.protocol_length,
        )


def _as_text(method: Method) -> dict[str, str]:
    return {key: str(value) for key, value in method.parameters.items()}


def planned(fills: str, value: int, n_seeds: int, minutes: Mapping[str, float], **how: Any) -> Iterator[PaperRun]:
    """Runs of several tasks, by what each takes. First seeds come first, and further seeds last of all."""
    for seed in range(n_seeds):
        for task, taken in minutes.items():
            worth = value - seed if seed < FIRST_SEEDS else -seed
            yield PaperRun(task, seed=seed, minutes=taken, value=worth, fills=fills, **how)


CUB_AND_WORDS = {"cub": 5.0, "huffpost": 7.0}
SYMCAT = {"symcat-200": 8.0, "symcat-300": 8.5, "symcat-400": 9.0}
DIALOGUES = {"muzhi": 0.5, "dxy": 0.5}
DIGITS = {"mnist": 8.0, "fashion-mnist": 9.0}
PHOTOS = {"cifar10": 14.0, "cifar100": 15.0}
ABLATED = {**CUB_AND_WORDS, **DIGITS, "cifar10": 14.0}
TABLES_2_5, TABLE_3 = "Tables 2 and 5, Fig. 4", "Table 3"

PLAN: tuple[PaperRun, ...] = (
    # V-IP by the paper's querier. For patches it is ours, too.
    *planned(TABLES_2_5, 100, 5, CUB_AND_WORDS, querier=STRAIGHT_THROUGH),
    *planned(f"{TABLE_3}, Fig. 5c", 100, 5, SYMCAT, querier=STRAIGHT_THROUGH, curve=40),
    *planned(TABLE_3, 100, 10, DIALOGUES, querier=STRAIGHT_THROUGH, recipe="fast"),
    *planned(TABLES_2_5, 100, 5, DIGITS, querier=STRAIGHT_THROUGH),
    *planned("Table 5, Figs. 5a, b", 100, 3, PHOTOS, querier=STRAIGHT_THROUGH),
    *planned(TABLES_2_5, 100, 3, {"kmnist": 8.0}, querier=STRAIGHT_THROUGH, recipe="fast"),
    # Rivals. The steps of a policy cost as many forward passes as it asks queries.
    *planned(TABLES_2_5, 80, 3, {"mnist": 7.0, "fashion-mnist": 8.0}, method="ram", recipe="fast", effort=0.2),
    *planned(TABLES_2_5, 80, 3, {"mnist": 7.0, "fashion-mnist": 8.0}, method="ram+", recipe="fast", effort=0.2),
    *planned(TABLES_2_5, 78, 3, CUB_AND_WORDS, method="ram"),
    *planned(TABLES_2_5, 78, 3, CUB_AND_WORDS, method="ram+"),
    # `fast` of the dialogues is short, because V-IP begins there as naive Bayes; these do not.
    *planned(TABLE_3, 77, 3, dict.fromkeys(DIALOGUES, 3.0), method="partial-vae", recipe="fast", effort=10, curve=20),
    *planned(TABLE_3, 77, 3, dict.fromkeys(DIALOGUES, 3.0), method="refuel", recipe="fast", effort=10, curve=20),
    *planned(f"{TABLE_3}, Fig. 5c", 74, 1, dict.fromkeys(SYMCAT, 9.0), method="partial-vae", effort=0.2, curve=20),
    *planned(f"{TABLE_3}, Fig. 5c", 74, 1, dict.fromkeys(SYMCAT, 9.0), method="refuel", effort=0.2, curve=20),
    *planned("Table 5", 72, 3, {"cub": 3.0, "huffpost": 2.0, "mnist": 3.0, "fashion-mnist": 2.0}, method=ALL_ANSWERS),
    *planned("Table 5", 72, 3, dict.fromkeys(PHOTOS, 10.0), method=ALL_ANSWERS),
    *planned(TABLES_2_5, 70, 1, {**DIGITS, **CUB_AND_WORDS}, method="ram", published=True),
    *planned(TABLES_2_5, 70, 1, {**DIGITS, **CUB_AND_WORDS}, method="ram+", published=True),
    *planned("Figs. 5a, b", 68, 1, dict.fromkeys(PHOTOS, 30.0), method="ram"),
    *planned("Figs. 5a, b", 68, 1, dict.fromkeys(PHOTOS, 60.0), method="partial-vae", curve=20),
    # Ablations.
    *planned("Fig. 12", 60, 1, ABLATED, sampling="irs"),
    *planned("Fig. 12", 60, 1, ABLATED, sampling="sbs"),
    *planned("Fig. 12", 60, 1, ABLATED, sampling="irs+sbs"),
    *planned("Fig. 12", 60, 1, SYMCAT, sampling="irs", curve=40),
    *planned("Fig. 12", 60, 1, SYMCAT, sampling="sbs", curve=40),
    *planned("Fig. 12", 60, 1, SYMCAT, sampling="irs+sbs", curve=40),
    *planned("Fig. 11", 60, 3, {"cub": 5.0}, network="set"),
    *planned("Fig. 11", 60, 3, {"cub": 5.0}, network="masked"),
    # V-IP by our querier, and by the paper's recipes.
    *planned(TABLES_2_5, 55, 3, CUB_AND_WORDS, querier=INFORMATION),
    *planned(TABLE_3, 55, 3, SYMCAT, querier=INFORMATION, curve=40),
    *planned(TABLE_3, 55, 10, DIALOGUES, querier=INFORMATION, recipe="fast"),
    *planned(TABLE_3, 50, 10, dict.fromkeys(DIALOGUES, 7.0), querier=STRAIGHT_THROUGH, recipe="paper"),
    *planned(TABLES_2_5, 50, 1, {"cub": 25.0, "huffpost": 60.0}, querier=STRAIGHT_THROUGH, recipe="paper"),
    *planned(TABLES_2_5, 50, 1, dict.fromkeys(DIGITS, 15.0), querier=STRAIGHT_THROUGH, recipe="paper"),
    *planned(TABLE_3, 45, 1, dict.fromkeys(SYMCAT, 60.0), querier=STRAIGHT_THROUGH, recipe="paper", effort=0.1),
    *planned("Table 5", 45, 1, dict.fromkeys(PHOTOS, 180.0), querier=STRAIGHT_THROUGH, recipe="paper"),
    # The generative pursuit takes seconds for every query of a few images: on all test rows, days.
    *planned(TABLES_2_5, 30, 1, dict.fromkeys([*DIGITS, *CUB_AND_WORDS], 3000.0), method="g-ip"),
)
