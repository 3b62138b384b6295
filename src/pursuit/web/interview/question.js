// A question: its number, how far the interview is, the words, and the answers that may be given.

import { button, h, keyHint, quietButton } from "./dom.js";
import { choiceText } from "./answers.js";
import { numberField } from "./number.js";
import { ownWords } from "./own_words.js";
import { N_KEYS, N_LISTED, searchable } from "./search.js";
import { pictureBlock } from "./picture.js";
import { whyPanel } from "./why.js";
import { own, say } from "./words.js";

function choiceButton(question, choice, key, current, onAnswer) {
  const isNow = current === undefined ? null : String(current === choice.value);
  return button([key && keyHint(key), choiceText(question, choice.text)], () => onAnswer(choice.value),
    { "data-key": key, "aria-keyshortcuts": key, "aria-pressed": isNow });
}

const unsureButton = (key, current, onAnswer) =>
  button([keyHint(key), say("dont_know")], () => onAnswer(null),
    { class: "unsure", "data-key": key, "data-unsure": true, "aria-keyshortcuts": key, "aria-pressed": current === undefined ? null : String(current === null) });

/** What may be answered: `current` is the answer that is being changed, or undefined. */
function answerControls(question, current, onAnswer) {
  const { choices } = question;
  if (question.kind !== "choice") {
    return h("div", { class: "choices" }, numberField(question, current, onAnswer),
      choices.map(choice => choiceButton(question, choice, null, current, onAnswer)), unsureButton("d", current, onAnswer));
  }
  const toButton = (choice, key) => choiceButton(question, choice, key, current, onAnswer);
  if (choices.length <= N_LISTED) {
    return h("div", { class: "choices" }, choices.map((choice, i) => toButton(choice, i < N_KEYS ? String(i + 1) : null)), unsureButton("0", current, onAnswer));
  }
  const items = choices.map(choice => ({ text: choiceText(question, choice.text), make: key => toButton(choice, key) }));
  return [searchable(items, question.text), h("div", { class: "choices" }, unsureButton("0", current, onAnswer))];
}

/** What has been learnt of what there is to know. */
function progressBar(share) {
  const track = h("div", { class: "track", role: "progressbar", "aria-label": say("progress"), "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * share) }, h("i"));
  track.firstChild.style.width = `${100 * share}%`;
  return track;
}

function leftText(left) {
  if (!left) return "";
  return say(left.kind === "at_most" ? "at_most_more" : left.low < left.n ? "range_more" : "about_more", left);
}

/** Whether a question is but a column's name in small letters: as a heading it has a capital one, for the eye alone. */
const isPlainName = ({ name, text }) => /^[\p{Ll}_ ]+$/u.test(name) && own(text) === `${name.trim().replaceAll("_", " ")}?`;

/** The section of a question in a view: {question, kind: "now" | "change" | "volunteer", current, why}. */
export function questionSection(state, view, acts) {
  const { question, kind, current } = view, isNow = kind === "now";
  const number = kind === "change" ? say("question_change") : kind === "volunteer" ? say("question_volunteered")
    : question.is_beforehand ? say("question_first") : say(state.is_image ? "look_number" : "question_number", { n: question.number });
  const isPicture = isNow && question.kind === "patch";
  return h("section", { "aria-labelledby": "question" },
    h("p", { class: "meta" }, h("span", {}, number), h("span", {}, isNow && !question.is_beforehand ? leftText(state.questions_left) : "")),
    progressBar(state.progress),
    h("h1", { tabindex: "-1", id: "question", class: !isPicture && isPlainName(question) && "name" }, isPicture ? say("look_here") : question.text),
    question.help && h("p", { class: "lead" }, question.help),
    isPicture ? pictureBlock(state, acts.pictureUrl(), acts.reveal) : answerControls(question, current, acts.answer),
    h("div", { class: "row" },
      isNow && state.can_undo && quietButton(`← ${say("back")}`, acts.undo, { "data-key": "Backspace", "aria-keyshortcuts": "Backspace" }),
      !isNow && quietButton(`← ${say("cancel")}`, acts.cancel, { "data-key": "Escape", "aria-keyshortcuts": "Escape" }),
      isNow && quietButton([say("why"), " ", keyHint("?")], acts.why, { "data-key": "?", "aria-keyshortcuts": "?", "aria-expanded": String(Boolean(view.why)), "aria-controls": "why" }),
      isNow && !isPicture && state.can_skip && quietButton([say("skip"), " ", keyHint("s")], acts.skip, { "data-key": "s", "aria-keyshortcuts": "s" }),
      isNow && !isPicture && state.open.length > 1 && quietButton(say("tell_first"), acts.pick)),
    isNow && !state.answers.length && state.expects_reports && h("p", { class: "lead small" }, say("tell_hint")),
    isNow && view.why && whyPanel(question, view.why));
}

/** The list of what a person may tell unasked. */
export function pickSection(state, acts, view) {
  const items = state.open.map(({ name, text }) => ({ text, make: () => button(text, () => acts.volunteer(name)) }));
  return h("section", {}, h("h1", { tabindex: "-1" }, say("tell_which")), h("p", { class: "lead" }, say("tell_hint")),
    acts.suggest && ownWords(view, acts),
    searchable(items, say("tell_which")),
    h("div", { class: "row" }, quietButton(`← ${say("back")}`, acts.cancel, { "data-key": "Escape" })));
}
