"""Questions generated from column names, grammatical also where the name is a verb, a plural or a phrase."""

import re

NAMED = {
    "What is {}?": "{}: which number?",
    "Which {}?": "{}: which applies?",
    "When is {}?": "{}: when?",
    "On which day of the week is {}?": "{}: on which day of the week?",
}
"""The neutral form of each template, for names that are not singular nouns."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BEFORE_NOUNS = _words(
    "about above after against and around as at before below between by during for from in into like of off on onto or "
    "out over per since than the through to toward towards under until up via with within without"
)
"""Words that a noun follows, so that a name which ends in one is not a noun."""
VERBS = _words(
    "am are be been being can could did do does had has have is may might must shall should was were will would "
    "begins breathes brings buys comes contains costs drinks drives eats ends feels fills gets gives goes grows "
    "happens hears holds keeps knows lasts lays lies likes lives looks loses makes moves needs opens owns pays "
    "plays reads runs says sees sells sends shows sits sleeps smells sounds speaks spins stands starts stays stops "
    "takes talks thinks turns uses waits walks wants wears works writes"
)
PARTICIPLES = _words(
    "begun born bought broken built done drawn found given gone held known left lost made met paid put read seen sent "
    "sold spent taken told won written"
)
PLURALS = _words("children feet men mice people teeth women")
SINGULARS = _words("bias diabetes gas lens measles news series species")
"""Nouns that end as plurals do."""
NOT_PLURAL = ("ss", "us", "is", "ics")
HUMP = re.compile(r"(?<=[a-z]{2})[A-Z](?=[a-z])")
"""The start of a new word in a camelCase name such as stopsAfter."""


def wording(name: str, pattern: str) -> str:
    """A question made of a column's name, unless the name is a question already."""
    words = name.strip().replace("_", " ")
    if words[:1].islower():
        words = HUMP.sub(lambda found: f" {found[0].lower()}", words)
    if words.endswith("?"):
        return words
    if pattern in NAMED and not _fits(words, pattern):
        pattern = NAMED[pattern]
    elif pattern.startswith("Does {} ") and _is_plural(words.split()[-1:]):
        pattern = pattern.replace("Does", "Do", 1)
    return pattern.format(words)


def _fits(name: str, pattern: str) -> bool:
    """Whether a name can be used in the template, as a singular noun can."""
    words = name.casefold().split()
    if not words or words[-1] in BEFORE_NOUNS or words[0] in VERBS:
        return False
    if pattern == "What is {}?":
        head = words[: words.index("of")] if "of" in words else words  # number of rooms
        return not _is_plural(head[-1:]) and not (len(head) > 1 and _is_plural(head[:1]) and head[1] in BEFORE_NOUNS)
    is_participle = words[-1] in PARTICIPLES or (len(words[-1]) > 4 and words[-1].endswith("ed"))
    return pattern == "Which {}?" or not is_participle


def _is_plural(words: list[str]) -> bool:
    """Whether a word, if there is one, looks like a plural."""
    word = "".join(words).casefold()
    if word in PLURALS:
        return True
    return len(word) > 3 and word.endswith("s") and not word.endswith(NOT_PLURAL) and word not in SINGULARS
