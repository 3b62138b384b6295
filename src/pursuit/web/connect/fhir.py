"""Models as adaptive questionnaires of HL7 FHIR (R4, Structured Data Capture 4): a `Questionnaire` with everything that
may be asked, and the operation `$next-question`, which keeps nothing: all that is known is in what is sent."""

import contextlib
import datetime
import math
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pursuit.inference.chain import percent
from pursuit.queries import QuerySet
from pursuit.queries.column import with_unit
from pursuit.queries.order import Order
from pursuit.sessions.log import FORMAT
from pursuit.sessions.session import Session
from pursuit.sessions.state import Belief, Question, Result, State, question_of
from pursuit.web.connect.language import in_language, language_of_questions

SDC = "http://hl7.org/fhir/uv/sdc/StructureDefinition"
CORE = "http://hl7.org/fhir/StructureDefinition"
ADAPTIVE = f"{SDC}/sdc-questionnaire-questionnaireAdaptive"
ABSENT = f"{CORE}/data-absent-reason"
ABSENT_CODES = "http://terminology.hl7.org/CodeSystem/data-absent-reason"
UNKNOWN = "asked-unknown"
DONT_KNOW = {"system": ABSENT_CODES, "code": UNKNOWN, "display": "I don't know"}
KNOWN, RESULT = "pursuit-known", "pursuit-result"
"""The groups of what was known before anything was asked, and of the result."""
MOST_DEPTH = 20
"""How deep items may be nested in what is sent."""
MOST_INTEGER = 2**31 - 1
"""An integer of FHIR is smaller; a greater number is a decimal."""
STATUSES = ("in-progress", "completed", "amended", "entered-in-error", "stopped")

Json = dict[str, Any]


class NotFhir(ValueError):
    """What was sent is not what the operation takes."""


