// Noting what it really was.

import { h } from "../dom.js";
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
  return h("div", { class: "truth" }, h("label", { for: "truth" }, say("truth_question")),
    h("div", { class: "controls" },
      outcome && h("button", { type: "button", class: "small-button", onclick: () => note(outcome) }, say("truth_same", { label: outcome })), field, list,
      h("button", { type: "button", class: "small-button first", onclick: save }, say("save")),
      truth !== null && h("button", { type: "button", class: "small-button", onclick: () => note(null) }, say("truth_forget")),
      h("button", { type: "button", class: "small-button", onclick: close }, say("cancel_short"))));
}
