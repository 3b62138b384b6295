// The interview: it shows the state that an engine gives, and asks the engine for the next one.
//
// An engine has async functions that give a state: state, tell(value, {query, confirmed}), skip, undo,
// change(query, value, {confirmed}), reject, takeBackRejection(label), goOn, accept; beside them why() and
// question(name), reveal() and pictureUrl() where a picture answers, and suggest(text) where the engine `hasWords`. Where an answer cannot be taken they throw an object with `doubt` (ask again), `state` (somebody else
// moved meanwhile), `isLost` (no connection) or a `message`.

import { h, quietButton } from "./dom.js";
import { answersSection } from "./answers.js";
import { beliefSection, spokenBelief } from "./belief.js";
import { doubtSection } from "./number.js";
import { hasWelcome, welcomeSection } from "./presentation.js";
import { pickSection, questionSection } from "./question.js";
import { resultSection } from "./result.js";
import { say } from "./words.js";

const PATIENCE = 300; // milliseconds until the page says that it waits
const MOST_BESIDE = 6; // answers that stand beside the question; more stand below it, where there is room
const RETRIES = [1, 2, 4, 8, 15]; // seconds until the next attempt after the connection was lost

export class Interview {
  /** `places` has startOver, reportUrl() (null: the page prints itself), footnote() and a presentation. */
  constructor(engine, main, spoken, places) {
    Object.assign(this, { engine, main, spoken, places, state: null, view: { kind: "now" }, isBusy: false, notice: null, retry: null });
    this.acts = {
      answer: value => this.answer(value),
      undo: () => this.move(() => engine.undo()),
      skip: () => this.move(() => engine.skip()),
      reveal: () => this.move(() => engine.reveal()),
      accept: () => this.move(() => engine.accept()),
      reject: () => this.move(() => engine.reject()),
      goOn: () => this.move(() => engine.goOn()),
      takeBack: label => this.move(() => engine.takeBackRejection(label)),
      change: entry => this.show({ kind: "change", question: entry.question, current: entry.value }),
      volunteer: name => this.volunteer(name),
      pick: () => this.show({ kind: "pick" }),
      suggest: engine.hasWords && (text => this.suggest(text)),
      confirm: one => this.confirm(one),
      deny: one => this.show({ ...this.view, suggestions: this.view.suggestions.filter(other => other !== one) }),
      cancel: () => this.show({ kind: "now" }),
      why: () => this.toggleWhy(),
      startOver: () => places.startOver(),
      pictureUrl: () => engine.pictureUrl(),
      reportUrl: () => places.reportUrl(),
    };
  }

  /** Show where the interview stands; the first view of a page does not take the focus. */
  async begin(state = null) {
    await this.move(state ? async () => state : () => this.engine.state(), true);
    const { presentation } = this.places;
    if (this.state?.question && !this.state.answers.length && hasWelcome(presentation)) this.show({ kind: "welcome" }, true);
  }

  answer(value, confirmed = false) {
    const { kind, question } = this.view, options = { confirmed };
    if (kind === "change") return this.move(() => this.engine.change(question.name, value, options), false, value);
    const query = kind === "volunteer" ? question.name : undefined;
    return this.move(() => this.engine.tell(value, { query, ...options }), false, value);
  }

  async volunteer(name) {
    const question = await this.wait(() => this.engine.question(name));
    if (question) this.show({ kind: "volunteer", question });
  }

  /** Show what a text in a person's own words may mean. */
  async suggest(text) {
    const suggestions = await this.wait(() => this.engine.suggest(text));
    if (suggestions) this.show({ kind: "pick", text, suggestions });
  }

  /** A proposal is right: it is told, and the others stay. */
  async confirm(one) {
    const suggestions = this.view.suggestions.filter(other => other.name !== one.name);
    const state = await this.wait(() => this.engine.tell(one.answer, { query: one.name }), one.answer);
    if (state === undefined) return;
    this.state = state;
    this.show(suggestions.length && state.open.length ? { kind: "pick", suggestions } : { kind: "now" });
  }

  async toggleWhy() {
    const why = this.view.why ? null : await this.wait(() => this.engine.why());
    if (why === undefined) return;
    this.view = { ...this.view, why };
    this.render();
    this.main.querySelector('[data-key="?"]')?.focus();
  }