@dataclass(frozen=True)
class Form:
    """The questions of a model as items of FHIR."""

    query_set: QuerySet
    title: str
    url: str
    """The canonical address of its Questionnaire."""
    target: str = "result"
    """The code of what is predicted."""
    language: str | None = None
    """Language of all texts but the questions; by default that of the questions."""

    def __post_init__(self) -> None:
        if self.query_set.patches is not None:
            raise ValueError("This model looks at pictures, and a questionnaire of FHIR asks no patches of pictures.")

    @classmethod
    def of(
        cls,
        query_set: QuerySet,
        title: str,
        url: str | None,
        fingerprint: str,
        target: str = "result",
        language: str | None = None,
    ) -> "Form":
        """The form of a model; without an address, it is named after the fingerprint of the model."""
        name = url or f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, fingerprint)}"
        if "|" in name or "#" in name or " " in name:
            raise ValueError(f"The address of a Questionnaire holds no space, # or |, as “{name}” does.")
        return cls(query_set, title, name, target, language)

    def say(self, text: str) -> str:
        """A text that is not from the questions, in their language."""
        return in_language(text, self.language or language_of_questions(self.query_set))

    @property
    def dont_know(self) -> Json:
        return {**DONT_KNOW, "display": self.say(DONT_KNOW["display"])}

    @property
    def system(self) -> str:
        """The code system of answers and labels."""
        return self.url if self.url.startswith("urn:") else f"{self.url}/answers"

    # ---- questions

    def question(self, name: str) -> Question:
        return question_of(self.query_set, self.query_set.index_of[name])

    def questionnaire(self, *, with_items: bool = True, endpoint: str | None = None) -> Json:
        """Everything that may be asked as a Questionnaire; without items, what a registry lists of an adaptive one."""
        profile = "sdc-questionnaire" if with_items else "sdc-questionnaire-adapt-srch"
        found: Json = {
            "resourceType": "Questionnaire",
            "id": re.sub(r"[^A-Za-z0-9.-]+", "-", self.url.rsplit("/", 1)[-1].rsplit(":", 1)[-1])[:64]
            or "questionnaire",
            "meta": {"profile": [f"{SDC}/{profile}"]},
            "url": self.url,
            "name": "P" + re.sub(r"\W+", "_", self.title, flags=re.ASCII)[:200].strip("_") + "_",
            "title": self.title,
            "status": "active",
            "subjectType": ["Patient"],
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        }
        if not with_items:
            where = {"valueBoolean": True} if endpoint is None else {"valueUrl": endpoint}
            return {**found, "extension": [{"url": ADAPTIVE, **where}]}
        names = [query.name for query in self.query_set.queries]
        return {**found, "item": [{**self.item(self.question(name)), **self._condition(name)} for name in names]}

    def item(self, question: Question) -> Json:
        """A question as an item."""
        item: Json = {"linkId": question.name, "text": question.text, "type": _type(question)}
        extensions: list[Json] = []
        if question.kind == "number":
            is_whole = item["type"] == "integer"
            for end, number, whole in (("minValue", question.low, math.ceil), ("maxValue", question.high, math.floor)):
                if number is not None:
                    value = {"valueInteger": whole(number)} if is_whole else {"valueDecimal": float(number)}
                    extensions.append({"url": f"{CORE}/{end}", **value})
            if question.unit:
                unit = {"display": question.unit}
                extensions.append({"url": f"{CORE}/questionnaire-unit", "valueCoding": unit})
        elif item["type"] == "choice":
            codings = [*(self._coding(choice.text) for choice in question.choices), self.dont_know]
            item["answerOption"] = [{"valueCoding": coding} for coding in codings]
        if helps := self._help(question):
            control = {"coding": [{"system": "http://hl7.org/fhir/questionnaire-item-control", "code": "help"}]}
            shown = {"url": f"{CORE}/questionnaire-itemControl", "valueCodeableConcept": control}
            own = {"linkId": f"{question.name}/help", "text": helps, "type": "display", "extension": [shown]}
            item["item"] = [own]
        return {**({"extension": extensions} if extensions else {}), **item}

    def _help(self, question: Question) -> str:
        usual = ""
        if question.kind == "number" and question.seen is not None and question.low is None and question.high is None:
            low, high = (f"{end:g}" for end in question.seen)
            usual = self.say("Usually {} to {}.").format(low, with_unit(high, question.unit))
        return " ".join(part for part in (question.help, usual) if part)

    def _coding(self, text: str) -> Json:
        return {"system": self.system, "code": " ".join(text.split()), "display": text}

    def _condition(self, name: str) -> Json:
        """What must be answered before a question is asked, as far as one rule of FHIR can say it."""
        conditions = [one for one in (self.query_set.order or Order()).only_after if one.query == name]
        if not conditions or (len(conditions) > 1 and any(len(one.answers) > 1 for one in conditions)):
            return {}
        when: list[Json] = []
        for one in conditions:
            other = self.question(one.after)
            if not one.answers:
                when.append({"question": one.after, "operator": "exists", "answerBoolean": True})
            is_boolean = _type(other) == "boolean"
            for answer in one.answers:
                value = (
                    {"answerBoolean": _is_yes(other, answer)} if is_boolean else {"answerCoding": self._coding(answer)}
                )
                when.append({"question": one.after, "operator": "=", **value})
        behavior = {"enableBehavior": "any" if len(conditions) == 1 else "all"} if len(when) > 1 else {}
        return {"enableWhen": when, **behavior}

    # ---- answers

    def value(self, question: Question, value: Any) -> Json:
        """An answer of a session as an answer of FHIR; None: don't know."""
        kind, key = _type(question), _value_key(question)
        if value is None:
            absent = {"extension": [{"url": ABSENT, "valueCode": UNKNOWN}]}
            return {key: self.dont_know} if kind == "choice" else {f"_{key}": absent}
        match kind:
            case "boolean":
                return {key: _is_yes(question, str(value))}
            case "integer":
                if value != int(value):
                    raise NotFhir(f"The answer to “{question.name}” is a whole number, not {value}.")
                return {key: int(value)}
            case "decimal":
                return {key: value}
            case "date":
                return {key: str(value)}
            case "dateTime":
                return {key: f"{str(value).replace(' ', 'T')}:00Z"}
        return {key: self._coding(str(value))}

    def answer(self, question: Question, answer: Mapping[str, Any]) -> Any:
        """An answer of FHIR as a session takes it; None: don't know. Raises ValueError where it is neither."""
        values = [(key, value) for key, value in answer.items() if key.startswith("value")]
        if not values and any(ABSENT in str(part) for key, part in answer.items() if key.startswith("_value")):
            return None
        if len(values) != 1:
            raise NotFhir(f"The answer to “{question.name}” has no value.")
        key, value = values[0]
        if key == "valueQuantity" and isinstance(value, dict):
            units = [value[name] for name in ("unit", "code") if name in value]
            if units and question.unit and question.unit not in units:
                raise NotFhir(f"The answer to “{question.name}” is in {question.unit}, not in {units[0]}.")
            if "comparator" in value:
                raise NotFhir(f"The answer to “{question.name}” is a number, not a bound of it.")
            value = value.get("value")
        if key == "valueCoding" and isinstance(value, dict):
            if value.get("system") == ABSENT_CODES:
                return None
            given = [value.get("code"), value.get("display")]
            value = next((one.value for one in question.choices if self._coding(one.text)["code"] in given), given[1])
        if isinstance(value, bool) and question.is_yes_no:
            return question.choices[0 if value else 1].value
        if key == "valueDateTime" and isinstance(value, str):
            with contextlib.suppress(ValueError):  # such as a year alone, which the question refuses
                value = datetime.datetime.fromisoformat(value).replace(tzinfo=None).isoformat()
        if not isinstance(value, str | int | float):
            raise NotFhir(f"The answer to “{question.name}” cannot be read: {key} is not what it takes.")
        return value


