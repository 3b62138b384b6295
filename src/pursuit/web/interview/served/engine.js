// The engine of an interview that a server computes and keeps.

import { call, encoded, get } from "./api.js";

export class ServerEngine {
  /** With the session of an `id`, or with a new one of a `model`, which begins with the first move, so that whoever only
   *  looks leaves nothing behind. `onBegin` hears its id. */
  constructor({ model = null, id = null, onBegin = () => {} }) {
    Object.assign(this, { model, id, onBegin, revision: 0, questions: null, first: null, session: null, consented: false });
  }

  async state() {
    if (this.id) return this.seen(await get(`/api/sessions/${encoded(this.id)}`));
    this.first = await call("POST", `/api/models/${encoded(this.model)}/next`, {});
    return this.first.state;
  }

  async why() {
    return this.id ? get(`/api/sessions/${encoded(this.id)}/why`) : this.first.why;
  }

  async question(name) {
    this.questions ??= (await get(`/api/models/${encoded(this.model)}/questions`)).questions;
    return this.questions.find(question => question.name === name);
  }

  tell(value, { query, confirmed = false } = {}) {
    return value === null && query === undefined ? this.move("dont_know") : this.move("tell", { answer: value, query, confirmed });
  }

  change(query, value, { confirmed = false } = {}) { return this.move("change", { query, answer: value, confirmed }); }
  skip() { return this.move("skip"); }
  undo() { return this.move("undo"); }
  reject() { return this.move("reject"); }
  takeBackRejection(label) { return this.move("take_back_rejection", { label }); }
  goOn() { return this.move("go_on"); }
  accept() { return this.move("accept"); }
  reveal() { return this.move("reveal"); }

  /** What is revealed of the picture at this revision. */
  pictureUrl() { return `/api/sessions/${encoded(this.id)}/picture.png?revision=${this.revision}`; }

  get reportUrl() { return this.id ? `/api/sessions/${encoded(this.id)}/report` : null; }

  /** Whether the server reads what people say in their own words. */
  get hasWords() { return document.documentElement.dataset.words === "yes"; }

  async suggest(text) {
    await this.begun();
    return (await call("POST", `/api/sessions/${encoded(this.id)}/suggestions`, { text })).suggestions;
  }

  async begun() {
    if (this.id) return;
    this.seen(await call("POST", "/api/sessions", { model: this.model, consented: this.consented }));
    this.onBegin(this.id);
  }

  async move(move, more = {}) {
    await this.begun();
    try {
      return this.seen(await call("POST", `/api/sessions/${encoded(this.id)}/moves`, { move, revision: this.revision, ...more }));
    } catch (problem) {
      throw problem.session ? { ...problem, state: this.seen(problem.session) } : problem;
    }
  }

  seen(session) {
    Object.assign(this, { id: session.id, model: session.model, revision: session.revision, session });
    return session.state;
  }
}
