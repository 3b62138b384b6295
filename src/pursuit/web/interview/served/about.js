// All about a model before it is used: how good it is, how far to trust it, what it asks and where that leads.

import { barRow, h } from "../dom.js";
import { showColour } from "../presentation.js";
import { bitsText, count, fixed, percent, say, translate, whole } from "../words.js";
import { encoded, get } from "./api.js";
import { curveChart, figure, reliabilityChart } from "./charts.js";
import { qualityText } from "./models.js";
import { questionTree } from "./tree.js";

const N_QUESTIONS = 15;
const POLLING = 1500; // milliseconds between looks whether it was measured

const fact = (value, name) => h("div", {}, h("dt", {}, name), h("dd", {}, value));

function factList(model, evaluation) {
  const stop = evaluation?.at_stop, rows = [];
  if (stop && stop.accuracy !== undefined) rows.push(fact(percent(stop.accuracy), say("fact_right")));
  if (stop && stop.mae !== undefined) rows.push(fact(fixed(stop.mae, 2), say("fact_off")));
  if (stop) rows.push(fact(fixed(stop.mean_asked, 1), say("fact_asked", { n: whole(model.n_questions) })));
  if (evaluation) rows.push(fact(whole(evaluation.n_rows), say("fact_rows")));
  if (!model.is_number) rows.push(fact(whole(model.n_labels), say("fact_labels")));
  return h("dl", { class: "facts" }, rows);
}

function qualitySection(evaluation) {
  const values = evaluation.accuracy_by_asked;
  const stop = evaluation.at_stop;
  const mark = stop && values && { asked: Math.min(stop.mean_asked, values.length - 1), right: stop.accuracy };
  return values && h("section", {}, h("h2", {}, say("how_good")), figure(curveChart(values, mark), say("curve_caption", { stop: stop ? fixed(stop.mean_asked, 1) : "–" })));
}

function trustSection(evaluation) {
  const bins = evaluation.reliability, stop = evaluation.at_stop;
  if (stop && stop.coverage !== undefined) return h("section", {}, h("h2", {}, say("how_far")), h("p", {}, say("coverage_text", { share: percent(stop.coverage), width: fixed(stop.width, 2) })));
  if (!bins || !bins.length || !stop) return null;
  return h("section", {}, h("h2", {}, say("how_far")), h("p", {}, say("trust_text", { gap: percent(stop.calibration_error) })),
    figure(reliabilityChart(bins), say("reliability_caption")));
}

function questionsSection(questions) {
  const asked = questions.filter(one => one.share_asked > 0).sort((a, b) => b.share_asked - a.share_asked), never = questions.length - asked.length;
  const rows = asked.slice(0, N_QUESTIONS).map(one => barRow([one.text, " ", h("small", { class: "lead" },
    [one.mean_position !== null && say("mean_place", { n: fixed(one.mean_position, 1) }), one.mean_gained !== null && say("mean_gained", { bits: bitsText(one.mean_gained) })].filter(Boolean).join(" · "))], percent(one.share_asked), one.share_asked));
  return h("section", {}, h("h2", {}, say("asked_most")), h("p", { class: "lead" }, say("asked_most_text")), h("ul", { class: "bars" }, rows),
    never > 0 && h("p", { class: "lead small" }, count("never_asked", never)));
}

/** All about a model, once it is measured. */
async function measured(id) {
  for (;;) {
    const model = await get(`/api/models/${encoded(id)}`);
    if (model.is_measured) return model;
    await new Promise(done => { setTimeout(done, POLLING); });
  }
}

export async function aboutPage(shell, id) {
  shell.main.setAttribute("aria-busy", "true");
  shell.main.className = "wide";
  shell.main.replaceChildren(h("p", { class: "lead", role: "status" }, say("measuring")));
  const model = await measured(id), presentation = await get(`/api/models/${encoded(id)}/interview`);
  showColour(presentation.colour);
  translate(presentation.languages);
  shell.main.removeAttribute("aria-busy");
  const { report } = model, evaluation = report?.evaluation;
  const show = () => {
    shell.main.replaceChildren(...[
      h("section", {}, h("h1", { tabindex: "-1" }, model.title), factList(model, evaluation),
        h("p", {}, model.quality ? qualityText(model.quality) : say("not_measured_here")),
        h("div", { class: "actions" }, h("a", { class: "button first", href: `/m/${encoded(id)}` }, say("begin")),
          model.report_url && h("a", { class: "button", href: model.report_url, target: "_blank", rel: "noopener" }, say("whole_report")))),
      evaluation && h("div", { class: "pair" }, qualitySection(evaluation), trustSection(evaluation)),
      evaluation?.questions && questionsSection(evaluation.questions),
      report?.tree && h("section", {}, h("h2", {}, say("first_questions")), h("p", { class: "lead" }, say("tree_text")), questionTree(report.tree)),
    ].filter(Boolean));
  };
  shell.setHeader({ title: model.title, logo: presentation.logo, links: () => [[say("all_models"), "/"]] }, show);
  show();
}
