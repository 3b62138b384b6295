// How an operator presents an interview: its colour, what comes before the first question, and what to do at the end.

import { h } from "./dom.js";
import { own, say } from "./words.js";

const CONTRAST = 4.5; // of texts, as WCAG has it
const WHITE = [255, 255, 255], NIGHT = [28, 32, 40]; // the cards of the light and of the dark page

const channels = colour => [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16));
const light = rgb => rgb.map(one => one / 255).map(one => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
  .reduce((sum, one, i) => sum + one * [0.2126, 0.7152, 0.0722][i], 0);
const contrast = (one, other) => (Math.max(light(one), light(other)) + 0.05) / (Math.min(light(one), light(other)) + 0.05);

/** A colour, as much nearer to `end` as it takes to be read on `paper`. */
function readable(colour, paper, end) {
  for (let share = 0; share <= 1; share += 0.05) {
    const mixed = channels(colour).map((one, i) => Math.round(one + share * (end - one)));
    if (contrast(mixed, paper) >= CONTRAST) return `rgb(${mixed.join(" ")})`;
  }
  return `rgb(${end} ${end} ${end})`;
}

/** Let buttons and bars have a colour of the operator's. */
export function showColour(colour) {
  const { style } = document.documentElement;
  if (!colour) return;
  style.setProperty("--own-light", readable(colour, WHITE, 0));
  style.setProperty("--own-dark", readable(colour, NIGHT, 255));
}

/** What stands beside the title, unless the operator gave one: what comes out. */
export function subtitleText(presentation, { is_number: isNumber, is_image: isImage, n_labels: n }) {
  if (presentation.title) return "";
  return isNumber ? say("subtitle_number") : say(isImage ? "subtitle_image" : "subtitle", { n });
}

/** Whether something is to be read, or agreed to, before the first question. */
export const hasWelcome = presentation => Boolean(presentation?.introduction || presentation?.consent);

/** What is read before the first question; `begin` is called once all is agreed to. */
export function welcomeSection({ title, introduction, consent }, begin) {
  const tick = consent && h("input", { type: "checkbox", id: "consent", required: true });
  const send = event => { event.preventDefault(); begin(); };
  return h("section", { class: "welcome" }, h("h1", { tabindex: "-1" }, title),
    own(introduction).split(/\n\s*\n/).filter(Boolean).map(text => h("p", {}, text)),
    h("form", { onsubmit: send }, consent && h("label", { class: "consent", for: "consent" }, tick, h("span", {}, consent)),
      h("div", { class: "actions" }, h("button", { type: "submit", class: "first" }, say("begin")))));
}

/** What to say where a label is the result, and the link to what to do then. */
export const adviceText = advice => advice?.text && h("p", { class: "advice" }, advice.text);
export const adviceLink = advice => advice?.link && h("a", { class: "button first", href: advice.link, target: "_blank", rel: "noopener noreferrer" }, advice.link_text || say("next_step"));