def _type(question: Question) -> str:
    if question.kind == "number":
        ends = (question.low or 0, question.high or 0, *(question.seen or ()))
        is_whole = question.decimals == 0 and not question.choices and max(map(abs, ends)) < MOST_INTEGER
        return "integer" if is_whole else "decimal"
    if question.kind == "date":
        return "dateTime" if question.has_time else "date"
    return "boolean" if question.is_yes_no and len(question.choices) == 2 else "choice"


def _value_key(question: Question) -> str:
    """Under which key an answer has its value."""
    kind = _type(question)
    return "valueCoding" if kind == "choice" else f"value{kind[0].upper()}{kind[1:]}"


def _is_yes(question: Question, answer: str) -> bool:
    return answer == question.choices[0].value


# ---- $next-question


@dataclass(frozen=True)
class Sent:
    """What a client sent: a QuestionnaireResponse with its questionnaire."""

    response: Json
    questionnaire: Json
    canonical: str
    """The address of the Questionnaire that it comes from."""

    @classmethod
    def read(cls, body: Any) -> "Sent":
        """The response, alone or in `Parameters`; raises NotFhir, saying what is wrong."""
        if isinstance(body, dict) and body.get("resourceType") == "Parameters":
            given = [part.get("resource") for part in _objects(body, "parameter")]
            body = next((one for one in given if isinstance(one, dict)), None)
        if not isinstance(body, dict) or body.get("resourceType") != "QuestionnaireResponse":
            raise NotFhir("Send a QuestionnaireResponse that contains its adaptive Questionnaire.")
        if body.get("status") not in STATUSES:
            raise NotFhir(f"The response has a status, which is one of {', '.join(STATUSES)}.")
        contained = [one for one in _objects(body, "contained") if one.get("resourceType") == "Questionnaire"]
        own = next((one for one in contained if f"#{one.get('id')}" == body.get("questionnaire")), None)
        if own is None:
            raise NotFhir("The response names no contained Questionnaire: questionnaire is # and its id.")
        derived = own.get("derivedFrom")
        if not isinstance(derived, list) or len(derived) != 1 or not isinstance(derived[0], str):
            raise NotFhir("derivedFrom of the contained Questionnaire is the one Questionnaire that it comes from.")
        return cls(body, own, derived[0].partition("|")[0])

    def asked(self) -> Iterator[tuple[str, bool]]:
        """The questions in the questionnaire, in order, and whether they were known before anything was asked."""
        for name, item in _items(self.questionnaire):
            if item.get("type") != "group":  # a column may have the name of a group
                yield name, False
            elif name == KNOWN:
                yield from ((known, True) for known, _ in _items(item))
            elif name != RESULT:
                raise NotFhir(f"This questionnaire has no group “{name}”.")

    def answers(self) -> dict[str, Json]:
        """The answers by the linkId of their item, at whatever depth they stand."""
        found: dict[str, Json] = {}
        level = _items(self.response)
        for _ in range(MOST_DEPTH):
            for name, item in level:
                for answer in _objects(item, "answer"):
                    if name in found:
                        raise NotFhir(f"“{name}” takes one answer, and there are several.")
                    found[name] = answer
            level = [inner for name, item in level if name != RESULT for inner in _items(item)]
        if level:
            raise NotFhir(f"Items are nested more than {MOST_DEPTH} deep.")
        return found


