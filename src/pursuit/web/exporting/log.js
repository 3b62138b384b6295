// The log of an interview: the moves of a person so far and all that follows from them, as a session of the Python
// package has it.
//
// Moves are {move: "tell", query, answer, volunteered}, {move: "skip", query}, {move: "reject", labels} and
// {move: "go on"}; an answer is null (don't know), {choice} or {number}. The same moves always give the same.

import { argmax, beliefAfter, bitsAt, divergence, doubt, logSoftmax, oddsAt, possibleAnswers, scoresAt, surpriseOf, without } from "./mathematics.js";
import { decided, groupScores, openQueries, stops } from "./rules.js";

const N_CANDIDATES = 4;
const LEAST_PROBABILITY = 1e-12; // an answer less probable than this counts as impossible
const N_PARTS = 10; // of progress, for each of which the questions still needed were counted
const USUAL = [0.1, 0.9]; // the quantiles of the questions still needed

/** What has been learnt, from 0 to 1, where `first` bits were in doubt and `now` bits are. */
const progress = (first, now) => (first > 0 ? Math.min(1, Math.max(0, 1 - now / first)) : 1);

export class SessionLog {
  constructor(model) {
    this.model = model;
    this.moves = [];
    this.told = new Map(); // by query, in the order they were given
    this.changes = []; // corrections: {n: how many moves there were after it, place, before: what stood there, isRemoved}
    this.positions = []; // before anything, then after each move
    this.stand({ belief: beliefAfter(model, [], []), cost: 0, nAsked: 0, excluded: [], putOff: [], isFree: false,
      askedByRule: 0, answeredByRule: 0, costBeforeRule: 0, memory: model.stop.map(() => ({})), enough: false });
  }

  get now() { return this.positions.at(-1); }

  // ---- moves

  add(move) {
    const last = this.now;
    if (move.move === "tell") this.tell(move);
    else if (move.move === "skip") this.positions.push({ ...last, putOff: [...last.putOff.filter(one => one !== move.query), move.query] });
    else if (move.move === "reject") this.reject(move.labels);
    else this.positions.push({ ...last, isFree: true });
    this.moves.push(move);
  }

  /** Take the last move back, or the last change if nothing was done since. */
  undo() {
    const change = this.changes.at(-1);
    if (change?.n === this.moves.length) {
      this.changes.pop();
      this.replay(change.place, [change.before, ...this.moves.slice(change.place + (change.isRemoved ? 0 : 1))]);
      return;
    }
    const move = this.moves.pop();
    this.positions.pop();
    if (move.move === "tell") this.told.delete(move.query);
  }

  /** Another answer in place of one given before. */
  change(query, answer) {
    const place = this.moves.findIndex(move => move.move === "tell" && move.query === query);
    this.substitute(place, { ...this.moves[place], answer });
  }

  /** A label that was rejected may be right after all. */
  takeBackRejection(label) {
    const place = this.moves.findIndex(move => move.move === "reject" && move.labels.includes(label));
    const labels = this.moves[place].labels.filter(one => one !== label);
    this.substitute(place, labels.length ? { move: "reject", labels } : null);
  }

  /** Make another move, or null, in place of the one made there, and all that came after it again. */
  substitute(place, move) {
    const before = this.moves[place], later = this.moves.slice(place + 1);
    this.replay(place, move ? [move, ...later] : later);
    this.changes.push({ n: this.moves.length, place, before, isRemoved: move === null });
  }

  /** Make these moves instead of all from this place on. */
  replay(place, moves) {
    this.moves.length = place;
    this.positions.length = place + 1;
    this.told = new Map(this.moves.filter(one => one.move === "tell").map(one => [one.query, one]));
    for (const move of moves) this.add(move);
  }

  tell(move) {
    const last = this.now, isAsked = !move.volunteered;
    this.told.set(move.query, move);
    this.stand({
      ...last,
      belief: beliefAfter(this.model, [...this.told.values()], last.excluded),
      cost: last.cost + (isAsked ? this.model.queries[move.query].question.cost : 0),
      nAsked: last.nAsked + isAsked,
      putOff: last.putOff.filter(one => one !== move.query),
      askedByRule: last.askedByRule + isAsked,
      answeredByRule: last.answeredByRule + (move.answer !== null),
    });
  }

  reject(labels) {
    const last = this.now, excluded = [...new Set([...last.excluded, ...labels])];
    const again = { isFree: false, askedByRule: 0, answeredByRule: 0, costBeforeRule: last.cost, memory: this.model.stop.map(() => ({})) };
    const belief = beliefAfter(this.model, [...this.told.values()], excluded);
    this.stand({ ...last, belief, excluded, ...(this.isOver ? again : {}) }); // the rule was satisfied with a wrong guess
  }

