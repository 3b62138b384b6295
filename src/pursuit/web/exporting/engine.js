// The engine of an interview that is computed in the browser, without a server.

import { daysOf, isoDate } from "../interview/words.js";
import { keep, kept } from "../interview/settings.js";
import { Course } from "./course.js";
import { doubtAbout } from "./doubts.js";
import { labelSet } from "./rules.js";
import { argmax, bitsAt, doubt, expected, interval } from "./mathematics.js";

const N_LABELS = 8; // in a belief
const N_LEADING = 3; // after an imagined answer
const LITTLE = 1 / 3; // a question that tells less than this share of the most that another one promises is asked for what comes after it
const NOT_GIVEN = "not given";
const LEAST_WEIGHT = 0.01; // an answer that moved a label by fewer bits spoke neither for nor against it
const TINIEST = 1e-12; // so that weights stay finite
const PLACE = "sessionStorage"; // a reload goes on; nothing is kept once the page is closed

export class BrowserEngine {
  constructor(model) {
    this.model = model;
    this.numberOf = new Map(model.queries.map((query, i) => [query.name, i]));
    this.restart(false);
    this.restore();
  }

  // ---- moves

  async state() { return this.describe(); }

  async tell(value, { query, confirmed = false } = {}) {
    const asked = query === undefined ? this.course.next : this.numberOf.get(query), answer = this.read(asked, value, confirmed);
    if (this.course.told.has(asked)) return this.after(() => this.course.substitute(asked, answer));
    return this.after(() => this.course.add({ move: "tell", query: asked, answer, volunteered: query !== undefined || this.course.isBeforehand(asked) }));
  }

  async change(name, value, { confirmed = false } = {}) {
    const query = this.numberOf.get(name), answer = this.read(query, value, confirmed);
    return this.after(() => this.course.substitute(query, answer));
  }

  async skip() { return this.after(() => this.course.add({ move: "skip", query: this.course.next })); }
  async undo() { return this.after(() => this.course.undo()); }
  async goOn() { return this.after(() => this.course.add({ move: "go on" })); }
  async reject() { return this.after(() => this.course.add({ move: "reject", labels: [argmax(this.posterior)] })); }
  async takeBackRejection(label) { return this.after(() => this.course.takeBackRejection(this.model.labels.indexOf(label))); }

  async accept() {
    this.isAccepted = true;
    return this.saved();
  }

  /** Begin again. */
  restart(saves = true) {
    this.course = new Course(this.model);
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
    keep(this.storageName, JSON.stringify({ moves: this.course.moves, isAccepted: this.isAccepted }), PLACE);
    return this.describe();
  }

  restore() {
    try {
      const { moves, isAccepted } = JSON.parse(kept(this.storageName, PLACE));
      for (const move of moves) this.course.add(move);
      this.isAccepted = isAccepted;
    } catch {
      this.restart(false); // nothing was kept, or nothing that can be read
    }
  }

  // ---- answers

  /** An answer as the course has it; throws with a doubt about a number that is hardly meant. */
  read(query, value, confirmed) {
    const described = this.model.queries[query], how = described.number;
    if (value === null) return null;
    const choice = [...described.choices, ...(described.may_be_missing ? [NOT_GIVEN] : [])].indexOf(value);
    if (choice >= 0) return { choice };
    const number = how.is_date ? daysOf(value) : Number(value), doubtful = confirmed ? null : doubtAbout(how, number);
    if (doubtful) throw { doubt: { query: described.name, text: described.text, ...doubtful } };
    return { number };
  }

  /** The value of an answer, and how it reads. */
  written(query, answer) {
    const described = this.model.queries[query], how = described.number;
    if (answer === null) return { value: null, shown: null };
    if ("choice" in answer) {
      const text = described.choices[answer.choice] ?? NOT_GIVEN;
      return { value: text, shown: text };
    }
    const value = how.is_date ? isoDate(answer.number, how.has_time) : answer.number;
    return { value, shown: how.is_date ? value.replace("T", " ") : `${value}${described.unit ? ` ${described.unit}` : ""}` };
  }

  // ---- what is shown

  get posterior() { return this.course.now.belief.posterior; }

  async question(name) { return this.describeQuestion(this.numberOf.get(name)); }

  describeQuestion(query, number = 0) {
    const described = this.model.queries[query], how = described.number, { name, text, help, unit, cost, is_yes_no } = described;
    const choices = is_yes_no ? [described.choices[1], described.choices[0]] : [...described.choices]; // yes before no
    if (described.may_be_missing) choices.push(NOT_GIVEN);
    const range = how ? { low: how.low, high: how.high, seen: how.seen, centre: how.centre, decimals: how.decimals, has_time: how.has_time }
      : { low: null, high: null, seen: null, centre: null, decimals: 0, has_time: false };
    return { name, text, help, unit, cost, is_yes_no, kind: how ? (how.is_date ? "date" : "number") : "choice",
      choices: choices.map(choice => ({ value: choice, text: choice })), number, is_beforehand: this.course.isBeforehand(query), ...range };
  }

  ranked(posterior) { return [...posterior.keys()].sort((a, b) => posterior[b] - posterior[a] || a - b); }

  labels(posterior, n) {
    return this.ranked(posterior).slice(0, n).filter((label, i) => i === 0 || posterior[label] > 0)
      .map(label => ({ label: this.model.labels[label], probability: posterior[label] }));
  }

  describeBelief() {
    const { posterior } = this, { target } = this.model, labels = this.labels(posterior, N_LABELS);
    const others = Math.max(0, 1 - labels.reduce((sum, one) => sum + one.probability, 0));
    const number = target && { expected: expected(target, posterior), text: expected(target, posterior).toFixed(target.decimals),
      low: interval(target, posterior)[0], high: interval(target, posterior)[1] };
    return { labels, n_others: posterior.filter(p => p > 0).length - labels.length, others, number };
  }

