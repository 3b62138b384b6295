// What is believed: bars that move, and numbers with their interval.

import { barRow, h } from "./dom.js";
import { percent, say, spokenLanguage } from "./words.js";

const N_NAMED = 5; // named in the belief
const N_ALSO = 3; // named in that about a further target
let shares = new Map(); // of the bars shown last, so that they move from there

/** The bars of a list of {label, probability}. */
export const labelBars = labels =>
  h("ul", { class: "bars" }, labels.map(({ label, probability }, i) => barRow(label, percent(probability), probability, i === 0)));

/** A number that is predicted, with the decimals that people want to see. */
function targetText({ decimals: digits }, value) {
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

/** The labels to name, with their texts: the most probable, and ranges of a number in their order. */
function namedLabels({ labels, number }) {
  const named = labels.map((one, i) => ({ ...one, text: one.label, ends: number?.bins[i] }));
  const best = named.slice(0, N_NAMED).filter(({ probability }, i) => i === 0 || probability > 0.0005);
  if (!number) return best;
  return best.sort((a, b) => Number(a.ends[0]) - Number(b.ends[0]))
    .map(({ ends: [low, high], ...one }) => ({ ...one, text: low === high ? one.text : say("span", { low, high }) }));
}

/** What is believed about a further target of the same interview, in its most probable labels. */
const alsoBlock = ({ name, belief, is_settled: isSettled }) => [h("h3", {}, name, isSettled && h("small", { class: "lead" }, ` ${say("settled")}`)),
  belief.number && h("p", { class: "lead small" }, `${numberText(belief.number)} ${intervalText(belief.number)}`), !belief.number && labelBars(belief.labels.slice(0, N_ALSO))];

/** The section with the belief of a state. */
export function beliefSection({ belief, also }) {
  const named = namedLabels(belief), most = Math.max(...named.map(one => one.probability));
  const n = belief.n_others + belief.labels.length - named.length;
  const rest = Math.max(0, 1 - named.reduce((sum, one) => sum + one.probability, 0));
  const rows = named.map(({ label, text, probability }) => barRow(text, percent(probability), probability, probability === most, shares.get(label) ?? 0));
  if (n > 0) rows.push(barRow(n === 1 ? say("other") : say("others", { n }), percent(rest), rest, false, shares.get(null) ?? 0));
  shares = new Map([...named.map(one => [one.label, one.probability]), [null, rest]]);
  return h("section", { "aria-labelledby": "belief" }, h("h2", { id: "belief" }, say("belief")),
    belief.number && [h("p", { class: "expected" }, numberText(belief.number)), h("p", { class: "lead small" }, intervalText(belief.number))],
    h("ul", { class: "bars" }, rows), also.map(alsoBlock));
}