  /** Arrive at a position, and ask the rules what they say of it. */
  stand(position) {
    const { model } = this, memory = position.memory.map(one => ({ ...one }));
    this.positions.push({ ...position, memory });
    const standing = { posterior: position.belief.posterior, doubt: position.belief.doubt, nAsked: position.askedByRule,
      nAnswered: position.answeredByRule, worth: model.stop.some(rule => rule.rule === "bits") ? this.worth() : null };
    this.now.decided = decided(model.stop, standing);
    const last = [...this.told.values()].findLast(one => !one.volunteered), open = this.open();
    standing.inGroup = Boolean(last) && model.order.groups.some(own => own.includes(last.query) && own.some(i => open[i]));
    this.now.enough = model.stop.map((rule, i) => stops(rule, standing, memory[i], model)).some(Boolean);
  }

  /** The most that a query left promises, or null where nobody knows. */
  worth() {
    const { model, now } = this;
    if (!model.answers) return null;
    const promised = model.querier ? bitsAt(model, now.belief) : scoresAt(model, now.belief), open = this.open();
    return promised.reduce((most, value, i) => (open[i] ? Math.max(most, value) : most), -Infinity);
  }

  // ---- what comes next

  get answers() { return new Map([...this.told].map(([query, { answer }]) => [query, answer])); }

  /** What may be asked (Q,); `isFree`: whatever the rules say. */
  open(isFree = this.now.isFree) {
    return openQueries(this.model, this.answers, isFree ? null : this.now.cost - this.now.costBeforeRule);
  }

  get isOver() {
    if (this.firstUnknown() !== undefined) return false;
    return (this.now.enough && !this.now.isFree) || !this.open().some(Boolean);
  }

  get canGoOn() { return this.firstUnknown() !== undefined || this.open(true).some(Boolean); }

  /** The first query that is known beforehand and was neither given nor put off yet. */
  firstUnknown() {
    return this.model.order.beforehand.find(i => !this.told.has(i) && !this.now.putOff.includes(i));
  }

  isBeforehand(query) { return this.model.order.beforehand.includes(query); }

  /** The queries that may be asked now, the best first; what was put off only if nothing else is left, and then the one
   *  put off longest ago alone. */
  ranking() {
    const open = this.open(), { putOff, belief } = this.now;
    const scores = groupScores(this.model, scoresAt(this.model, belief), open.map((isOpen, i) => isOpen && !putOff.includes(i)));
    const left = this.model.queries.map((_, i) => i).filter(i => open[i]);
    const preferred = left.filter(i => !putOff.includes(i));
    if (!preferred.length) return putOff.filter(i => open[i]).slice(0, 1);
    return preferred.sort((a, b) => scores[b] - scores[a] || a - b);
  }

  /** The query to ask now; null once enough is known or nothing is left. */
  get next() { return this.isOver ? null : this.firstUnknown() ?? this.ranking()[0]; }

  get canSkip() {
    const query = this.next;
    if (query === null) return false;
    const isBeforehand = this.isBeforehand(query);
    const others = this.open().filter(Boolean).length - !isBeforehand;
    return others > 0 || (isBeforehand && this.model.order.beforehand.some(i => i !== query && !this.told.has(i) && !this.now.putOff.includes(i)));
  }

  /** What may still be asked, or told unasked, whatever the rules say. */
  get mayBeTold() {
    const open = this.open(true);
    return this.model.queries.map((_, i) => i).filter(i => open[i]);
  }

  // ---- reasons

  /** The beliefs about the labels that are left: first, and after each answer. */
  beliefs() {
    const after = this.positions.slice(1).filter((_, i) => this.moves[i].move === "tell");
    return [this.positions[0], ...after].map(({ belief }) => without(belief.posterior, this.now.excluded));
  }

  /** The query asked now and the next best: {query, bits, share}; share is one of preference where bits are unknown. */
  candidates() {
    const { model, now } = this, bits = bitsAt(model, now.belief), ranking = this.ranking();
    if (this.isBeforehand(this.next)) return [{ query: this.next, bits: null, share: null }];
    const shares = bits ? null : logSoftmax(ranking.map(i => scoresAt(model, now.belief)[i])).map(Math.exp);
    return ranking.slice(0, N_CANDIDATES).map((query, i) => ({ query, bits: bits && bits[query], share: shares && shares[i] }));
  }

