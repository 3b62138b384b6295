// Past sessions: found by words, with what came out and what it really was; and how often that was the same.

import { button, h, quietButton } from "../dom.js";
import { count, dayText, momentText, percent, say, whole } from "../words.js";
import { call, encoded, get, problemText } from "./api.js";
import { accuracyChart, figure } from "./charts.js";
import { sessionTitle } from "./models.js";
import { truthForm } from "./truth.js";

const AT_ONCE = 20;
const TYPING = 250; // milliseconds after the last key until the search begins

/** The sessions that this browser began or, for the operator, those of everybody. */
export async function sessionsPage(shell, isAll = false) {
  const page = new SessionsPage(shell, isAll);
  await page.load();
  shell.setHeader({ title: page.title, links: () => [[say("all_models"), "/"]] }, () => page.show());
  page.show();
}

class SessionsPage {
  constructor(shell, isAll) {
    Object.assign(this, { shell, isAll, text: "", model: "", models: [], found: { total: 0, sessions: [] }, accuracy: null, isForgetting: null, isNoting: null });
  }

  get title() { return say(this.isAll ? "all_sessions" : "past_sessions"); }

  async load() {
    const [found, accuracy, { models }] = await Promise.all([this.search(0), get(this.path("/api/accuracy", {})), get("/api/models")]);
    Object.assign(this, { found, accuracy, models });
  }

  path(address, values) {
    const parameters = new URLSearchParams({ ...(this.isAll ? { all: "true" } : {}), ...(this.model ? { model: this.model } : {}), ...values });
    return parameters.size ? `${address}?${parameters}` : address;
  }

  search(offset) { return get(this.path("/api/sessions", { query: this.text, limit: AT_ONCE, offset })); }

  /** Do something, show the page again, and say what went wrong if it did. */
  async act(act, spoken = "") {
    try {
      await act();
      this.show();
      this.shell.spoken.textContent = spoken;
    } catch (problem) {
      if (!problem.isLost && problem.message === undefined) throw problem;
      this.show();
      this.problem.textContent = problemText(problem);
    }
  }

  show() {
    const { shell, found } = this;
    this.problem = h("p", { class: "error", role: "alert" });
    this.list = h("div", {});
    shell.main.className = "interview past";
    shell.main.replaceChildren(h("section", {}, h("h1", { tabindex: "-1" }, this.title), h("p", { class: "lead" }, say(this.isAll ? "all_sessions_text" : "past_sessions_text")), this.controls(), this.problem, this.list), this.accuracySection());
    this.showList(found);
  }

  controls() {
    let timer;
    const field = h("input", { type: "search", value: this.text, placeholder: say("search_sessions"), "aria-label": say("search_sessions"),
      oninput: () => { this.text = field.value; clearTimeout(timer); timer = setTimeout(() => this.searchNow(), TYPING); } });
    const select = h("select", { "aria-label": say("which_model"), onchange: () => { this.model = select.value; this.act(() => this.load()); } },
      h("option", { value: "" }, say("every_model")), this.models.map(({ id, title }) => h("option", { value: id, selected: id === this.model }, title)));
    const watched = this.model || (this.models.length === 1 && this.models[0].id);
    return h("div", { class: "controls" }, field, select, this.isAll && watched && h("a", { class: "button", href: `/api/watch/${encoded(watched)}`, target: "_blank", rel: "noopener" }, say("watch")), h("a", { class: "button", href: this.path("/api/sessions.csv", this.text ? { query: this.text } : {}), download: "sessions.csv" }, say("as_csv")));
  }

  /** Search while somebody types: only the list changes, and the field keeps the focus. */
  async searchNow() {
    try {
      this.found = await this.search(0);
      this.showList(this.found);
      this.shell.spoken.textContent = say("found", { n: this.found.total });
    } catch (problem) {
      this.problem.textContent = problemText(problem);
    }
  }

