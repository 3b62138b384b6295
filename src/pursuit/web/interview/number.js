// A number or a date: a field, what is usual, a slider for a thumb, and a second question where it can hardly be meant.

import { button, h, keyHint } from "./dom.js";
import { numberAnswer } from "./answers.js";
import { daysOf, fixed, isoDate, own, say } from "./words.js";

const LARGEST_ANSWER = 1e38; // numbers beyond it do not fit the precision that models compute in

const GROUPED = { ",": /^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?$/, ".": /^[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d+)?$/ };

/** A number as people write it: perhaps with a decimal comma, thousands and the unit; NaN if it is none. 1.234 is a thousand
    where decimals stand behind a comma, and 1,234 where they stand behind a point. */
function parseNumber(question, text) {
  let written = text.trim().replace("\u2212", "-");
  for (const unit of [own(question.unit), question.unit].filter(Boolean)) {
    if (written.endsWith(unit)) written = written.slice(0, -unit.length).trim();
    if (written.startsWith(unit)) written = written.slice(unit.length).trim();
  }
  const thousands = fixed(0.5, 1).includes(",") ? "." : ",";
  for (const [group, pattern] of Object.entries(GROUPED)) {
    if (pattern.test(written) && (group === thousands || /[.,].*[.,]/.test(written))) return Number(written.replaceAll(group, "").replace(",", "."));
  }
  if (/^[+-]?\d*,\d+$/.test(written)) written = written.replace(",", ".");
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(written) ? Number(written) : NaN;
}

function rangeText(question) {
  const { low, high, seen } = question, text = value => numberAnswer(question, value);
  if (low !== null && high !== null) return say("number_range", { low: text(low), high: text(high) });
  if (low !== null) return say("number_low", { low: text(low) });
  if (high !== null) return say("number_high", { high: text(high) });
  return seen ? say("number_seen", { low: text(seen[0]), high: text(seen[1]) }) : "";
}

/** A slider that writes into the field; none where nobody knows the ends. */
function slider(question, input, current, typeInto) {
  const low = question.low ?? question.seen?.[0], high = question.high ?? question.seen?.[1];
  if (question.kind === "date" || low === undefined || high === undefined || !(high > low)) return null;
  const digits = Math.min(question.decimals, 6);
  const step = Math.max(10 ** -digits, Number(((high - low) / 1000).toPrecision(1)));
  const start = typeof current === "number" ? current : Math.min(high, Math.max(low, question.centre ?? (low + high) / 2));
  const range = h("input", { type: "range", min: low, max: high, step: question.decimals >= 6 ? "any" : step, value: start, "aria-label": say("your_number"),
    oninput: () => typeInto(fixed(Number(range.value), digits)) });
  input.addEventListener("input", () => {
    const number = parseNumber(question, input.value);
    if (Number.isFinite(number)) range.value = number;
  });
  return h("div", { class: "slider" }, range,
    h("p", { class: "ends", "aria-hidden": "true" }, h("span", {}, numberAnswer(question, low)), h("span", {}, numberAnswer(question, high))));
}

/** The field of a question; `current` is the answer it has, and `onAnswer` takes a number or the text of a date. */
export function numberField(question, current, onAnswer) {
  const isDate = question.kind === "date";
  const error = h("p", { class: "error", role: "alert", id: "error" });
  const type = isDate ? (question.has_time ? "datetime-local" : "date") : "text";
  const value = current === null || current === undefined ? "" : isDate ? String(current).replace(" ", "T") : fixed(Number(current), 9);
  const ends = end => (isDate && question[end] !== null ? isoDate(question[end], question.has_time) : null);
  const input = h("input", { type, id: "number", value, autocomplete: "off", enterkeyhint: "go", "data-number": true,
    inputmode: isDate ? null : (question.low ?? question.seen?.[0] ?? -1) < 0 ? "text" : question.decimals ? "decimal" : "numeric",
    min: ends("low"), max: ends("high"), "aria-labelledby": "question", "aria-describedby": "range error" });
  const refuse = text => { error.textContent = text; input.setAttribute("aria-invalid", "true"); input.focus(); };
  const typeInto = text => { input.value = text; error.textContent = ""; input.removeAttribute("aria-invalid"); };
  const submit = () => {
    const number = isDate ? daysOf(input.value) : parseNumber(question, input.value);
    if (!(Math.abs(number) <= LARGEST_ANSWER)) return refuse(isDate ? say("date_wrong") : say("number_wrong", { example: fixed(question.centre ?? 0, question.decimals) }));
    if ((question.low !== null && number < question.low) || (question.high !== null && number > question.high)) return refuse(say("number_outside", { range: rangeText(question) }));
    return onAnswer(isDate ? input.value : number);
  };
  input.addEventListener("keydown", event => { if (event.key === "Enter") submit(); });
  return [
    h("div", { class: "field" }, input, question.unit && h("span", { class: "unit" }, question.unit),
      button(say("submit"), submit, { class: "first" })),
    slider(question, input, current, typeInto),
    h("p", { class: "lead small", id: "range" }, rangeText(question)), error,
  ];
}

/** Ask again: what was typed is far from what is usual, and may be a slip. `again(value, confirmed)` answers. */
export function doubtSection(question, { value, doubt }, again, goBack) {
  const isDate = question.kind === "date";
  const shown = isDate ? String(value).replace("T", " ") : numberAnswer(question, value);
  const meant = doubt.suggestions.map(text => (isDate ? text : Number(text)));
  let n = 0;
  const numbered = (text, act) => { const key = String(++n); return button([keyHint(key), text], act, { "data-key": key }); };
  const [low, high] = (question.seen || []).map(end => numberAnswer(question, end));
  return h("section", { class: "doubt" },
    h("p", { class: "meta" }, question.text),
    h("h1", { tabindex: "-1" }, meant.length ? say("doubt_or", { answers: [...meant.map(one => numberAnswer(question, one)), shown].join(` ${say("or")} `) }) : say("doubt_right", { answer: shown })),
    h("p", { class: "lead" }, question.seen ? say("doubt_why", { answer: shown, low, high }) : doubt.usual),
    h("div", { class: "choices" },
      meant.map(one => numbered(say("doubt_meant", { answer: numberAnswer(question, one) }), () => again(one, false))),
      numbered(say("doubt_yes", { answer: shown }), () => again(value, true)),
      numbered(say("doubt_no"), goBack)));
}