def _objects(parent: Json, key: str) -> list[Json]:
    """The objects under a key; raises NotFhir for anything else, which would otherwise be ignored without notice."""
    found = parent.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise NotFhir(f"“{key}” is a list of objects, wherever it stands.")
    return found


def _items(parent: Json) -> list[tuple[str, Json]]:
    """The items of a part, by their linkId."""
    found = _objects(parent, "item")
    if not all(isinstance(one.get("linkId"), str) for one in found):
        raise NotFhir("Every item has a linkId, which is a text.")
    return [(one["linkId"], one) for one in found]


def next_question(
    sent: Sent,
    form: Form,
    session_from: Callable[[Json], Session],
    state_of: Callable[[Session], State],
) -> Json:
    """The response with the next question, or completed with the result.

    Answers to what is not in the questionnaire were known beforehand. A question that is left without an answer is
    skipped: others come first, and once nothing else is left it counts as not known.
    """
    if sent.response.get("status") in ("completed", "amended"):
        return sent.response
    given, listed = sent.answers(), dict(sent.asked())
    if unknown := [name for name in (*listed, *given) if name not in form.query_set.index_of]:
        raise NotFhir(f"This questionnaire has no item “{unknown[0]}”.")
    is_known = {name: True for name in given if name not in listed} | listed
    moves: list[Json] = []
    for name in is_known:
        if name in given:
            question = form.question(name)
            answer, is_volunteered = form.answer(question, given[name]), is_known[name] or question.is_beforehand
            moves.append({"move": "tell", "query": name, "answer": answer, "volunteered": is_volunteered})
        else:
            moves.append({"move": "skip", "query": name})
    session = session_from({"format": FORMAT, "moves": moves})
    while not session.done and session.ask().name in listed:  # it comes back, as nothing else is left
        session.dont_know()
    state = state_of(session)
    known, asked = ([name for name in is_known if is_known[name] is wanted] for wanted in (True, False))
    if state.question is not None:
        asked.append(state.question.name)
    return _updated(sent, form, state, given, known, asked)


