// The list of models: what can be asked about here, and how good each is.

import { h } from "../dom.js";
import { count, fixed, percent, say, spokenLanguage, whole } from "../words.js";
import { encoded, get } from "./api.js";
import { interviewPage, soFarText } from "./interviewing.js";

const POLLING = 4000; // milliseconds between looks whether a model was measured
const MOST_LOOKS = 30;
const N_UNFINISHED = 3;

/** How good a model is, in a sentence. */
export function qualityText(quality) {
  const { accuracy, mean_asked: asked, n_rows: n } = quality;
  if (accuracy === null) return spokenLanguage() === "en" ? quality.sentences.join(" ") : say("measured_on", { n: whole(n) });
  const values = { right: percent(accuracy), n: whole(n), asked: asked === null ? "" : fixed(asked, 1) };
  return [say(asked === null ? "quality" : "quality_asked", values), !quality.beats_guessing && say("no_better")].filter(Boolean).join(" ");
}

function modelCard(model) {
  const { id, title, quality } = model;
  const results = model.is_number ? say("kind_number") : say("kind_label", { n: whole(model.n_labels) });
  const kind = model.is_image ? say("kind_image") : count("asked", model.n_questions);
  return h("section", { class: "model" }, h("h2", {}, title), h("p", {}, `${kind}, ${results}`),
    h("p", { class: "lead" }, quality ? qualityText(quality) : say(model.is_measured ? "not_measured_here" : "not_measured")),
    h("div", { class: "actions" }, h("a", { class: "button first", href: `/m/${encoded(id)}` }, say("begin"), h("span", { class: "unseen" }, `: ${title}`)),
      h("a", { class: "button", href: `/about/${encoded(id)}` }, say("look_inside"), h("span", { class: "unseen" }, `: ${title}`))));
}

/** What a session was about: its own title, or else that of its model. */
export const sessionTitle = ({ title, model }, models) => title || (models.find(({ id }) => id === model)?.title ?? model);

const unfinishedRow = (session, title) => h("li", {}, h("a", { href: `/s/${encoded(session.id)}` }, h("b", {}, title), " ", h("span", { class: "lead" }, soFarText(session))));

/** The choice of a model or, where there is but one, the interview with it. */
export async function modelsPage(shell, isListing) {
  const [found, past] = await Promise.all([get("/api/models"), isListing ? get("/api/sessions?limit=20") : { sessions: [] }]);
  let { models } = found;
  const unfinished = past.sessions.filter(session => !session.done && session.revision > 0).slice(0, N_UNFINISHED);
  if (models.length === 1) return interviewPage(shell, { model: models[0].id, unfinished: unfinished[0] });
  const show = () => {
    shell.main.className = "models";
    shell.main.replaceChildren(h("div", { class: "intro" }, h("h1", { tabindex: "-1" }, say("welcome")), h("p", { class: "lead" }, say("welcome_text"))),
      ...models.map(modelCard), models.length ? "" : h("section", {}, h("p", {}, say("no_models"))),
      unfinished.length ? h("section", { class: "across" }, h("h2", {}, say("unfinished")), h("ul", { class: "links" }, unfinished.map(session => unfinishedRow(session, sessionTitle(session, models))))) : "");
  };
  const look = async n => {
    if (n === 0 || models.every(model => model.is_measured)) return;
    ({ models } = await get("/api/models"));
    if (!shell.main.contains(document.activeElement)) show();
    setTimeout(() => look(n - 1).catch(() => {}), POLLING);
  };
  shell.setHeader({ title: "pursuit", subtitle: () => say("motto") }, show);
  show();
  setTimeout(() => look(MOST_LOOKS).catch(() => {}), POLLING);
}
