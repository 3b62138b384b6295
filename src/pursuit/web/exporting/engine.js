// The engine of an interview that is computed in the browser, without a server.

import { daysOf, isoDate } from "../interview/words.js";
import { keep, kept } from "../interview/settings.js";
import { SessionLog } from "./log.js";
import { doubtAbout } from "./doubts.js";
import { labelSet } from "./rules.js";
import { argmax, bitsAt, divergence, doubt, expected, interval } from "./mathematics.js";

const N_LABELS = 8; // in a belief
const N_LEADING = 3; // after an imagined answer
const LITTLE = 1 / 3; // a question that tells less than this share of the most that another one promises is asked for what comes after it
const MOST_REASONS = 8; // for and against a result
const NOT_GIVEN = "not given", NO_ANSWER = "no answer";
const LEAST_WEIGHT = 0.01; // an answer that moved a label by fewer bits spoke neither for nor against it
const TINIEST = 1e-12; // so that weights stay finite
const PLACE = "sessionStorage"; // a reload goes on; nothing is kept once the page is closed

export class BrowserEngine {
  constructor(model) {
    this.model = model;
    this.numberOf = new Map(model.queries.map(({ question }, i) => [question.name, i]));
    this.restart(false);
    this.restore();
  }

  // ---- moves

  async state() { return this.describe(); }

  async tell(value, { query, confirmed = false } = {}) {
    const asked = query === undefined ? this.log.next : this.numberOf.get(query), answer = this.read(asked, value, confirmed);
    if (this.log.told.has(asked)) return this.after(() => this.log.change(asked, answer));
    return this.after(() => this.log.add({ move: "tell", query: asked, answer, volunteered: asked !== this.log.next || this.log.isBeforehand(asked) }));
  }

  async change(name, value, { confirmed = false } = {}) {
    const query = this.numberOf.get(name), answer = this.read(query, value, confirmed);
    return this.after(() => this.log.change(query, answer));
  }

  async skip() { return this.after(() => this.log.add({ move: "skip", query: this.log.next })); }
  async undo() { return this.after(() => this.log.undo()); }
  async goOn() { return this.after(() => this.log.add({ move: "go on" })); }
  async reject() { return this.after(() => this.log.add({ move: "reject", labels: [argmax(this.posterior)] })); }
  async takeBackRejection(label) { return this.after(() => this.log.takeBackRejection(this.model.labels.indexOf(label))); }

  async accept() {
    this.isAccepted = true;
    return this.saved();
  }

  /** Begin again. */
  restart(saves = true) {
    this.log = new SessionLog(this.model);
    this.isAccepted = false;
    return saves ? this.saved() : null;
  }

  after(act) {
    act();
    this.isAccepted = false;
    return this.saved();
  }

  // ---- a reload goes on

  get storageName() { return `session.${this.model.fingerprint}`; }

  saved() {
    keep(this.storageName, JSON.stringify({ moves: this.log.moves, changes: this.log.changes, isAccepted: this.isAccepted }), PLACE);
    return this.describe();
  }

  restore() {
    try {
      const { moves, changes = [], isAccepted } = JSON.parse(kept(this.storageName, PLACE));
      for (const move of moves) this.log.add(move);
      this.log.changes = changes;
      this.isAccepted = isAccepted;
    } catch {
      this.restart(false); // nothing was kept, or nothing that can be read
    }
  }

  // ---- answers

  /** An answer as the log has it; throws with a doubt about a number that is hardly meant. */
  read(query, value, confirmed) {
    const { question, choices, number: how } = this.model.queries[query];
    if (value === null) return null;
    const choice = choices.indexOf(value);
    if (choice >= 0) return { choice };
    const number = question.kind === "date" ? daysOf(value) : Number(value), doubtful = confirmed ? null : doubtAbout(question, how.spread, number);
    if (doubtful) throw { doubt: { query: question.name, text: question.text, ...doubtful } };
    return { number };
  }

  /** The value of an answer, and how it reads. */
  written(query, answer) {
    const { question: { kind, unit, has_time: hasTime }, choices } = this.model.queries[query];
    if (answer === null) return { value: null, shown: null };
    if ("choice" in answer) return { value: choices[answer.choice], shown: choices[answer.choice] };
    const isDate = kind === "date", value = isDate ? isoDate(answer.number, hasTime).replace("T", " ") : answer.number;
    return { value, shown: isDate || !unit ? String(value) : `${value} ${unit}` };
  }

