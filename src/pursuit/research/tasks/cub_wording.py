"""The 312 attributes and 200 species of CUB-200-2011 in words that people use."""

import re

COLOURED = {
    "wing": "Are its wings",
    "upperparts": "Are its upperparts",
    "underparts": "Are its underparts",
    "back": "Is its back",
    "upper_tail": "Is the upper side of its tail",
    "under_tail": "Is the underside of its tail",
    "breast": "Is its breast",
    "throat": "Is its throat",
    "eye": "Are its eyes",
    "forehead": "Is its forehead",
    "nape": "Is the nape of its neck",
    "belly": "Is its belly",
    "primary": "Is it mainly",
    "leg": "Are its legs",
    "bill": "Is its bill",
    "crown": "Is the crown of its head",
}
COLOURS = {"rufous": "rufous (reddish brown)", "buff": "buff (pale yellowish brown)"}
"""Colours that need an explanation."""
PATTERNED = {
    "breast": "Is its breast",
    "back": "Is its back",
    "tail": "Is its tail",
    "belly": "Is its belly",
    "wing": "Are its wings",
}
PATTERNS = {"solid": "of a single colour", "multi-colored": "multi-coloured"}
OTHERS = {
    "bill_shape": {
        "curved_(up_or_down)": "Does it have a bill that curves up or down?",
        "dagger": "Does it have a dagger-shaped bill?",
        "hooked": "Does it have a hooked bill?",
        "needle": "Does it have a needle-shaped bill?",
        "hooked_seabird": "Does it have a hooked bill like a seabird's?",
        "spatulate": "Does it have a spatulate (spoon-shaped) bill?",
        "all-purpose": "Does it have an all-purpose bill?",
        "cone": "Does it have a cone-shaped bill?",
        "specialized": "Does it have a specialised bill?",
    },
    "head_pattern": {
        "spotted": "Is its head spotted?",
        "malar": "Does it have a malar stripe (from the bill down the side of the throat)?",
        "crested": "Does it have a crest on its head?",
        "masked": "Does it have a mask around its eyes?",
        "unique_pattern": "Does its head have a unique pattern?",
        "eyebrow": "Does it have an eyebrow (a stripe above the eye)?",
        "eyering": "Does it have a ring around its eye?",
        "plain": "Is its head plain?",
        "eyeline": "Does it have a line through its eye?",
        "striped": "Is its head striped?",
        "capped": "Does it have a cap on its head?",
    },
    "bill_length": {
        "about_the_same_as_head": "Is its bill about as long as its head?",
        "longer_than_head": "Is its bill longer than its head?",
        "shorter_than_head": "Is its bill shorter than its head?",
    },
    "size": {"medium_(9_-_16_in)": "Is it of medium size (9 to 16 in)?"},
    "shape": {
        "upright-perching_water-like": "Is it shaped like a water bird that perches upright?",
        "chicken-like-marsh": "Is it shaped like a chicken-like marsh bird?",
        "long-legged-like": "Is it shaped like a long-legged bird?",
        "owl-like": "Is it shaped like an owl?",
        "tree-clinging-like": "Is it shaped like a bird that clings to trees?",
        "upland-ground-like": "Is it shaped like an upland ground bird?",
        "perching-like": "Is it shaped like a perching bird?",
    },
}
NAMESAKES = {
    "Anna", "Baird", "Bewick", "Brandt", "Brewer", "Clark", "Harris", "Heermann", "Henslow", "Le_Conte", "Lincoln",
    "Nelson", "Scott", "Swainson", "Wilson",
}  # fmt: skip
"""People whom species are named after; the files leave out the possessive."""
RENAMED = {
    "Artic_Tern": "Arctic Tern",
    "Chuck_will_Widow": "Chuck-will's-widow",
    "Forsters_Tern": "Forster's Tern",
    "Whip_poor_Will": "Whip-poor-will",
}


def wording(attribute: str) -> str:
    """The question about an attribute such as "has_wing_color::blue"."""
    group, _, value = attribute.removeprefix("has_").partition("::")
    part, _, kind = group.rpartition("_")
    if value and value in OTHERS.get(group, {}):
        return OTHERS[group][value]
    if value and kind == "color" and part in COLOURED:
        return f"{COLOURED[part]} {COLOURS.get(value, value)}?"
    if value and kind == "pattern" and part in PATTERNED:
        return f"{PATTERNED[part]} {PATTERNS.get(value, value)}?"
    if value.endswith("_tail") and group == "tail_shape":
        return f"Is its tail {value.removesuffix('_tail')}?"
    if value.endswith("-wings") and group == "wing_shape":
        return f"Are its wings {value.removesuffix('-wings')}?"
    if value and group == "size":
        return f"Is it {value.replace('_-_', ' to ').replace('_', ' ')}?"
    if value.endswith("-like") and group == "shape":
        return f"Is it shaped like a {value.removesuffix('-like')}?"
    raise ValueError(f"'{attribute}' is not an attribute of CUB-200-2011; one is 'has_wing_color::blue'.")


def species_name(folder: str) -> str:
    """The name in the folder's name: "Black-footed Albatross" for "001.Black_footed_Albatross"."""
    name = folder.split(".", maxsplit=1)[-1]
    if name in RENAMED:
        return RENAMED[name]
    for person in NAMESAKES:
        if name.startswith(f"{person}_"):
            name = name.replace(person, f"{person}'s", 1)
    # Before a small letter the underscore stands for a hyphen: Red_winged, Black_and_white.
    return re.sub(r"_(?=[a-z])", "-", name).replace("_", " ")
