// Why a question is asked: a sentence, what else could be asked, and what each answer would change.

import { barRow, h } from "./dom.js";
import { choiceText, isNoAnswer } from "./answers.js";
import { labelBars } from "./belief.js";
import { bitsText, fixed, percent, say } from "./words.js";

const N_ANSWERS = 4;
const LEAST_SHARE = 0.005; // of people who do not know the answer, that is worth a sentence

function reasonText({ kind, n, bits, cost }, isPatch) {
  const hasBits = bits !== null, values = { n, bits: hasBits ? bitsText(bits) : "", cost: fixed(cost, 2) };
  const full = kind === "again" && hasBits ? "again_bits" : kind === "last" && !hasBits ? "only" : kind;
  const sentence = say(isPatch && ["bits", "share"].includes(kind) ? `look_${kind}` : `reason_${full}`, values);
  return hasBits && kind !== "beforehand" ? `${sentence} ${say("reason_coin")}` : sentence;
}

function answerTitle(question, answer) {
  if (question.kind === "choice" || /^not given$/i.test(answer.text)) return say("if_you_say", { answer: choiceText(question, answer.text) });
  if (question.kind === "patch") return say("if_in_range", { answer: answer.text });
  const { low, high } = answer, key = low === null ? (high === null ? "any" : "up_to") : high === null ? "above" : "between";
  return say("if_in_range", { answer: key === "between" && low === high ? low : say(key, { low, high }) });
}

function imagined(question, answer) {
  const number = answer.number;
  return h("div", {}, h("h3", {}, answerTitle(question, answer),
    answer.probability !== null && h("span", { class: "lead" }, ` (${percent(answer.probability)})`)),
  number ? h("p", { class: "lead small" }, say("number_shift", { before: fixed(number[0], 2), after: fixed(number[1], 2) })) : labelBars(answer.labels));
}

/** The panel of a question. */
export function whyPanel(question, why) {
  const { candidates } = why, worth = one => one.bits ?? one.share ?? 0;
  const most = Math.max(...candidates.map(worth), 1e-9), full = candidates[0]?.bits == null ? most : Math.max(1, most);
  const rows = candidates.map((one, i) => barRow(one.text, one.bits == null ? (one.share == null ? "" : percent(one.share)) : bitsText(one.bits), worth(one) / full, i === 0));
  const answers = why.answers.filter(answer => !isNoAnswer(answer.text)).slice(0, N_ANSWERS);
  const unknown = why.answers.find(answer => isNoAnswer(answer.text))?.probability ?? 0;
  return h("div", { class: "why", id: "why" }, h("p", {}, reasonText(why.reason, question.kind === "patch")),
    rows.length > 1 && h("ul", { class: "bars" }, rows),
    answers.length > 0 && h("div", { class: "grid2" }, answers.map(answer => imagined(question, answer))),
    unknown >= LEAST_SHARE && h("p", { class: "lead small" }, say("often_unknown", { percent: percent(unknown) })));
}