  // ---- what is shown

  get posterior() { return this.log.now.belief.posterior; }

  async question(name) { return this.describeQuestion(this.numberOf.get(name)); }

  describeQuestion(query, number = 0) { return { ...this.model.queries[query].question, number }; }

  ranked(posterior) { return [...posterior.keys()].sort((a, b) => posterior[b] - posterior[a] || a - b); }

  /** The most probable labels of those that are left. */
  leading(posterior, n) { return this.ranked(posterior).filter(label => !this.log.now.excluded.includes(label)).slice(0, n); }

  share(posterior, label) { return { label: this.model.labels[label], probability: posterior[label] }; }

  describeBelief() {
    const { posterior } = this, { target } = this.model, leading = this.leading(posterior, N_LABELS), labels = leading.map(label => this.share(posterior, label));
    const n_others = posterior.length - this.log.now.excluded.length - labels.length;
    const others = n_others ? Math.max(0, 1 - labels.reduce((sum, one) => sum + one.probability, 0)) : 0;
    return { labels, n_others, others, number: target && this.describeNumber(leading) };
  }

  describeNumber(leading) {
    const { posterior } = this, { target } = this.model, [low, high] = interval(target, posterior), mean = expected(target, posterior);
    const [about, from, to] = [mean, low, high].map(one => one.toFixed(target.decimals));
    return { expected: mean, low, high, text: `about ${about} (90%: ${from} to ${to})`, decimals: target.decimals, bins: leading.map(label => target.ends[label]) };
  }

  describeAnswers() {
    const { log, model } = this, beliefs = log.beliefs();
    let n = 0, nAsked = 0;
    return log.moves.flatMap(move => {
      if (move.move === "reject") return move.labels.map(label => ({ kind: "rejected", label: model.labels[label] }));
      if (move.move !== "tell") return [];
      const [before, after] = [beliefs[n], beliefs[++n]], { volunteered, answer } = move;
      nAsked += !volunteered;
      return [{ kind: "answer", question: this.describeQuestion(move.query, volunteered ? 0 : nAsked), ...this.written(move.query, move.answer),
        gained: answer === null ? null : doubt(before) - doubt(after), told: answer === null ? null : divergence(before, after), volunteered }];
    });
  }