  /** What each possible answer would make of the belief: {value, probability, posterior}, the most probable first. */
  effects(query) {
    const { model, now } = this, odds = oddsAt(model, now.belief), { inputs, number } = model.queries[query];
    const after = choice => beliefAfter(model, [...this.told.values(), { query, answer: { choice } }], now.excluded).posterior;
    if (odds) {
      const answers = possibleAnswers(model, odds, now.belief.posterior, query).filter(one => one.probability > LEAST_PROBABILITY)
        .sort((a, b) => b.probability - a.probability);
      if (!model.querier || number) return answers; // by Bayes
      return answers.map(one => (one.value === "none" ? one : { ...one, posterior: after(one.value === "missing" ? inputs.length - 1 : one.value) }));
    }
    return inputs.map((_, choice) => ({ value: choice, probability: null, posterior: after(choice) }));
  }

  /** How far the answers to a query are expected to move the belief, in bits. */
  bitsTold(query) {
    const before = this.now.belief.posterior;
    return this.effects(query).reduce((sum, one) => sum + (one.probability ?? 0) * divergence(before, one.posterior), 0);
  }

  /** A single answer that would have led to another label: {query, choice, label, probability}, the surest, or null. */
  turningPoint() {
    const { model, now } = this, label = argmax(now.belief.posterior), told = [...this.told.values()];
    let best = null;
    for (const [place, { query, answer }] of told.entries()) {
      if (answer === null || !("choice" in answer) || model.queries[query].inputs.length > 20) continue;
      for (let choice = 0; choice < model.queries[query].inputs.length; choice++) {
        if (choice === answer.choice) continue;
        const { posterior } = beliefAfter(model, told.map((one, i) => (i === place ? { query, answer: { choice } } : one)), now.excluded);
        const other = argmax(posterior);
        if (other !== label && (!best || posterior[other] > best.probability)) best = { query, choice, label: other, probability: posterior[other] };
      }
    }
    return best;
  }

  /** The query with the least expected answer where answers are unlike those learnt from; null if they are not. */
  unusual() {
    const { model } = this, limits = model.unusual_from, before = [];
    let excess = 0, variance = 0, isUnusual = false, least = null;
    for (const { query, answer } of limits && model.answers ? this.told.values() : []) {
      if (answer === null) continue;
      const [surprise, expected, spread] = surpriseOf(model, beliefAfter(model, before, []), query, answer);
      excess += surprise - expected;
      variance += spread;
      before.push({ query, answer });
      const limit = limits[before.length];
      if (limit !== null && excess / Math.sqrt(variance + 1) > limit) isUnusual = true;
      if (!least || surprise - expected > least.by) least = { query, by: surprise - expected };
    }
    return isUnusual ? least.query : null;
  }

  /** The entropy of the first belief about the labels that are left, in bits. */
  get firstDoubt() { return doubt(without(this.positions[0].belief.posterior, this.now.excluded)); }

  /** How much of what there is to know has been learnt, from 0 to 1. */
  get progress() { return progress(this.firstDoubt, this.now.belief.doubt); }

  /** Whether the order of queries closes any that was not asked. */
  get isRestricted() {
    const open = this.open(true);
    return this.model.queries.some((_, i) => !open[i] && !this.told.has(i));
  }

  /** Between which numbers the questions still to come usually are, by what was measured; null where it was not. */
  get usuallyLeft() {
    const { model, moves, positions, firstDoubt } = this, needed = model.experience?.needed ?? [];
    const first = moves.findLastIndex(({ move }) => move === "reject" || move === "go on") + 1;
    let part = -1, nSince = 0, found = null;
    for (let i = first; i < positions.length; i++) {
      const move = i > first ? moves[i - 1] : null;
      if (move?.move === "tell" && !move.volunteered && move.answer !== null) nSince++;
      const reached = Math.min(Math.floor(N_PARTS * progress(firstDoubt, positions[i].belief.doubt)), N_PARTS - 1);
      if (reached > part) [part, nSince] = [reached, 0];
      const counts = (needed[part] ?? []).slice(nSince), total = counts.reduce((sum, n) => sum + n, 0);
      if (!total) continue;
      const usual = USUAL.map(share => {
        let below = 0;
        return counts.findIndex(n => (below += n) >= share * total) + 1;
      });
      found = found ? found.map((n, end) => Math.min(n, usual[end])) : usual;
    }
    return found;
  }

  /** How many questions usually follow, by experience; without it, how many may follow where these are few. */
  get questionsLeft() {
    const { model, now } = this, n = this.mayBeTold.length, query = this.next, rules = now.isFree ? [] : model.stop;
    if (query === null) return null;
    const budgets = rules.filter(rule => rule.rule === "budget").map(rule => rule.n - now.askedByRule);
    const most = Math.min(n, ...budgets), usual = now.isFree ? null : this.usuallyLeft;
    if (usual) return { kind: "about", n: Math.min(usual[1], most), low: Math.min(usual[0], most) };
    return budgets.length || n <= 10 ? { kind: "at_most", n: most, low: 1 } : null;
  }
}
