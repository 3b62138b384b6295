"use strict";
// What the page computes: beliefs, the bits that questions are expected to tell, and when to stop.
// It knows nothing of the page. Names and shapes are those of the Python package: Q queries, C labels, A log odds.

const Pursuit = (() => {
  const LARGEST = 30; // log odds beyond this are as good as certain
  const ROUNDING = 1e-5; // bits that single precision cannot tell from none
  const COST_ROUNDING = 1e-5; // by what share a sum of costs may be off
  const FREE = 1e-9; // the cost of what costs nothing, in bits per cost
  const NORMAL_RANGE = 3; // standardised numbers beyond this are compressed
  const NARROWEST = 1e-6; // the least width of a piece of a number's code
  const BIT = Math.log(2);

  // ---- weights

  const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";

  /** The bytes in a text of base 85: four of them in five digits, the last of which may be left out. */
  function fromBase85(text) {
    const n = text.length, bytes = new Uint8Array(Math.floor(n * 4 / 5));
    const valueOf = new Uint8Array(128);
    for (let i = 0; i < 85; i++) valueOf[DIGITS.charCodeAt(i)] = i;
    for (let i = 0, at = 0; i < n; i += 5) {
      let value = 0;
      for (let k = 0; k < 5; k++) value = value * 85 + (i + k < n ? valueOf[text.charCodeAt(i + k)] : 84);
      for (let shift = 24; shift >= 0 && at < bytes.length; shift -= 8) bytes[at++] = value >>> shift;
    }
    return bytes;
  }

  /** What zlib compressed into a text. */
  async function inflate(text) {
    const bytes = fromBase85(text.trim());
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  /** The tensors {rows, columns, values} in these bytes: single precision as it is, or a scale for each row, then the
   *  lowest bytes of all numbers, then those above them. */
  function unpack(shapes, bytes) {
    const view = new DataView(bytes.buffer);
    let at = 0;
    const float = () => { at += 4; return view.getFloat32(at - 4, true); };
    return shapes.map(({ rows, columns, bits }) => {
      const values = new Float32Array(rows * columns);
      if (bits === 32) {
        for (let i = 0; i < values.length; i++) values[i] = float();
        return { rows, columns, values };
      }
      const scales = Float32Array.from({ length: rows }, float);
      const largest = 2 ** (bits - 1) - 1, n = values.length, nBytes = Math.ceil(bits / 8);
      for (let i = 0; i < n; i++) {
        let whole = -largest;
        for (let byte = 0; byte < nBytes; byte++) whole += bytes[at + byte * n + i] * 256 ** byte;
        values[i] = whole * scales[Math.floor(i / columns)];
      }
      at += n * nBytes;
      return { rows, columns, values };
    });
  }

  // ---- networks

  function linear(weight, bias, input) {
    const output = new Float64Array(weight.rows);
    const { columns, values } = weight;
    for (let row = 0; row < weight.rows; row++) {
      let sum = bias.values[row];
      for (let i = 0, at = row * columns; i < columns; i++, at++) sum += values[at] * input[i];
      output[row] = sum;
    }
    return output;
  }

  function normalise(layer, tensors, input) {
    const n = input.length, weight = tensors[layer.weight].values, bias = tensors[layer.bias].values;
    const mean = input.reduce((sum, value) => sum + value, 0) / n;
    const variance = input.reduce((sum, value) => sum + (value - mean) ** 2, 0) / n;
    const scale = 1 / Math.sqrt(variance + layer.epsilon);
    return input.map((value, i) => (value - mean) * scale * weight[i] + bias[i]);
  }

  /** What a list of layers makes of an input. */
  function run(layers, tensors, input) {
    let value = input;
    for (const layer of layers) {
      if (layer.kind === "linear") value = linear(tensors[layer.weight], tensors[layer.bias], value);
      else if (layer.kind === "normalise") value = normalise(layer, tensors, value);
      else if (layer.kind === "rectify") value = value.map(one => Math.max(0, one));
      else value = Float64Array.from([...value, ...input]); // "beside"
    }
    return value;
  }

  // ---- answers

  /** A number as networks see it: outliers on a logarithmic scale. In single precision, as it was learnt. */
  function compress(number, centre, spread) {
    const z = Math.min(1e30, Math.max(-1e30, (number - centre) / spread));
    const far = Math.max(Math.abs(z) - NORMAL_RANGE, 0);
    return Math.fround(Math.min(NORMAL_RANGE, Math.max(-NORMAL_RANGE, z)) + Math.sign(z) * Math.log1p(far));
  }

  function showNumber(input, how, number) {
    const z = compress(number, how.centre, how.spread);
    input[how.input] = z;
    if (how.known_input !== null) input[how.known_input] = 1;
    for (let i = 0; i + 1 < how.edges.length; i++) {
      const start = how.edges[i];
      const slope = Math.fround(1 / Math.max(Math.fround(how.edges[i + 1] - start), NARROWEST));
      const share = Math.fround(Math.fround(z - start) * slope);
      input[how.first_code + i] = Math.min(1, Math.max(0, share));
    }
  }

  /** The network input of answers: entries {query, answer} with answer null, {choice} or {number}. */
  function encode(model, entries) {
    const input = new Float64Array(model.n_inputs);
    for (const { query, answer } of entries) {
      if (query === undefined || answer === null) continue;
      if ("number" in answer) showNumber(input, model.queries[query].number, answer.number);
      else for (const [i, value] of model.queries[query].inputs[answer.choice]) input[i] = value;
    }
    return input;
  }

  // ---- beliefs

  function logSoftmax(values) {
    const top = Math.max(...values);
    const total = Math.log(values.reduce((sum, value) => sum + Math.exp(value - top), 0)) + top;
    return values.map(value => value - total);
  }

  const plogp = p => (p > 0 ? -p * Math.log(p) : 0);

  /** Entropy in bits. */
  const doubt = posterior => posterior.reduce((sum, p) => sum + plogp(p), 0) / BIT;

  /** Probabilities (C,) after some entries; labels that were rejected have none. */
  function posteriorOf(model, entries, input) {
    const prior = Float64Array.from(model.tensors_[model.log_prior].values);
    const knowsAny = entries.some(entry => entry.query !== undefined && entry.answer !== null);
    const logits = knowsAny ? run(model.classifier, model.tensors_, input).map(one => one / model.temperature) : prior;
    for (const entry of entries) if (entry.rejected !== undefined) logits[entry.rejected] = -Infinity;
    const rejects = entries.some(entry => entry.rejected !== undefined);
    return (knowsAny || rejects ? logSoftmax(logits) : logits).map(Math.exp);
  }

  // ---- what answers are expected to tell

  /** The log odds (A * C) of all answers under all labels, given the history. */
  function logOdds(model, input) {
    const { answers, tensors_: tensors } = model;
    const outputs = run(answers.network, tensors, input);
    const table = tensors[answers.table], vectors = tensors[answers.label_vectors];
    const nOdds = table.rows, nLabels = table.columns, rank = answers.rank;
    const odds = new Float64Array(nOdds * nLabels);
    for (let a = 0; a < nOdds; a++) {
      for (let y = 0; y < nLabels; y++) {
        let sum = table.values[a * nLabels + y] + outputs[a];
        for (let k = 0; k < rank; k++) sum += outputs[nOdds + a * rank + k] * vectors.values[y * rank + k];
        odds[a * nLabels + y] = Math.min(LARGEST, Math.max(-LARGEST, sum));
      }
    }
    return odds;
  }

  /** The bits (Q,) that each query is expected to tell: H(A | S) minus the mean of H(A | y, S). */
  function information(model, odds, posterior) {
    const { query_of: queryOf, n_queries: nQueries, untold_odds: untold } = model.answers;
    const nLabels = posterior.length, nOdds = queryOf.length;
    const total = new Float64Array(nQueries * nLabels).fill(1);
    const exp = odds.map(Math.exp);
    for (let a = 0; a < nOdds; a++) for (let y = 0; y < nLabels; y++) total[queryOf[a] * nLabels + y] += exp[a * nLabels + y];
    const mixed = new Float64Array(nOdds), nats = new Float64Array(nQueries), first = new Float64Array(nQueries).fill(1);
    const untoldNoise = new Float64Array(nOdds), isUntold = new Set(untold);
    for (let q = 0; q < nQueries; q++) {
      for (let y = 0; y < nLabels; y++) nats[q] -= posterior[y] * Math.log(total[q * nLabels + y]);
    }
    for (let a = 0; a < nOdds; a++) {
      const q = queryOf[a];
      for (let y = 0; y < nLabels; y++) {
        const share = exp[a * nLabels + y] / total[q * nLabels + y];
        mixed[a] += share * posterior[y];
        nats[q] += posterior[y] * share * odds[a * nLabels + y];
        if (isUntold.has(a)) untoldNoise[a] += plogp(share) * posterior[y];
      }
      first[q] -= mixed[a];
      nats[q] += plogp(mixed[a]);
    }
    for (let q = 0; q < nQueries; q++) nats[q] += plogp(Math.max(0, first[q]));
    // That there is no answer tells a classifier nothing if it is not told so.
    for (const a of untold) nats[queryOf[a]] -= plogp(mixed[a]) - untoldNoise[a];
    return nats.map(value => (Math.max(0, value) / BIT > ROUNDING ? Math.max(0, value) / BIT : 0));
  }

  /** What may be answered to a query: {answer, probability, posterior}, by Bayes; "none" is an answer that is not told. */
  function possibleAnswers(model, odds, posterior, query) {
    const { query_of: queryOf, n_values: nValues, is_told: isTold } = model.answers, nLabels = posterior.length;
    const own = queryOf.flatMap((q, a) => (q === query ? [a] : []));
    const shares = [null, ...own].map(() => new Float64Array(nLabels));
    for (let y = 0; y < nLabels; y++) {
      const column = logSoftmax([0, ...own.map(a => odds[a * nLabels + y])]);
      column.forEach((value, k) => { shares[k][y] = Math.exp(value); });
    }
    return shares.map((share, k) => {
      const joint = share.map((value, y) => value * posterior[y]);
      const probability = joint.reduce((sum, value) => sum + value, 0);
      const isNone = k >= nValues[query];
      const changes = !isNone || isTold[query];
      return {
        value: isNone ? (isTold[query] ? "missing" : "none") : k,
        probability,
        posterior: changes && probability > 0 ? joint.map(value => value / probability) : posterior,
      };
    });
  }

  // ---- numbers that are predicted

  const expected = (target, posterior) => posterior.reduce((sum, p, i) => sum + p * target.means[i], 0);

  function quantile(target, posterior, level) {
    const sum = posterior.reduce((total, p) => total + p, 0);
    let reached = 0, code = 0;
    for (; code < posterior.length; code++) {
      reached += posterior[code] / sum;
      if (reached >= level) break;
    }
    code = Math.min(code, posterior.length - 1);
    const own = Math.max(posterior[code] / sum, Number.MIN_VALUE), points = target.points[code];
    const share = Math.min(1, Math.max(0, (level - reached + own) / own)) * (points.length - 1);
    const step = Math.min(Math.floor(share), points.length - 2);
    return points[step] + (share - step) * (points[step + 1] - points[step]);
  }

  const interval = (target, posterior, coverage = 0.9) =>
    [(1 - coverage) / 2, (1 + coverage) / 2].map(level => quantile(target, posterior, level));

  // ---- stopping

  /** Whether a rule stops at a standing; `memory` is what it remembers of the one before, and is changed. */
  function stops(rule, standing, memory, model) {
    switch (rule.rule) {
      case "budget": return standing.nAsked >= rule.n;
      case "confidence": return Math.max(...standing.posterior) >= Math.fround(rule.level);
      case "bits": return standing.worth !== null && standing.worth <= rule.bits;
      case "width": {
        const [low, high] = interval(model.target, standing.posterior, rule.coverage);
        return high - low <= rule.width;
      }
      case "stability": {
        const now = standing.doubt * (rule.unit === "nats" ? BIT : 1);
        const { before = Infinity, nBefore = -1, run: before_run = 0 } = memory;
        const isStable = Math.abs(before - now) <= rule.epsilon;
        const run = standing.nAnswered > nBefore ? (isStable ? before_run + 1 : 0) : before_run;
        Object.assign(memory, { before: now, nBefore: standing.nAnswered, run });
        return run >= rule.n;
      }
      default: return false; // "never", and "cost", which only closes what is too dear
    }
  }

  function canAfford(model, cost, query) {
    return model.stop.every(rule => rule.rule !== "cost"
      || cost + model.queries[query].cost <= rule.units * (1 + COST_ROUNDING));
  }

  // ---- the order of queries

  /** Which queries may be asked now (Q,): not asked, affordable, and open in the order of queries. */
  function openQueries(model, entries, cost) {
    const { beforehand, only_after: conditions, groups } = model.order;
    const answers = new Map(entries.filter(entry => entry.query !== undefined).map(e => [e.query, e.answer]));
    const open = model.queries.map((_, i) => !answers.has(i) && !beforehand.includes(i) && canAfford(model, cost, i));
    for (const { query, after, accepted } of conditions) {
      const answer = answers.get(after);
      const holds = accepted === null
        ? answers.has(after) || beforehand.includes(after)
        : answer && "choice" in answer && accepted.includes(answer.choice);
      if (!holds) open[query] = false;
    }
    // A group goes on while a member is open; one that waits for something else does not hold up the rest.
    const next = groups.filter(own => own.some(i => answers.has(i)) && own.some(i => open[i])).flat();
    return next.length ? open.map((isOpen, i) => isOpen && next.includes(i)) : open;
  }

  // ---- an interview

  /** A model that can be asked of: what the exporter described, with its weights. */
  async function load(described, weights) {
    return { ...described, tensors_: unpack(described.tensors, await inflate(weights)) };
  }

  /** Ask and tell until enough is known. Everything follows from the list of entries: {query, answer, volunteered}, and
   *  {rejected: label} where a person said that a guess is wrong. */
  class Interview {
    constructor(model) {
      this.model = model;
      this.entries = [];
      this.standings = [this.stand(null)]; // before anything, then after each entry
    }

    get now() { return this.standings.at(-1); }
    get isDone() { return this.next === null; }

    /** The query to ask now; null once enough is known or nothing is left. */
    get next() {
      const first = this.firstUnknown();
      if (first !== undefined) return first;
      if (this.now.enough) return null;
      const best = this.ranking()[0];
      return best === undefined ? null : best;
    }

    /** The first query that is known beforehand and was neither answered nor skipped yet. */
    firstUnknown() {
      return this.model.order.beforehand.find(i => !this.entries.some(entry => entry.query === i));
    }

    isBeforehand(query) { return this.model.order.beforehand.includes(query); }

    /** The queries that may be asked now, the best first. */
    ranking() {
      const { open } = this.now, scores = this.scores();
      return this.model.queries.map((_, i) => i).filter(i => open[i]).sort((a, b) => scores[b] - scores[a] || a - b);
    }

    /** The log odds of all answers now, or null without an answer model. */
    odds() {
      const now = this.now;
      if (now.odds === undefined) now.odds = this.model.answers && logOdds(this.model, now.input);
      return now.odds;
    }

    /** The bits expected of every query (Q,), or null where nobody knows. */
    bits() {
      const now = this.now;
      if (now.information === undefined) now.information = bitsOf(this.model, now, this.odds());
      return now.information;
    }

    /** What queries are chosen by (Q,). */
    scores() {
      const now = this.now;
      if (now.scores === undefined) now.scores = scoresOf(this.model, now, () => this.bits());
      return now.scores;
    }

    tell(answer, query = this.next, volunteered = this.isBeforehand(query)) {
      const bits = volunteered ? null : this.bits();
      this.push({ query, answer, volunteered, bits: bits && bits[query] });
    }

    /** A guess is wrong: its label is out, and the rules that stop count from here. */
    reject(label) { this.push({ rejected: label }); }

    push(entry) {
      this.entries.push(entry);
      this.standings.push(this.stand(entry));
    }

    back() {
      this.entries.pop();
      this.standings.pop();
    }

    /** Correct the answer of an entry; those after it stay. */
    change(place, answer) {
      const after = this.entries.slice(place);
      this.entries.length = place;
      this.standings.length = place + 1;
      after.forEach((entry, i) => {
        if (entry.rejected !== undefined) this.reject(entry.rejected);
        else this.tell(i ? entry.answer : answer, entry.query, entry.volunteered);
      });
    }

    /** Where the interview stands after an entry, or before the first. */
    stand(entry) {
      const { model, entries } = this, last = entry ? this.now : { nAsked: 0, nAnswered: 0, cost: 0, memory: [] };
      const restarts = entry !== null && entry.rejected !== undefined;
      const counts = entry !== null && !restarts && !entry.volunteered;
      const input = encode(model, entries), posterior = posteriorOf(model, entries, input);
      const standing = {
        input, posterior,
        doubt: doubt(posterior),
        nAsked: restarts ? 0 : last.nAsked + counts,
        nAnswered: restarts ? 0 : last.nAnswered + (entry !== null && !restarts && entry.answer !== null),
        cost: restarts ? 0 : last.cost + (counts ? model.queries[entry.query].cost : 0),
        hasRestarted: restarts || Boolean(last.hasRestarted),
        worth: null,
      };
      standing.open = openQueries(model, entries, standing.cost);
      if (model.stop.some(rule => rule.rule === "bits")) standing.worth = worthOf(model, standing);
      standing.memory = model.stop.map((_, i) => ({ ...(restarts ? {} : last.memory[i]) }));
      const satisfied = model.stop.map((rule, i) => stops(rule, standing, standing.memory[i], model));
      // After a wrong guess, at least one more question is asked.
      standing.enough = satisfied.some(Boolean) && !(standing.hasRestarted && standing.nAsked === 0);
      return standing;
    }

    // ---- reasons

    /** The query asked now and the next best: {query, bits, share}; share is one of preference where bits are unknown. */
    candidates(most = 4) {
      const bits = this.bits(), ranking = this.ranking();
      const shares = bits ? null : logSoftmax(ranking.map(i => this.scores()[i])).map(Math.exp);
      return ranking.slice(0, most).map((query, i) => ({ query, bits: bits && bits[query], share: shares && shares[i] }));
    }

    /** What each possible answer would make of the belief: {value, probability, posterior}, the most probable first. */
    effects(query) {
      const { model, now } = this, odds = this.odds();
      if (odds) return possibleAnswers(model, odds, now.posterior, query).sort((a, b) => b.probability - a.probability);
      const { inputs, choices } = model.queries[query];
      return inputs.map((_, k) => ({
        value: k < choices.length ? k : "missing",
        probability: null,
        posterior: this.imagine([...this.entries, { query, answer: { choice: k } }]),
      }));
    }

    imagine(entries) { return posteriorOf(this.model, entries, encode(this.model, entries)); }

    /** For each answer, by how many bits it made a label more probable (or less): {place, bits}. */
    evidence(label) {
      return this.entries.flatMap((entry, i) => {
        if (entry.query === undefined || entry.answer === null) return [];
        const [before, after] = [this.standings[i], this.standings[i + 1]].map(one => one.posterior[label]);
        return before > 0 && after > 0 ? [{ place: i, bits: Math.log2(after / before) }] : [];
      });
    }

    /** A single answer that would have led to another label: {place, choice, label}, the surest of them, or null. */
    turningPoint() {
      const label = argmax(this.now.posterior);
      let best = null;
      this.entries.forEach((entry, place) => {
        if (entry.query === undefined || entry.answer === null || !("choice" in entry.answer)) return;
        for (let choice = 0; choice < this.model.queries[entry.query].choices.length; choice++) {
          if (choice === entry.answer.choice) continue;
          const entries = this.entries.map((one, i) => (i === place ? { ...one, answer: { choice } } : one));
          const posterior = this.imagine(entries), other = argmax(posterior);
          if (other !== label && (!best || posterior[other] > best.probability)) {
            best = { place, choice, label: other, probability: posterior[other] };
          }
        }
      });
      return best;
    }
  }

  function argmax(values) {
    let best = 0;
    values.forEach((value, i) => { if (value > values[best]) best = i; });
    return best;
  }

  const bitsOf = (model, standing, odds) => (odds ? information(model, odds, standing.posterior) : null);

  function scoresOf(model, standing, bits) {
    if (model.querier) return run(model.querier, model.tensors_, standing.input);
    return model.cost_aware ? bits().map((one, i) => one / Math.max(FREE, model.queries[i].cost)) : bits();
  }

  /** The most that a query left promises, or null where nobody knows. */
  function worthOf(model, standing) {
    if (!model.answers) return null;
    standing.odds = logOdds(model, standing.input);
    standing.information = bitsOf(model, standing, standing.odds);
    const promised = model.querier ? standing.information : scoresOf(model, standing, () => standing.information);
    return promised.reduce((most, value, i) => (standing.open[i] ? Math.max(most, value) : most), -Infinity);
  }

  return { load, unpack, encode, posteriorOf, information, logOdds, expected, interval, doubt, argmax, Interview };
})();

if (typeof module !== "undefined") module.exports = Pursuit;
