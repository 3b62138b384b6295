// Noting what it really was.

import { button, h } from "../dom.js";
import { say } from "../words.js";
import { encoded, get } from "./api.js";

const suggestions = new Map(); // labels by model, once they were needed

async function suggest(model, list) {
  if (!suggestions.has(model)) suggestions.set(model, (await get(`/api/models/${encoded(model)}`)).labels);
  list.replaceChildren(...suggestions.get(model).map(label => h("option", { value: label })));
}

/** A form below a session; `note` takes the label, or null to forget it. */
export function truthForm({ model, outcome, truth }, note, close) {
  const list = h("datalist", { id: "labels" });
  const field = h("input", { type: "text", id: "truth", list: "labels", value: truth ?? "", autocomplete: "off", placeholder: say("truth_other") });
  suggest(model, list).catch(() => {}); // without them one types
  const save = () => field.value.trim() && note(field.value.trim());
  field.addEventListener("keydown", event => { if (event.key === "Enter") save(); else if (event.key === "Escape") close(); });
  const small = (text, act) => button(text, act, { class: "small-button" });
  return h("div", { class: "truth" }, h("label", { for: "truth" }, say("truth_question")),
    h("div", { class: "controls" },
      outcome && small(say("truth_same", { label: outcome }), () => note(outcome)), field, list,
      button(say("save"), save, { class: "small-button first" }),
      truth !== null && small(say("truth_forget"), () => note(null)),
      small(say("cancel_short"), close)));
}
