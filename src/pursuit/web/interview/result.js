// The result: what it is, how far to trust it, what speaks for and against it, and what may be done about it.

import { bar, button, h } from "./dom.js";
import { answerText, choiceText } from "./answers.js";
import { intervalText, numberText } from "./belief.js";
import { adviceLink, adviceText } from "./presentation.js";
import { pictureFigure } from "./picture.js";
import { percent, roughly, say, weightShare, weightWord, whole } from "./words.js";

const N_REASONS = 5;
const FEW_ROWS = 10; // of one confidence, of which nothing is said

const UNKNOWN = { question: { is_yes_no: false } };

function reasonList(reasons, most, isNumber, entries) {
  if (!reasons.length) return h("p", { class: "lead small" }, say("nothing_speaks"));
  return h("ul", {}, reasons.slice(0, N_REASONS).map(reason => {
    const size = Math.abs(reason.weight), { question, value } = entries.get(reason.name) || UNKNOWN;
    return h("li", {}, h("span", {}, reason.text, " ", h("b", {}, answerText(question, value, reason.answer))),
      h("em", {}, isNumber ? roughly(size) : say(`weight_${weightWord(size)}`)), bar(isNumber ? Math.min(1, size / most) : weightShare(size)));
  }));
}

function reasonsBlock(state) {
  const { result } = state, pro = result.reasons.for, con = result.reasons.against;
  if (!pro.length && !con.length) return null;
  const most = Math.max(...[...pro, ...con].map(reason => Math.abs(reason.weight)), 1e-9);
  const entries = new Map(state.answers.filter(entry => entry.kind === "answer").map(entry => [entry.question.name, entry]));
  const list = (reasons, key) => h("div", { class: key === "for" ? "for" : "against" },
    h("h2", {}, say(state.is_number ? (key === "for" ? "raised" : "lowered") : key === "for" ? "speaks_for" : "speaks_against")),
    reasonList(reasons, most, state.is_number, entries));
  const what = result.what_if;
  return [h("div", { class: "reasons" }, list(pro, "for"), list(con, "against")),
    what && h("p", { class: "lead small turning" }, say("turning_point", {
      answer: choiceText((entries.get(what.name) || UNKNOWN).question, what.instead).toLowerCase(), question: what.text, label: what.label }))];
}

function unusualText({ result, answers }) {
  const odd = result.unusual;
  if (!odd) return null;
  const own = answers.find(entry => entry.kind === "answer" && entry.question.name === odd.name);
  return h("p", { class: "promise unusual" }, say("unusual", { question: odd.text, answer: own ? answerText(own.question, own.value, odd.answer) : odd.answer }));
}

function sureText({ result, belief, is_number: isNumber }) {
  if (isNumber) return intervalText(belief.number);
  const next = result.runner_up, sure = percent(result.probability);
  return next && next.probability >= 0.005 ? say("sure_next", { percent: sure, label: next.label, next: percent(next.probability) }) : `${say("sure", { percent: sure })}.`;
}

/** How often results such as this one were right when it was measured. */
function trustText({ is_number: isNumber, result: { trust } }) {
  const key = !trust ? "trust_unmeasured" : isNumber ? "trust_number" : !trust.n_rows ? "trust_none" : trust.n_rows < FEW_ROWS ? "trust_few" : "trust_label";
  const values = trust && { n: whole(trust.n_rows), total: whole(trust.n_measured), right: whole(trust.n_right) };
  return h("p", { class: "promise" }, h("b", {}, say("trust")), ` ${say(key, values ?? {})} ${say("trust_check")}`);
}

const remainText = labels => (labels.length === 1 ? say("remains", { label: labels[0] }) : say("remain", { labels: labels.join(", ") }));

const resultLabel = state => (state.is_number ? numberText(state.belief.number) : state.result.label);

/** The section of a result, with what to say and do about it; `acts` has accept, reject, goOn, undo, startOver, pictureUrl and reportUrl. */
export function resultSection(state, acts, advice = null) {
  const { result } = state, n = result.n_asked, action = (key, act, more) => button(say(key), act, more);
  if (result.accepted) {
    return h("section", {}, h("h1", { tabindex: "-1" }, say("thanks", { label: resultLabel(state) })), h("p", { class: "lead" }, sureText(state)),
      state.is_image ? pictureFigure(state, acts.pictureUrl()) : reasonsBlock(state),
      adviceText(advice),
      h("div", { class: "actions" }, adviceLink(advice), action("again", acts.startOver, { class: advice?.link ? null : "first" }), reportButton(acts)));
  }
  const kind = state.is_image ? "seen" : "result", isOpen = result.decided === false;
  const after = say(isOpen ? "not_sure" : n === 0 ? "result_none" : n === 1 ? `${kind}_one` : kind, { n });
  return h("section", {}, h("p", { class: "lead" }, after), h("h1", { class: "answer", tabindex: "-1" }, resultLabel(state)),
    h("p", { class: "lead" }, sureText(state), state.can_go_on ? null : ` ${say("nothing_left")}`),
    result.label_set && h("p", { class: "lead" }, remainText(result.label_set)),
    isOpen ? h("p", { class: "promise" }, say("ask_person")) : trustText(state),
    unusualText(state),
    !isOpen && adviceText(advice),
    state.is_image ? pictureFigure(state, acts.pictureUrl()) : reasonsBlock(state),
    h("div", { class: "actions" },
      !isOpen && adviceLink(advice),
      action("right", acts.accept, { class: !isOpen && advice?.link ? null : "first" }),
      !state.is_number && state.belief.labels.length > 1 && action("wrong", acts.reject),
      state.can_go_on && action("ask_on", acts.goOn),
      reportButton(acts),
      state.can_undo && action("back", acts.undo, { "data-key": "Backspace", "aria-keyshortcuts": "Backspace" })));
}

const reportButton = acts => (acts.reportUrl()
  ? h("a", { class: "button", href: acts.reportUrl(), target: "_blank", rel: "noopener" }, say("report"))
  : button(say("print"), () => print()));
