// The answers so far, each a button that changes it.

import { bar, button, h } from "./dom.js";
import { patchMap } from "./picture.js";
import { bitsText, isoDate, own, say, typed, weightShare, weightWord } from "./words.js";

/** Whether an answer that is imagined is none at all. */
export const isNoAnswer = text => /^no answer$/i.test(text);

/** A choice in the page's language, where it is one of the words that the page itself has. */
export function choiceText(question, text) {
  if (/^not given$/i.test(text)) return say("not_given");
  return question.is_yes_no && /^(yes|no)$/i.test(text) ? say(text.toLowerCase()) : own(text);
}

/** A number as an answer to a question, with its unit. */
export function numberAnswer(question, number) {
  if (question.kind === "date") return isoDate(number, question.has_time).replace("T", " ");
  return question.unit ? `${typed(number)} ${own(question.unit)}` : typed(number);
}

/** An answer in the page's language: a number with its unit, or the text that was `shown`. */
export const answerText = (question, value, shown) =>
  (question.kind === "number" && typeof value === "number" ? numberAnswer(question, value) : choiceText(question, shown));

/** An answer as people read it; "don't know" for one that was left open. */
function shownAnswer(question, value, shown) {
  if (shown === null || shown === undefined) return say("unknown_chip");
  const text = answerText(question, value, shown);
  return question.is_yes_no ? text.toLowerCase() : text;
}

/** What an answer told: in words, or `inBits` where somebody wants to know, with a bar; nothing beside a result, whose
 *  reasons say it. */
function toldParts({ told, value, volunteered, question }, { isDone, inBits }) {
  if (value === null) return h("small", {}, say("left_open"));
  const unasked = volunteered && !question.is_beforehand && say("volunteered");
  if (isDone || told === null) return unasked && h("small", {}, unasked);
  const words = inBits ? say("told_bits", { bits: bitsText(told) }) : say(`told_${weightWord(told)}`);
  return [h("small", {}, [unasked, words].filter(Boolean).join(" · ")), bar(weightShare(told))];
}

function answerRow(entry, n, view, onChange) {
  const { question, value } = entry, text = shownAnswer(question, value, entry.shown);
  const tone = value === null ? "none" : "";
  const label = say("change", { question: question.text, answer: text });
  return h("li", {}, h("span", { class: "n" }, n), h("span", {}, question.text),
    button(text, () => onChange(entry), { class: `chip ${tone}`, title: label, "aria-label": label }),
    toldParts(entry, view));
}

/** A part of the picture that was looked at; what was there cannot be changed. */
const lookRow = (entry, n, image, view) => h("li", { class: "look" }, h("span", { class: "n" }, n), h("span", {}, entry.question.text), patchMap(image, entry.question.patch),
  toldParts(entry, view));

function rejectedRow({ label }, n, onTakeBack) {
  const hint = say("take_back", { label });
  return h("li", {}, h("span", { class: "n" }, n), h("span", {}, say("is_it", { label })),
    button(say("no").toLowerCase(), () => onTakeBack(label), { class: "chip", title: hint, "aria-label": hint }));
}

/** The section with all that was said, `inBits` where somebody asked why; `acts` has change(entry), takeBack(label) and
 *  volunteer(name). */
export function answersSection(state, acts, inBits = false) {
  const view = { isDone: state.done, inBits };
  const rows = state.answers.map((entry, i) => (entry.kind === "rejected"
    ? rejectedRow(entry, i + 1, acts.takeBack)
    : entry.question.patch ? lookRow(entry, i + 1, state.image, view) : answerRow(entry, i + 1, view, acts.change)));
  const open = new Map(state.open.map(one => [one.name, one.text]));
  const later = state.skipped.filter(name => open.has(name));
  return h("section", { "aria-labelledby": "answers" }, h("h2", { id: "answers" }, say(state.is_image ? "looks" : "your_answers")),
    rows.length ? h("ol", { class: "chain" }, rows) : h("p", { class: "lead small" }, say("no_answers")),
    later.length > 0 && [h("h2", { class: "later" }, say("put_off")),
      h("ul", { class: "chain" }, later.map(name => h("li", { class: "wide" }, h("span", {}, open.get(name)),
        button(say("answer_now"), () => acts.volunteer(name), { class: "chip", "aria-label": say("answer_now_long", { question: open.get(name) }) }))))]);
}
