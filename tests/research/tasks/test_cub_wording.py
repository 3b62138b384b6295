"""Questions about birds that people can read, and the names of the species."""

import pytest

from pursuit.research.tasks.cub import COLOURED, PATTERNED, species_name, wording


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        ("has_bill_shape::dagger", "Does it have a dagger-shaped bill?"),
        ("has_wing_color::blue", "Are its wings blue?"),
        ("has_size::small_(5_-_9_in)", "Is it small (5 to 9 in)?"),
        ("has_size::medium_(9_-_16_in)", "Is it of medium size (9 to 16 in)?"),
        ("has_size::very_large_(32_-_72_in)", "Is it very large (32 to 72 in)?"),
        ("has_breast_pattern::solid", "Is its breast of a single colour?"),
        ("has_wing_pattern::multi-colored", "Are its wings multi-coloured?"),
        ("has_under_tail_color::rufous", "Is the underside of its tail rufous (reddish brown)?"),
        ("has_tail_shape::fan-shaped_tail", "Is its tail fan-shaped?"),
        ("has_wing_shape::tapered-wings", "Are its wings tapered?"),
        ("has_shape::hummingbird-like", "Is it shaped like a hummingbird?"),
        ("has_shape::owl-like", "Is it shaped like an owl?"),
        ("has_shape::perching-like", "Is it shaped like a perching bird?"),
        ("has_primary_color::grey", "Is it mainly grey?"),
        ("has_bill_length::shorter_than_head", "Is its bill shorter than its head?"),
        ("has_head_pattern::eyering", "Does it have a ring around its eye?"),
    ],
)
def test_attributes_in_words(attribute: str, text: str) -> None:
    assert wording(attribute) == text


def test_every_part_and_colour_has_its_own_question() -> None:
    colours = [f"has_{part}_color::{colour}" for part in COLOURED for colour in ("blue", "buff")]
    patterns = [f"has_{part}_pattern::{pattern}" for part in PATTERNED for pattern in ("solid", "spotted")]
    texts = [wording(attribute) for attribute in colours + patterns]
    assert len(set(texts)) == len(texts) == 2 * (16 + 5)


@pytest.mark.parametrize(
    "attribute",
    ["", "blue", "has_wing_color", "has_wing_color::", "has_hat_color::blue", "has_shape::round"],
)
def test_other_attributes_are_refused(attribute: str) -> None:
    with pytest.raises(ValueError, match="not an attribute of CUB-200-2011"):
        wording(attribute)


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("001.Black_footed_Albatross", "Black-footed Albatross"),
        ("159.Black_and_white_Warbler", "Black-and-white Warbler"),
        ("187.American_Three_toed_Woodpecker", "American Three-toed Woodpecker"),
        ("163.Cape_May_Warbler", "Cape May Warbler"),
        ("122.Harris_Sparrow", "Harris's Sparrow"),
        ("124.Le_Conte_Sparrow", "Le Conte's Sparrow"),
        ("126.Nelson_Sharp_tailed_Sparrow", "Nelson's Sharp-tailed Sparrow"),
        ("022.Chuck_will_Widow", "Chuck-will's-widow"),
        ("141.Artic_Tern", "Arctic Tern"),
        ("017.Cardinal", "Cardinal"),
    ],
)
def test_species_have_the_names_people_use(folder: str, name: str) -> None:
    assert species_name(folder) == name