  /** Make a move and show the state after it. */
  async move(act, isFirst = false, value = null) {
    const wantsWhy = Boolean(this.view.why);
    const state = await this.wait(act, value);
    if (state === undefined) return;
    this.state = state;
    const why = wantsWhy && !state.done ? await this.wait(() => this.engine.why()) : null;
    this.show({ kind: "now", why }, isFirst);
  }

  /** What an engine's function gives; undefined if it could not be had, after saying so. One at a time. */
  async wait(act, value = null) {
    if (this.isBusy) return undefined;
    this.isBusy = true;
    const timer = setTimeout(() => { this.main.setAttribute("aria-busy", "true"); this.spoken.textContent = say("waiting"); }, PATIENCE);
    try {
      const found = await act();
      this.forgetRetry();
      this.notice = null;
      return found;
    } catch (error) {
      this.fail(error, act, value);
      return undefined;
    } finally {
      clearTimeout(timer);
      this.main.removeAttribute("aria-busy");
      this.isBusy = false;
    }
  }

  fail(error, act, value) {
    const wasLost = this.retry !== null;
    if (error.isLost) return this.tryAgainLater(act, value);
    this.forgetRetry();
    if (error.doubt) return this.show({ ...this.view, question: this.view.question || this.state.question, doubt: { value, doubt: error.doubt }, before: this.view });
    if (error.state) {
      this.state = error.state;
      this.notice = wasLost ? null : h("p", {}, say("moved_elsewhere"));
      return this.show({ kind: "now" });
    }
    this.notice = h("p", {}, error.message || say("failed"));
    if (!error.message) throw error;
    return this.render();
  }

  /** The connection is lost: keep the answer, and try again by and by. */
  tryAgainLater(act, value) {
    const n = this.retry ? this.retry.n + 1 : 0, again = () => { clearTimeout(this.retry.timer); this.move(act, false, value); };
    this.retry = { n, timer: setTimeout(again, 1000 * RETRIES[Math.min(n, RETRIES.length - 1)]) };
    if (n === 0) {
      this.notice = [h("p", {}, say("lost")), quietButton(say("try_again"), () => again())];
      this.render();
    }
  }

  forgetRetry() {
    if (this.retry) clearTimeout(this.retry.timer);
    this.retry = null;
  }

  /** Go to another view: the heading gets the focus, and the belief is read out. */
  show(view, isFirst = false) {
    this.view = view;
    this.render();
    if (!isFirst) {
      this.main.querySelector("h1")?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    if (this.state) this.spoken.textContent = view.kind === "now" && !view.doubt ? spokenBelief(this.state) : "";
  }

  section() {
    const { state, view, acts } = this;
    if (view.doubt) {
      const again = (value, confirmed) => { this.view = view.before; this.answer(value, confirmed); };
      return doubtSection(view.question, view.doubt, again, () => this.show(view.before));
    }
    if (view.kind === "welcome") {
      const { title } = state, own = { ...this.places.presentation, title };
      return welcomeSection(own, () => { this.engine.consented = true; this.show({ kind: "now" }); });
    }
    if (view.kind === "pick") return pickSection(state, acts, view);
    if (view.kind !== "now") return questionSection(state, view, acts);
    if (state.question === null) return resultSection(state, acts, this.places.presentation?.results?.[state.result.label]);
    return questionSection(state, { ...view, question: state.question }, acts);
  }

  render() {
    const notice = this.notice && h("div", { class: "notice", role: "alert" }, this.notice);
    if (!this.state) {
      this.main.replaceChildren(...[notice].filter(Boolean));
      return;
    }
    const isWelcome = this.view.kind === "welcome", contact = this.places.presentation?.contact;
    const isBelieved = this.state.done || this.state.answers.some(({ value }) => value !== null); // not only how frequent labels are
    this.main.className = isWelcome ? "wide" : isBelieved && this.state.answers.length > MOST_BESIDE ? "interview long" : "interview";
    this.main.replaceChildren(...[notice, this.section(),
      !isWelcome && h("div", { class: "side" }, isBelieved && beliefSection(this.state), answersSection(this.state, this.acts, Boolean(this.view.why))),
      h("p", { class: "footnote" }, contact && `${say("contact", { contact })} · `, this.places.footnote())].filter(Boolean));
  }
}
