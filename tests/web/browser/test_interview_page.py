"""The interview in a browser, with the server behind it."""

from collections.abc import Callable

import pytest

from browsing import Visit, assert_for_everybody, needs_browser
from pursuit.research.tasks import animals

needs_browser()
pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.programs]
Visits = Callable[..., Visit]
PLAYED = [str(name) for name in animals.table().index[::9][:20]]


def test_twenty_animals_are_guessed(visit: Visits, address: str) -> None:
    own = visit()
    guessed = [own.open(f"{address}/m/animals").play(animal) for animal in PLAYED]
    assert guessed == PLAYED
    assert len(guessed) == 20
    own.assert_well(address)


def test_a_person_doubts_goes_back_and_changes(visit: Visits, address: str) -> None:
    own = visit().open(f"{address}/m/animals")
    first, progress = own.heading, own.page.get_attribute("[role=progressbar]", "aria-valuenow")
    own.press("0")
    assert own.heading != first
    assert own.page.locator(".chain li").inner_text().splitlines()[-1] == "left open"
    assert own.page.get_attribute("[role=progressbar]", "aria-valuenow") == progress  # nothing was learnt
    own.press("Backspace")
    assert own.heading == first
    own.press("1")
    second = own.heading
    own.press("2")
    own.step(lambda: own.page.locator(".chip").first.click())
    assert own.heading == first
    assert own.page.locator('main [aria-pressed="true"]').inner_text().endswith("Yes")
    own.press("Escape")
    own.step(lambda: own.page.locator(".chip").first.click())
    own.click("No")
    assert [text.strip() for text in own.page.locator(".chip").all_inner_texts()] == ["no", "no"]
    assert second in own.page.locator(".chain").inner_text()
    own.press("Backspace")  # the change is taken back before the answers
    assert [text.strip() for text in own.page.locator(".chip").all_inner_texts()] == ["yes", "no"]
    own.assert_well(address)


def test_what_was_skipped_comes_later_and_what_is_known_may_be_told(visit: Visits, address: str) -> None:
    own = visit().open(f"{address}/m/animals")
    first = own.heading
    own.press("s")
    assert own.heading != first
    assert "For later" in own.page.inner_text("main")
    own.click(f"Answer “{first}” now")
    assert own.heading == first
    own.press("1")
    assert "For later" not in own.page.inner_text("main")
    own.click("Add a fact")
    own.page.keyboard.press("/")
    own.step(lambda: own.page.keyboard.type("feathers"))
    own.step(lambda: own.page.keyboard.press("Enter"))
    assert own.heading == "Does it have feathers?"
    own.press("2")
    assert "told unasked" in own.page.inner_text("main")
    own.assert_well(address)


def test_a_reload_in_the_middle_goes_on(visit: Visits, address: str) -> None:
    own = visit().open(f"{address}/m/animals")
    own.press("1")
    own.press("2")
    heading, answers = own.heading, own.page.locator(".chain").inner_text()
    assert "/s/" in own.page.url
    own.page.reload()
    own.page.wait_for_selector("main h1")
    assert (own.heading, own.page.locator(".chain").inner_text()) == (heading, answers)
    own.assert_well(address)


def test_two_tabs_show_the_same_session(visit: Visits, address: str) -> None:
    one = visit().open(f"{address}/m/animals")
    one.press("1")
    other = Visit.of(one.page.context).open(one.page.url)
    other.press("2")
    heading = other.heading
    one.press("1")  # which answers a question that is no longer asked
    assert "went on in another window" in one.page.inner_text("[role=alert]")
    assert one.heading == heading
    assert [text.strip() for text in one.page.locator(".chip").all_inner_texts()] == ["yes", "no"]
    one.press("1")
    assert one.page.locator("[role=alert]").count() == 0
    one.assert_well(address)
    other.assert_well(address)


def test_a_lost_connection_loses_no_answer(visit: Visits, address: str) -> None:
    own = visit().open(f"{address}/m/animals")
    own.press("1")
    heading = own.heading
    own.page.context.set_offline(True)
    own.press("2")
    assert "The connection is lost" in own.page.inner_text("[role=alert]")
    assert own.heading == heading
    own.page.context.set_offline(False)
    own.page.wait_for_function("() => document.querySelectorAll('.chip').length === 2")
    assert own.page.locator(".chip").last.inner_text().strip() == "no"
    own.assert_well(address)