  /** How each answer moved the result, the weightiest first. */
  reasons(label) {
    const { log, model } = this, { target } = model, beliefs = log.beliefs();
    const figure = posterior => (target ? expected(target, posterior) : posterior[label]);
    const spread = target ? target.spread : 1;
    const found = [...log.told.values()].flatMap(({ query, answer }, i) => {
      if (answer === null) return [];
      const [before, after] = [figure(beliefs[i]), figure(beliefs[i + 1])];
      const weight = target ? after - before : Math.log2(Math.max(after, TINIEST) / Math.max(before, TINIEST));
      const { name, text } = model.queries[query].question;
      return [{ name, text, answer: this.written(query, answer).shown, before, after, weight }];
    }).filter(one => Math.abs(one.weight) >= LEAST_WEIGHT * spread).sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight));
    return { for: found.filter(one => one.weight > 0).slice(0, MOST_REASONS), against: found.filter(one => one.weight < 0).slice(0, MOST_REASONS) };
  }

  describeResult() {
    const { log, model, posterior } = this, [best, next] = this.leading(posterior, 2), turn = model.target ? null : log.turningPoint();
    const turned = turn && model.queries[turn.query].question;
    return {
      ...(model.target ? { label: expected(model.target, posterior).toFixed(model.target.decimals), probability: null } : this.share(posterior, best)),
      runner_up: model.target || next === undefined ? null : this.share(posterior, next),
      n_asked: log.now.nAsked,
      reasons: this.reasons(best),
      what_if: turn && { name: turned.name, text: turned.text, label: model.labels[turn.label], probability: turn.probability,
        answer: this.written(turn.query, log.told.get(turn.query).answer).shown, instead: this.written(turn.query, { choice: turn.choice }).shown },
      unusual: this.describeUnusual(),
      accepted: this.isAccepted,
      decided: log.now.decided,
      label_set: labelSet(model.stop, posterior)?.map(label => model.labels[label]) ?? null,
      trust: log.now.excluded.length ? null : this.trust(model.target ? null : posterior[best]),
    };
  }

  /** How often results of this confidence were right when the model was measured; null where it was not. */
  trust(confidence) {
    const { experience } = this.model;
    if (!experience) return null;
    const { n_rows: n, in_range: inRange, sure } = experience;
    if (inRange !== null) return { n_measured: n, n_rows: n, n_right: Math.round(inRange * n) };
    if (confidence === null || !sure.length) return null;
    const same = sure.findLast(one => one.low <= confidence + 1e-9);
    const isSeen = same && confidence <= same.high + 1e-9;
    return { n_measured: n, n_rows: isSeen ? same.n_rows : 0, n_right: isSeen ? same.n_right : 0 };
  }

  describeUnusual() {
    const query = this.log.unusual();
    if (query === null) return null;
    const { name, text } = this.model.queries[query].question;
    return { name, text, answer: this.written(query, this.log.told.get(query).answer).shown };
  }

  describe() {
    const { log, model } = this, query = this.isAccepted ? null : log.next;
    const number = query === null || log.isBeforehand(query) ? 0 : log.now.nAsked + 1;
    return {
      title: model.title, n_labels: model.labels.length, is_number: Boolean(model.target), is_image: false, image: null, also: [],
      progress: log.progress, questions_left: log.questionsLeft,
      question: query === null ? null : this.describeQuestion(query, number),
      belief: this.describeBelief(), answers: this.describeAnswers(), skipped: log.now.putOff.map(one => model.queries[one].question.name),
      can_undo: log.moves.length > 0, can_skip: log.canSkip, can_go_on: log.canGoOn, done: query === null,
      open: log.mayBeTold.map(one => model.queries[one].question).map(({ name, text }) => ({ name, text })),
      expects_reports: Boolean(model.expects_reports),
      result: query === null ? this.describeResult() : null,
    };
  }

  // ---- why

  async why() {
    const { log, model } = this, query = log.next, n = log.mayBeTold.length, candidates = log.candidates().map(({ query: one, ...worth }) => {
      const { name, text, cost } = model.queries[one].question;
      return { name, text, ...worth, cost };
    });
    const [{ bits, cost }] = candidates, n_skipped = log.now.putOff.filter(one => one !== query).length;
    return {
      reason: { kind: this.reasonKind(query, bits, n), n, bits, cost, is_restricted: log.isRestricted, n_skipped },
      candidates,
      answers: log.effects(query).map(effect => this.describeEffect(query, effect)),
      doubt: log.now.belief.doubt,
      bits_gained: log.firstDoubt - log.now.belief.doubt,
      is_cost_aware: model.cost_aware,
    };
  }

  reasonKind(query, bits, n) {
    const { log, model } = this;
    if (log.isBeforehand(query)) return "beforehand";
    if (log.now.putOff.includes(query)) return "again";
    const group = model.order.groups.find(own => own.includes(query))?.filter(own => !log.answers.has(own));
    if (n === 1 && !group) return "last";
    if (bits === null) return "share";
    const all = bitsAt(model, log.now.belief), most = Math.max(...log.ranking().map(other => all[other]));
    if (group) return model.querier && group.reduce((sum, own) => sum + all[own], 0) < LITTLE * most ? "decides" : "group";
    if (model.cost_aware) return "cost";
    if (most <= bits) return "bits";
    return Math.max(bits, log.bitsTold(query)) < LITTLE * most ? "decides" : "prefers";
  }

  describeEffect(query, { value, probability, posterior }) {
    const { model } = this, { target } = model, { choices } = model.queries[query], range = model.answers?.intervals[query]?.[value];
    const [low, high, text] = range ?? [null, null, value === "missing" ? NOT_GIVEN : value === "none" ? NO_ANSWER : choices[value]];
    const labels = target ? [] : this.leading(posterior, N_LEADING).map(label => ({ ...this.share(posterior, label), before: this.posterior[label] }));
    return { text, probability, labels, number: target && [expected(target, this.posterior), expected(target, posterior)], low, high };
  }
}
