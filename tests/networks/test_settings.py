"""What network settings are: frozen, and clear about the query sets they suit."""

import dataclasses

import pytest
import torch

from pursuit.networks import DLA, MLP, NETWORKS, Conv, DenseNet, PaperConv, Residual
from pursuit.networks.settings import need_patches, pooled_linear
from pursuit.queries import ColumnQueries, PatchQueries, yes_no

COLUMNS = ColumnQueries([yes_no("p"), yes_no("q")])


@pytest.mark.parametrize("kind", NETWORKS.values())
def test_settings_are_frozen_values(kind: type) -> None:
    assert kind() == kind()
    assert hash(kind()) == hash(kind())
    with pytest.raises(dataclasses.FrozenInstanceError):
        kind().hidden = 3


@pytest.mark.parametrize("settings", [Conv(), PaperConv(), Residual(), DLA(), DenseNet()])
def test_networks_for_images_refuse_tables(settings: Conv) -> None:
    kind = type(settings).__name__
    with pytest.raises(ValueError, match=rf"{kind} networks look at image patches, not at .*: use MLP or SetNetwork"):
        settings.build(COLUMNS, 3, False)


def test_small_images_are_refused() -> None:
    patches = PatchQueries((1, 9, 7), 3)
    assert need_patches(patches, "Any", smallest=7) is patches
    with pytest.raises(ValueError, match=r"Any needs images of at least 8x8 pixels, not 9x7: use Conv or MLP"):
        need_patches(patches, "Any", smallest=8)


def test_separate_networks_start_from_different_weights() -> None:
    querier, classifier = MLP((8,)).build(COLUMNS, 2, False)
    assert not torch.equal(querier[0][1].weight, classifier[0][1].weight)  # type: ignore[index]


def test_pooled_linear_reads_the_mean_of_each_channel() -> None:
    head = pooled_linear(3, 2)
    cells = torch.randn(4, 3, 5, 6)
    torch.testing.assert_close(head(cells), head[2](cells.mean(dim=(2, 3))))  # type: ignore[index]