  describeAnswers() {
    const { course, model } = this, beliefs = course.beliefs().map(doubt), rejected = new Set();
    let n = 0;
    return course.moves.flatMap(move => {
      if (move.move === "reject") {
        const labels = move.labels.filter(label => !rejected.has(label));
        labels.forEach(label => rejected.add(label));
        return labels.map(label => ({ kind: "rejected", label: model.labels[label] }));
      }
      if (move.move !== "tell") return [];
      const gained = beliefs[n] - beliefs[++n];
      return [{ kind: "answer", question: this.describeQuestion(move.query), ...this.written(move.query, move.answer),
        gained: move.answer === null ? null : gained, volunteered: move.volunteered && !course.isBeforehand(move.query) }];
    });
  }

  /** How each answer moved the result, the weightiest first. */
  reasons(label) {
    const { course, model } = this, { target } = model, beliefs = course.beliefs();
    const figure = posterior => (target ? expected(target, posterior) : posterior[label]);
    const spread = target ? target.spread : 1;
    const found = [...course.told.values()].flatMap(({ query, answer }, i) => {
      if (answer === null) return [];
      const [before, after] = [figure(beliefs[i]), figure(beliefs[i + 1])];
      const weight = target ? after - before : Math.log2(Math.max(after, TINIEST) / Math.max(before, TINIEST));
      const { name, text } = model.queries[query];
      return [{ name, text, answer: this.written(query, answer).shown, before, after, weight }];
    }).filter(one => Math.abs(one.weight) >= LEAST_WEIGHT * spread).sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight));
    return { for: found.filter(one => one.weight > 0), against: found.filter(one => one.weight < 0) };
  }

  describeResult() {
    const { course, model, posterior } = this, [best, next] = this.ranked(posterior), turn = model.target ? null : course.turningPoint();
    const named = label => ({ label: model.labels[label], probability: posterior[label] });
    return {
      ...(model.target ? { label: expected(model.target, posterior).toFixed(model.target.decimals), probability: null } : named(best)),
      runner_up: model.target || next === undefined ? null : named(next),
      n_asked: course.now.nAsked,
      reasons: this.reasons(best),
      what_if: turn && { name: model.queries[turn.query].name, text: model.queries[turn.query].text, label: model.labels[turn.label], probability: turn.probability,
        answer: this.written(turn.query, course.told.get(turn.query).answer).shown, instead: this.written(turn.query, { choice: turn.choice }).shown },
      unusual: this.describeUnusual(),
      accepted: this.isAccepted,
      decided: course.now.decided,
      label_set: labelSet(model.stop, posterior)?.map(label => model.labels[label]) ?? null,
    };
  }

  describeUnusual() {
    const query = this.course.unusual();
    if (query === null) return null;
    const { name, text } = this.model.queries[query];
    return { name, text, answer: this.written(query, this.course.told.get(query).answer).shown };
  }

  describe() {
    const { course, model } = this, query = this.isAccepted ? null : course.next;
    const number = query === null || course.isBeforehand(query) ? 0 : course.now.nAsked + 1;
    return {
      title: model.title, n_labels: model.labels.length, is_number: Boolean(model.target), is_image: false, image: null,
      progress: course.progress, questions_left: course.questionsLeft,
      question: query === null ? null : this.describeQuestion(query, number),
      belief: this.describeBelief(), answers: this.describeAnswers(), skipped: course.now.putOff.map(one => model.queries[one].name),
      can_undo: course.moves.length > 0, can_skip: course.canSkip, can_go_on: query === null && course.canGoOn, done: query === null,
      open: course.mayBeTold.map(one => ({ name: model.queries[one].name, text: model.queries[one].text })),
      expects_reports: Boolean(model.expects_reports),
      result: query === null ? this.describeResult() : null,
    };
  }

  // ---- why

  async why() {
    const { course, model } = this, query = course.next, isBeforehand = course.isBeforehand(query);
    const candidates = isBeforehand ? [] : course.candidates(), bits = candidates[0]?.bits ?? null, n = course.open().filter(Boolean).length;
    return {
      reason: { kind: this.reasonKind(query, bits, n), n, bits, cost: model.queries[query].cost },
      candidates: candidates.map(({ query: one, bits: own, share }) => ({ name: model.queries[one].name, text: model.queries[one].text, bits: own, share })),
      answers: course.effects(query).map(effect => this.describeEffect(query, effect)),
    };
  }

  reasonKind(query, bits, n) {
    const { course, model } = this;
    if (course.isBeforehand(query)) return "beforehand";
    if (course.now.putOff.includes(query)) return "again";
    if (n === 1) return "last";
    if (bits === null) return "share";
    if (model.cost_aware) return "cost";
    const all = bitsAt(model, course.now.belief), most = Math.max(...course.ranking().map(other => all[other]));
    if (most <= bits) return "bits";
    return Math.max(bits, course.bitsTold(query)) < LITTLE * most ? "decides" : "prefers";
  }

  describeEffect(query, { value, probability, posterior }) {
    const { model } = this, described = model.queries[query], range = value !== "missing" && model.answers?.intervals[query];
    const text = value === "missing" ? NOT_GIVEN : range ? "" : described.choices[value];
    const ends = range ? { low: range[value][0], high: range[value][1] } : {};
    const number = model.target && [expected(model.target, this.posterior), expected(model.target, posterior)];
    return { text, ...ends, probability, labels: this.labels(posterior, N_LEADING), ...(number ? { number } : {}) };
  }
}
