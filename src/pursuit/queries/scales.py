"""The order in which people expect choices: that of a scale, or of the numbers that they begin with."""

import re
from collections.abc import Sequence
from typing import Any

from pursuit.queries.column import fold

SCALES = tuple(
    {fold(word): place for place, word in enumerate(scale.split(", "))}
    for scale in (
        "never, almost never, very rarely, rarely, seldom, occasionally, sometimes, regularly, often, frequently, "
        "usually, mostly, very often, almost always, always",
        "never, yearly, quarterly, monthly, weekly, several times a week, daily, several times a day, hourly",
        "completely disagree, totally disagree, strongly disagree, disagree, mostly disagree, somewhat disagree, "
        "slightly disagree, neutral, undecided, neither agree nor disagree, slightly agree, somewhat agree, "
        "mostly agree, agree, strongly agree, totally agree, completely agree",
        "extremely dissatisfied, very dissatisfied, dissatisfied, somewhat dissatisfied, slightly dissatisfied, "
        "neutral, neither satisfied nor dissatisfied, slightly satisfied, somewhat satisfied, satisfied, "
        "very satisfied, extremely satisfied",
        "extremely unlikely, very unlikely, unlikely, somewhat unlikely, neutral, neither likely nor unlikely, "
        "somewhat likely, likely, very likely, extremely likely",
        "terrible, very bad, bad, very poor, poor, fair, ok, okay, average, good, very good, great, excellent, "
        "outstanding",
        "much worse, worse, slightly worse, about the same, same, unchanged, no change, slightly better, better, "
        "much better",
        "no, none, minimal, very mild, mild, slight, light, moderate, medium, strong, severe, very severe, extreme, "
        "critical",
        "none, very low, vlow, low, med, medium, moderate, average, normal, elevated, high, vhigh, very high, critical",
        "not at all, a little, slightly, a bit, somewhat, moderately, fairly, quite a bit, very, very much, a lot, "
        "extremely, completely",
        "not at all important, not important, slightly important, somewhat important, moderately important, important, "
        "very important, extremely important",
        "xxs, xs, s, m, l, xl, xxl",
        "tiny, extra small, very small, small, med, medium, large, big, very large, extra large, huge",
        "very slow, slow, medium, average, normal, fast, very fast",
        "monday, tuesday, wednesday, thursday, friday, saturday, sunday",
        "mon, tue, wed, thu, fri, sat, sun",
        "january, february, march, april, may, june, july, august, september, october, november, december",
        "jan, feb, mar, apr, may, jun, jul, aug, sep, oct, nov, dec",
        "spring, summer, autumn, fall, winter",
        "morning, noon, afternoon, evening, night",
        "nie, fast nie, sehr selten, selten, gelegentlich, manchmal, öfter, oft, häufig, meistens, sehr oft, "
        "fast immer, immer",
        "stimme überhaupt nicht zu, stimme gar nicht zu, stimme nicht zu, stimme eher nicht zu, neutral, teils/teils, "
        "weder noch, stimme eher zu, stimme zu, stimme voll zu, stimme voll und ganz zu",
        "sehr unzufrieden, unzufrieden, eher unzufrieden, neutral, teils/teils, eher zufrieden, zufrieden, "
        "sehr zufrieden",
        "keine, kein, gering, leicht, mäßig, mittel, mittelschwer, stark, schwer, sehr stark, sehr schwer",
        "sehr niedrig, niedrig, gering, mittel, normal, erhöht, hoch, sehr hoch",
        "sehr klein, klein, mittel, groß, sehr groß",
        "sehr schlecht, schlecht, mäßig, mittel, gut, sehr gut",
        "montag, dienstag, mittwoch, donnerstag, freitag, samstag, sonnabend, sonntag",
        "januar, februar, märz, april, mai, juni, juli, august, september, oktober, november, dezember",
    )
)
"""The words of each scale, folded, with their places."""
LAST = {"other", "others", "none of these", "none of the above", "not applicable", "not sure", "andere", "sonstiges"}
"""Choices that stand below all others."""
NUMBER = re.compile(
    r"(<|≤|under|below|less than|fewer than|up to)?(?:over|above|more than|at least|from)?[^\w.-]*"
    r"(-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)"
)
"""Which a choice begins with, as in "<18", "18-24" and "$1,000 or more"."""


def in_order(values: Sequence[Any]) -> list[Any]:
    """Values in the order of a scale that has all their words, or of the numbers that all begin with; others as they
    come. Those of `LAST` are the last."""
    words = {value: fold(value) for value in values}
    last = [value for value in values if words[value] in LAST]
    others = [value for value in values if words[value] not in LAST]
    numbers = [found for value in others if (found := NUMBER.match(words[value]))]
    if scale := next((scale for scale in SCALES if all(words[value] in scale for value in others)), None):
        others.sort(key=lambda value: scale[words[value]])
    elif len(numbers) == len(others):
        places = [(float(found[2].replace(",", "")), not found[1]) for found in numbers]
        others = [others[i] for i in sorted(range(len(others)), key=places.__getitem__)]
    return [*others, *last]