def _updated(
    sent: Sent, form: Form, state: State, given: Mapping[str, Json], known: Sequence[str], asked: Sequence[str]
) -> Json:
    """The response with what was `known` beforehand, what was `asked` and, in the end, the result."""
    read = {one.question.name: one.value for one in state.given}

    def answered(name: str) -> Json:
        question = form.question(name)
        found: Json = {"linkId": name, "text": question.text}
        if name in given:
            own, key = form.value(question, read[name]), _value_key(question)
            is_typed = key in given[name] or f"_{key}" in given[name]
            found["answer"] = [given[name] if is_typed else own]
        return found

    items, answers = [form.item(form.question(name)) for name in asked], [answered(name) for name in asked]
    if known:
        shared = {"linkId": KNOWN, "text": form.say("Known beforehand")}
        items.insert(0, {**shared, "type": "group", "item": [form.item(form.question(name)) for name in known]})
        answers.insert(0, {**shared, "item": [answered(name) for name in known]})
    if state.result is not None:
        shared, parts = {"linkId": RESULT, "text": form.say("Result")}, list(_result(form, state, state.result))
        items.append({**shared, "type": "group", "item": [item for item, _ in parts]})
        answers.append({**shared, "item": [answer for _, answer in parts]})
    adaptive = {"extension": [{"url": ADAPTIVE, "valueBoolean": True}], "status": "active"}
    own = {**adaptive, **sent.questionnaire, "item": items}
    contained = [own if one is sent.questionnaire else one for one in _objects(sent.response, "contained")]
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {
        "meta": {"profile": [f"{SDC}/sdc-questionnaireresponse-adapt"]},
        **sent.response,
        "contained": contained,
        "status": "in-progress" if state.result is None else "completed",
        "authored": now,
        "item": answers,
    }


Part = tuple[Json, Json]
"""An item that nobody can change, and its answer."""


def _result(form: Form, state: State, result: Result) -> Iterator[Part]:
    """The parts of the result, of which the first can be extracted as an observation."""
    number = state.belief.number
    yield from _belief(form, state.belief, form.target)
    if result.decided is not None:
        yield _part(form, "decided", "The model vouches for it", "boolean", {"valueBoolean": result.decided})
    if result.label_set is not None:
        yield _part(form, "set", "Labels that remain", "text", {"valueString": ", ".join(result.label_set)})
    in_words = percent if number is None else f"{{:.{number.decimals}f}}".format
    reasons = [
        f"{one.text} {one.answer}: {in_words(one.before)} -> {in_words(one.after)}"
        for one in (*result.reasons["for"], *result.reasons["against"])
    ]
    if reasons:
        yield _part(form, "why", "Why", "text", {"valueString": "\n".join(reasons)})
    if result.unusual is not None:
        yield _part(form, "unusual", "Unusual answers", "text", {"valueString": result.unusual.sentence})
    for i, other in enumerate(state.also, start=1):
        yield from _belief(form, other.belief, other.name, f"also-{i}-", f"{other.name}: ")


def _belief(form: Form, belief: Belief, target: str, prefix: str = "", about: str = "") -> Iterator[Part]:
    code = {"system": form.system, "code": " ".join(target.split())}
    if (number := belief.number) is not None:
        ends = {"label": number.expected, "low": number.low, "high": number.high}
        texts = ("Expected number", "90 % sure: from", "90 % sure: to")
        for (name, end), text in zip(ends.items(), texts, strict=True):
            own = code if name == "label" else None
            value = {"valueDecimal": round(end, number.decimals)}
            yield _part(form, f"{prefix}{name}", text, "decimal", value, own, about)
        return
    best = belief.labels[0]
    shares = ", ".join(f"{one.label} {percent(one.probability)}" for one in belief.labels)
    yield _part(form, f"{prefix}label", "Most probable result", "string", {"valueString": best.label}, code, about)
    sure = {"valueDecimal": round(best.probability, 6)}
    yield _part(form, f"{prefix}probability", "Probability", "decimal", sure, about=about)
    yield _part(form, f"{prefix}belief", "Most probable labels", "text", {"valueString": shares}, about=about)


def _part(form: Form, name: str, text: str, kind: str, value: Json, code: Json | None = None, about: str = "") -> Part:
    shared = {"linkId": f"{RESULT}/{name}", "text": f"{about}{form.say(text)}"}
    extract = {"url": f"{SDC}/sdc-questionnaire-observationExtract", "valueBoolean": True}
    coded: Json = {} if code is None else {"extension": [extract], "code": [code]}
    return {**coded, **shared, "type": kind, "readOnly": True}, {**shared, "answer": [value]}


def outcome(message: str, code: str = "invalid") -> Json:
    """What is wrong, as FHIR says it."""
    issue = {"severity": "error", "code": code, "diagnostics": message}
    return {"resourceType": "OperationOutcome", "issue": [issue]}