def test_keys_alone_are_enough_and_can_be_switched_off(visit: Visits, address: str) -> None:
    own = visit().open(f"{address}/m/animals")
    own.press("1")
    assert own.page.evaluate("document.activeElement.id") == "question"  # the new question is read out
    assert "leads with" in own.page.inner_text("#spoken")
    own.press("?")
    assert own.page.locator(".why").is_visible()
    own.press("w")
    own.page.keyboard.press("Tab")
    assert own.page.evaluate("document.activeElement.tagName") == "BUTTON"
    own.page.locator("summary").press("Enter")
    own.page.get_by_role("button", name="Off").press("Enter")
    own.page.locator("summary").press("Escape")
    heading = own.heading
    own.page.keyboard.press("1")
    own.page.wait_for_timeout(150)
    assert own.heading == heading
    own.page.reload()
    own.page.wait_for_selector("main h1")
    own.page.keyboard.press("1")
    own.page.wait_for_timeout(150)
    assert own.heading == heading  # which is remembered
    own.page.get_by_role("button", name="Yes", exact=True).focus()
    own.press("Enter")
    assert own.heading != heading
    own.assert_well(address)


def test_a_wrong_guess_is_rejected_and_the_right_one_accepted(visit: Visits, address: str) -> None:
    own = visit().open(f"{address}/m/animals")
    guess = own.play("octopus")
    assert guess == "octopus"
    assert own.page.locator(".reasons .for li").count() > 0
    own.click("That's wrong, go on")
    assert f"Is it {guess}?" in own.page.locator(".chain").inner_text()
    assert guess not in own.page.locator(".bars").first.inner_text()
    own.step(lambda: own.page.locator(".chip").last.click())  # it was right after all
    assert own.heading == guess
    own.click("Keep asking")
    assert own.is_asking
    own.press("Backspace")
    own.click("That's right")
    assert own.heading == f"Thank you. It is {guess}."
    with own.page.context.expect_page() as opened:
        own.page.get_by_role("link", name="Report to print or save").click()
    assert guess in opened.value.inner_text("h1")
    own.assert_well(address)


def test_numbers_lists_and_dates(visit: Visits, address: str) -> None:
    own = visit().open(f"{address}/m/fever")
    assert own.heading == "How high is the fever?"
    assert "°C" in own.page.inner_text(".field")
    own.page.keyboard.type("many")
    own.page.keyboard.type("4")  # a digit goes into the field
    assert own.page.input_value("[data-number]") == "4"
    own.page.fill("[data-number]", "forty")
    own.page.keyboard.press("Enter")
    assert "Please type a number" in own.page.inner_text("#error")
    own.page.fill("[data-number]", "385")
    own.press("Enter")
    assert own.heading == "38.5 °C or 385 °C?"
    own.click("Let me type it again")
    own.page.fill("[data-number]", "3.85e2")
    own.press("Enter")
    own.click("I meant 38.5 °C")
    assert "38.5 °C" in own.page.locator(".chip").inner_text()
    own.step(lambda: own.page.keyboard.press("/") or own.page.keyboard.type("b3"))
    own.press("Enter")
    assert "Town B3" in own.page.locator(".chip").last.inner_text()
    own.page.fill("input[type=date]", "2024-02-29")
    own.press("Enter")
    assert "2024-02-29" in own.page.locator(".chip").last.inner_text()
    own.step(lambda: own.page.locator(".chip").first.click())
    own.page.locator("input[type=range]").press("Home")
    low = own.page.input_value("[data-number]")
    own.click("Answer")
    assert low in own.page.locator(".chip").first.inner_text()
    own.assert_well(address)