  showList({ total, sessions }) {
    if (!sessions.length) {
      this.list.replaceChildren(h("p", { class: "lead empty" }, this.text || this.model ? say("nothing_found") : say("no_sessions")));
      return;
    }
    const more = total > sessions.length && quietButton(say("show_more", { n: whole(total - sessions.length) }), () => this.act(async () => {
      const next = await this.search(sessions.length);
      this.found = { total: next.total, sessions: [...sessions, ...next.sessions] };
    }));
    this.list.replaceChildren(h("ul", { class: "sessions" }, sessions.map(session => this.row(session))), ...(more ? [more] : []));
  }

  row(session) {
    const { id, outcome, probability, truth, right } = session, title = sessionTitle(session, this.models);
    const result = session.done && outcome ? [session.decided === false && h("span", { class: "lead" }, `${say("not_sure_short")} `), h("b", {}, outcome), probability !== null && h("span", { class: "lead" }, ` ${percent(probability)}`)] : h("span", { class: "lead" }, say("not_finished"));
    const mark = right === null ? null : h("span", { class: `chip ${right ? "yes" : "no"}` }, right ? say("was_right") : truth ? say("was_other", { label: truth }) : say("was_wrong"));
    const when = h("span", { class: "lead small" }, `${title} · ${momentText(session.created)} · ${count("asked", session.n_asked)}`);
    return h("li", {}, h("a", { class: "what", href: `/s/${encoded(id)}`, title: say(session.done ? "open" : "carry_on") }, h("span", {}, result, mark && [" ", mark]), when), this.tools(session),
      this.isNoting === id && truthForm(session, label => this.note(session, label), () => { this.isNoting = null; this.show(); }));
  }

  tools(session) {
    const { id } = session, name = h("span", { class: "unseen" }, `: ${session.outcome ?? sessionTitle(session, this.models)}, ${momentText(session.created)}`);
    if (this.isForgetting === id) {
      return h("div", { class: "tools" }, h("span", { class: "lead small" }, say("delete_sure")),
        button(say("delete_yes"), () => this.forget(id), { class: "small-button danger" }),
        button(say("delete_no"), () => { this.isForgetting = null; this.show(); }, { class: "small-button" }));
    }
    return h("div", { class: "tools" },
      session.done && h("a", { class: "small-button", href: `/api/sessions/${encoded(id)}/report`, target: "_blank", rel: "noopener" }, say("report_short"), name),
      session.done && button([say("truth"), name.cloneNode(true)], () => { this.isNoting = this.isNoting === id ? null : id; this.show(); document.getElementById("truth")?.focus(); }, { class: "small-button", "aria-expanded": String(this.isNoting === id) }),
      button([say("delete"), name.cloneNode(true)], () => { this.isForgetting = id; this.show(); this.shell.main.querySelector(".danger").focus(); }, { class: "small-button" }));
  }

  forget(id) {
    return this.act(async () => {
      await call("DELETE", `/api/sessions/${encoded(id)}`);
      this.isForgetting = null;
      await this.load();
    }, say("deleted"));
  }

  note(session, label) {
    return this.act(async () => {
      await call("PUT", `/api/sessions/${encoded(session.id)}/truth`, { label });
      this.isNoting = null;
      await this.load();
    }, say("noted"));
  }

  accuracySection() {
    const { accuracy } = this;
    if (!accuracy || !accuracy.n) return h("section", {}, h("h2", {}, say("accuracy")), h("p", { class: "lead" }, say("no_truth")));
    const values = { n: whole(accuracy.n), n_right: whole(accuracy.n_right), right: percent(accuracy.accuracy) };
    const dates = accuracy.points.map(point => dayText(point.date));
    return h("section", {}, h("h2", {}, say("accuracy")), h("p", {}, say("accuracy_text", values), accuracy.interval && ` ${say("accuracy_interval", { low: percent(accuracy.interval[0]), high: percent(accuracy.interval[1]) })}`),
      dates.length > 1 && figure(accuracyChart(accuracy.points, dates), say("accuracy_caption")));
  }
}
