"""Settings of experiments that are options of the program; importing them takes no time."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from pursuit.registry import Device, MaxQueries, Network, Option, Querier, Seed, Stop, Validation

if TYPE_CHECKING:
    from pursuit.research.tasks.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class TrialOptions:
    """Settings by which the methods of a comparison are trained and measured."""

    device: Device = "cpu"
    recipe: Annotated[str | None, Option("A recipe of the task (see `pursuit tasks`); by default fast.")] = None
    effort: Annotated[float, Option("How long to train, as a multiple of what is planned.", min=1e-6)] = 1.0
    network: Network = None
    stop: Stop = None
    max_queries: MaxQueries = None
    """Curves end there too, and otherwise as `curve_end` says."""
    max_rows: Annotated[
        int | None, Option("Measure on at most this many test rows, the first ones.", "--rows", min=1)
    ] = None
    validation: Validation = False


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Whose settings are searched for."""

    method: Annotated[str, Option("Whose settings to search (see `pursuit methods`).")] = "vip"
    seed: Seed = 0
    device: Device = "cpu"
    max_queries: MaxQueries = None


@dataclass(frozen=True, kw_only=True)
class ReproductionOptions:
    """Settings by which a task of the paper is measured."""

    device: Device = "cpu"
    validation: Validation = False
    curve_queries: Annotated[
        int | None,
        Option("How many queries to measure; by default all, on a CPU as many as asked.", "--curve", min=1),
    ] = None
    black_box: Annotated[
        bool, Option("Train a black box and logistic regression for every seed.", "--black-box/--no-black-box")
    ] = True


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Changes to a recipe: another querier, ablations of the paper, more or less training."""

    querier: Querier = None
    sampling: Annotated[
        str | None,
        Option("Ablation: irs (random histories), sbs (the querier's own) or irs+sbs (one after the other)."),
    ] = None
    network: Annotated[str | None, Option("Ablation: the paper's set network, or a masked one.")] = None
    tau: Annotated[str | None, Option("Ablation: temperature at the beginning and the end, as in 1.0:0.2.")] = None
    effort: Annotated[float, Option("How long to train, as a multiple of what the recipe says.", min=1e-6)] = 1.0

    def applied(self, recipe: "Recipe") -> "tuple[Recipe, list[str]]":
        """The changed recipe, and the changes in words."""
        from pursuit.methods.vip import QUERIERS
        from pursuit.research.tasks.recipe import NETWORKS, SAMPLINGS

        for name, allowed in (("querier", QUERIERS), ("sampling", SAMPLINGS), ("network", NETWORKS)):
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise ValueError(f"--{name} is one of {', '.join(allowed)}, not '{value}'.")
        options = []
        if self.querier is not None:
            if self.querier != "straight-through" and (self.sampling or self.network or self.tau):
                raise ValueError(
                    "--sampling, --network and --tau are ablations of the straight-through querier: leave out "
                    f"--querier {self.querier}."
                )
            recipe = replace(recipe, querier=self.querier)
            options.append(f"{self.querier} querier")
        if self.sampling is not None:
            recipe = recipe.sampled(self.sampling)  # type: ignore[arg-type]
            options.append(self.sampling)
        if self.network is not None:
            recipe = recipe.with_network(self.network)  # type: ignore[arg-type]
            options.append(f"{self.network} network")
        if self.tau is not None:
            try:
                start, end = (float(part) for part in self.tau.split(":"))
            except ValueError:
                raise ValueError(f"--tau is written START:END, as in 1.0:0.2, not '{self.tau}'.") from None
            recipe = recipe.tempered(start, end)
            options.append(f"tau {start:g} to {end:g}")
        if self.effort != 1:
            recipe = recipe.scaled(self.effort)
            options.append(f"effort {self.effort:g}")
        return recipe, options
