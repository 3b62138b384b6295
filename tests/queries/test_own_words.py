"""What people say in their own words: vectors like those of the library that the weights come from, negation, numbers,
choices, words from the questions file; and that nothing is answered by it."""

import pytest
import torch

from pursuit import ColumnQueries, Questions, Session
from pursuit.exact import IndependentIP
from pursuit.queries import Choice, Number, QuerySet, yes_no
from pursuit.queries.own_words import PACKAGE, clauses, sentence_vectors, statement, suggest
from pursuit.queries.questions import parse

pytest.importorskip("tokenizers")
pytest.importorskip(PACKAGE.replace("-", "_"), reason="its weights are not installed", exc_type=ImportError)


@pytest.fixture(scope="module")
def queries() -> ColumnQueries:
    smells = Choice("smell", "What does it smell of?", ("nothing", "petrol", "cheese"))
    height = Number("height", "How tall are you?", unit="cm", centre=170, spread=10, seen=(140.0, 210.0))
    asked = [yes_no("dog", "Do you have a dog?"), yes_no("rain", "Is it raining?"), smells, height]
    return ColumnQueries(asked)


def found(queries: QuerySet, text: str) -> dict[str, object]:
    return {one.name: one.answer for one in suggest(queries, text) if one.place == 1}


@pytest.mark.slow
def test_vectors_are_those_of_the_library() -> None:
    transformers = pytest.importorskip("sentence_transformers")
    from importlib.util import find_spec

    spec = find_spec(PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations
    library = transformers.SentenceTransformer(f"{spec.submodule_search_locations[0]}/model", device="cpu")
    texts = ["My washing machine hums.", "no", "A much longer sentence, so that the others have to be padded " * 4]
    assert torch.allclose(sentence_vectors()(texts), torch.tensor(library.encode(texts)), atol=1e-5)
    assert sentence_vectors()([]).shape == (0, 384)


def test_negation_is_a_no_and_a_number_is_read(queries: ColumnQueries) -> None:
    assert found(queries, "I own a puppy, and there is no rain.") == {"dog": "yes", "rain": "no"}
    assert found(queries, "I'm 183 cm tall") == {"height": 183.0}
    assert found(queries, "I haven't got a dog") == {"dog": "no"}
    assert found(queries, "it reeks of petrol") == {"smell": "petrol"}
    assert "smell" not in found(queries, "no smell of cheese")  # which does not say what it smells of


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("neither a dog nor rain", {"dog": "no", "rain": "no"}),
        ("I don't have a dog or rain", {"dog": "no", "rain": "no"}),
        ("a dog: no; rain: yes", {"dog": "no", "rain": "yes"}),
        ("do you have a dog? no. is it raining? yes", {"dog": "no", "rain": "yes"}),
        ("not only rain, but also a dog", {"dog": "yes", "rain": "yes"}),
        ("it can't stop raining", {"rain": "yes"}),
        ("No. I have a dog", {"dog": "yes"}),
        ("I don't know if it is raining", {}),
        ("I'm not quite sure whether it rains or I have a dog", {}),
        ("I can't tell whether it rains, but I have a dog", {"dog": "yes"}),
        ("I have no idea what it smells of, cheese or petrol", {}),
        ("I'm 150 pounds tall", {}),
        ("I'm 180 centimetres tall", {"height": 180.0}),
        ("I'm one hundred cm tall", {}),
        ("I'm not 183 cm tall", {}),
    ],
)
def test_what_is_denied_and_what_is_not(queries: ColumnQueries, text: str, means: dict[str, object]) -> None:
    assert found(queries, text) == means


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("twenty-five", 25.0),
        ("ninety nine", 99.0),
        ("forty", 40.0),
        ("1,500", 1500.0),
        ("0,500", 0.5),
        ("38,5", 38.5),
        ("−2.5", -2.5),
    ],
)
def test_numbers_are_read_whole(text: str, number: float) -> None:
    queries = ColumnQueries([Number("weight", "How heavy is it?", unit="kg", centre=40, spread=2000)])
    assert found(queries, f"It weighs {text} kg") == {"weight": number}


@pytest.mark.parametrize(
    ("said", "unit", "number"),
    [("1 hour", "minutes", 60), ("two weeks", "days", 14), ("90 min", "hours", 1.5), ("6 months", "years", 0.4932),
     ("12 kilos", "kg", 12),
     ("30 pounds", "kg", None), ("99 degrees Fahrenheit", "°C", None), ("40 degrees", "°C", 40)],
)  # fmt: skip
def test_a_number_in_another_unit_is_converted_or_left(said: str, unit: str, number: float | None) -> None:
    queries = ColumnQueries([Number("load", "How much does it take?", unit=unit, centre=40, spread=2000)])
    assert found(queries, f"It takes {said}") == ({} if number is None else {"load": number})


def test_each_proposal_has_its_words(queries: ColumnQueries) -> None:
    proposals = suggest(queries, "We have a dog; it is raining.")
    assert [(one.name, one.words) for one in proposals if one.place == 1] == [
        ("dog", "We have a dog"),
        ("rain", "it is raining"),
    ]
    assert len({one.name for one in proposals}) == len(proposals)


@pytest.mark.parametrize("text", ["", " ", "...", "The parliament met on Tuesday", "9999999 cm tall", "x" * 5000])
def test_what_says_nothing_proposes_nothing(queries: ColumnQueries, text: str) -> None:
    assert suggest(queries, text) == ()


def test_words_of_the_questions_file_are_known(queries: ColumnQueries) -> None:
    text = """
    [questions.dog]
    words = { no = ["only cats here"], yes = ["man's best friend"] }
    [questions.rain]
    words = ["it's bucketing down"]
    """
    questions = parse(text)
    again = parse(questions.to_toml())
    assert again == questions
    own = questions.apply(queries)
    assert Questions.of(own).settings[0].words == questions.settings[0].words
    assert found(own, "only cats live here") == {"dog": "no"}
    assert found(own, "it is bucketing down outside") == {"rain": "yes"}
    with pytest.raises(ValueError, match="no choice “maybe”"):
        parse('[questions.dog]\nwords = { maybe = ["x"] }').apply(queries)
    with pytest.raises(ValueError, match="list of what people say"):
        parse("[questions.dog]\nwords = 3")


def test_a_session_proposes_what_is_open_and_answers_nothing() -> None:
    queries = ColumnQueries([yes_no("dog", "Do you have a dog?"), yes_no("rain", "Is it raining?")])
    pursuer = IndependentIP.from_yes(
        queries, ["a", "b"], torch.tensor([0.5, 0.5]), torch.tensor([[0.9, 0.2], [0.2, 0.7]])
    )
    session = Session(pursuer)
    before = session.posterior
    (proposal, *_) = session.suggest("I have a dog")
    assert (session.posterior, session.answers) == (before, {})
    session.tell(proposal.answer, proposal.name)
    assert session.answers == {"dog": "yes"}
    assert session.suggest("I have a dog") == ()


def test_clauses_and_statements() -> None:
    assert [(one.words, one.is_negated) for one in clauses("It hums, but doesn't drain. No, not never")] == [
        ("It hums", False),
        ("doesn't drain", True),
        ("No", True),
        ("not never", False),
    ]
    assert [(one.words, one.is_negated) for one in clauses("No dog, cat or bird, but it rains")] == [
        ("No dog", True),
        ("cat", True),
        ("bird", True),
        ("it rains", False),
    ]
    assert statement("Do you have a fever?") == "you have a fever"
    assert statement("Is your throat sore?") == "your throat is sore"
    assert statement("Where is it?") == "Where is it"
