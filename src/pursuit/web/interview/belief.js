// What is believed: bars that move, and numbers with their interval.

import { barRow, h } from "./dom.js";
import { percent, say, spokenLanguage } from "./words.js";

const N_NAMED = 5; // named in the belief
let shares = new Map(); // of the bars shown last, so that they move from there

/** The bars of a list of {label, probability}. */
export const labelBars = labels =>
  h("ul", { class: "bars" }, labels.map(({ label, probability }, i) => barRow(label, percent(probability), probability, i === 0)));

/** A number that is predicted, with as many decimals as the text of the expected one. */
function targetText(number, value) {
  const digits = (number.text.match(/\d\.(\d+)/)?.[1] ?? "").length;
  return value.toLocaleString(spokenLanguage(), { minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: false });
}

export const numberText = number => say("about_number", { n: targetText(number, number.expected) });

export const intervalText = number =>
  say("number_interval", { low: targetText(number, number.low), high: targetText(number, number.high) });

/** What is believed in one sentence, for whoever listens. */
export function spokenBelief({ belief, done, answers, result }) {
  if (!answers.length) return "";
  if (belief.number) return say("spoken_number", { n: targetText(belief.number, belief.number.expected) });
  const [{ label, probability }] = belief.labels;
  return say(done ? (result?.decided === false ? "spoken_not_sure" : "spoken_result") : "spoken_belief", { label, percent: percent(probability) });
}

/** The labels to name: the most probable, and ranges of a number in their order. */
function shownLabels({ labels, number }) {
  const best = labels.slice(0, N_NAMED).filter(({ probability }, i) => i === 0 || probability > 0.0005);
  return number ? best.sort((a, b) => start(a) - start(b)) : best;
}

const start = ({ label }) => Number(label.match(/-?\d+(\.\d+)?/)?.[0] ?? -Infinity);

const labelText = (label, isNumber) => {
  const [, low, high] = (isNumber && label.match(/^(\S+) to (\S+)$/)) || [];
  return high === undefined ? label : say("span", { low, high });
};

/** The section with the belief of a state. */
export function beliefSection({ belief }) {
  const shown = shownLabels(belief), most = Math.max(...shown.map(one => one.probability));
  const n = belief.n_others + belief.labels.length - shown.length;
  const rest = Math.max(0, 1 - shown.reduce((sum, one) => sum + one.probability, 0));
  const rows = shown.map(({ label, probability }) => barRow(labelText(label, belief.number), percent(probability), probability, probability === most, shares.get(label) ?? 0));
  if (n > 0) rows.push(barRow(n === 1 ? say("other") : say("others", { n }), percent(rest), rest, false, shares.get(null) ?? 0));
  shares = new Map([...shown.map(one => [one.label, one.probability]), [null, rest]]);
  return h("section", { "aria-labelledby": "belief" }, h("h2", { id: "belief" }, say("belief")),
    belief.number && [h("p", { class: "expected" }, numberText(belief.number)), h("p", { class: "lead small" }, intervalText(belief.number))],
    h("ul", { class: "bars" }, rows));
}