@pytest.mark.parametrize(
    ("locale", "written", "meant"),
    [
        ("de-DE", "1.234,5", "1234,5 °C"),
        ("de-DE", "12.345", "12345 °C"),
        ("de-DE", "1,234.5 °C", "1234,5 °C"),
        ("de-DE", "38,125", "38,125 °C"),
        ("en-GB", "1,234.5", "1234.5 °C"),
        ("en-GB", "12,345", "12345 °C"),
        ("en-GB", "1.234,5", "1234.5 °C"),
        ("en-GB", "38.125", "38.125 °C"),
        ("en-GB", "0,250", "0.25 °C"),
        ("en-GB", "−4,5", "-4.5 °C"),
    ],
)
def test_numbers_have_thousands_as_people_write_them(
    visit: Visits, address: str, locale: str, written: str, meant: str
) -> None:
    own = visit(locale=locale).open(f"{address}/m/fever")
    own.page.fill("[data-number]", written)
    own.press("Enter")
    if own.page.locator(".doubt").count():
        own.step(lambda: own.page.locator(".doubt button").nth(-2).click())  # the number as it was typed
    assert own.page.locator(".chip").inner_text().strip() == meant
    own.assert_well(address)


def test_nothing_is_believed_before_the_first_answer(visit: Visits, address: str) -> None:
    own = visit().open(f"{address}/m/animals")
    assert own.page.locator("#belief").count() == 0
    own.press("0")  # "I don't know" tells nothing
    assert own.page.locator("#belief").count() == 0
    own.press("1")
    assert own.page.locator("#belief").count() == 1
    own.assert_well(address)


def test_a_number_is_predicted_with_its_range(visit: Visits, address: str) -> None:
    own = visit().open(f"{address}/m/pulse")
    for _ in range(8):
        if own.is_asking:
            own.press("d")
    assert own.heading.startswith("about ")
    assert "With a probability of 90" in own.page.inner_text("main section")
    own.assert_well(address)


def test_a_picture_is_revealed_part_by_part(visit: Visits, address: str) -> None:
    own = visit().open(f"{address}/m/digits")
    own.step(lambda: own.page.get_by_role("button", name="Sample 1").click())
    own.page.wait_for_selector("#question")
    assert own.page.locator(".layers .next").count() == 1
    for n in range(1, 12):
        if not own.is_asking:
            break
        own.press("1")
        assert own.page.locator(".layers .seen").count() == n
        own.page.wait_for_function("() => document.querySelector('.layers img').naturalWidth > 0")
    assert own.heading in [str(digit) for digit in range(10)]
    own.assert_well(address)


def test_a_picture_of_ones_own(visit: Visits, address: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    from PIL import Image

    Image.new("L", (40, 40), 90).save(tmp_path / "own.png")
    own = visit().open(f"{address}/m/digits")
    own.step(lambda: own.page.set_input_files("#upload", tmp_path / "own.png"))
    own.page.wait_for_selector("#question")
    own.press("1")
    assert own.page.locator(".look").count() == 1
    own.assert_well(address)


def test_interviews_are_for_everybody(visit: Visits, address: str) -> None:
    own = visit(locale="de-DE").open(f"{address}/m/animals")

    def check(screen: str) -> None:
        assert_for_everybody(own.page, screen)

    own.press("1")
    own.press("?")
    own.page.locator("summary").first.click()
    check("question, why and menu")
    own.page.locator("summary").first.click()
    own.step(lambda: own.page.locator(".row .quiet").last.click())
    check("what to tell")
    own.press("Escape")
    own.play("octopus")
    check("result")
    own.step(lambda: own.page.locator(".actions .first").click())
    check("thanks")
    own.open(f"{address}/m/fever")
    check("number")
    own.page.fill("[data-number]", "385")
    own.press("Enter")
    check("doubt")
    own.press("1")
    check("list")
    own.open(f"{address}/m/digits")
    check("samples")
    own.step(lambda: own.page.locator(".samples button").first.click())
    own.page.wait_for_selector("#question")
    check("picture")
    own.assert_well(address)


def test_a_phone_is_enough(visit: Visits, address: str) -> None:
    own = visit(phone=True, dark=True).open(f"{address}/m/animals")
    assert own.page.get_attribute("html", "data-theme") == "dark"
    own.step(lambda: own.page.get_by_role("button", name="Yes", exact=True).tap())
    own.page.locator("summary").tap()
    own.page.get_by_role("link", name="Past sessions").tap()
    own.page.wait_for_selector(".sessions")
    own.assert_well(address)
