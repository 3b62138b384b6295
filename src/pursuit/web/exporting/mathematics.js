// What the page computes: beliefs, the bits that questions are expected to tell, and numbers that are predicted.
// Names and shapes are those of the Python package: Q queries, C labels, A log odds.

const LARGEST = 30; // log odds beyond this are as good as certain
const ROUNDING = 1e-5; // bits that single precision cannot tell from none
export const FREE = 1e-9; // the cost of what costs nothing, in bits per cost
const NORMAL_RANGE = 3; // standardised numbers beyond this are compressed
const NARROWEST = 1e-6; // the least width of a piece of a number's code
export const BIT = Math.log(2);

// ---- weights

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

/** The network input of answers: {query, answer} each, with answer null, {choice} or {number}. */
function encode(model, entries) {
  const input = new Float64Array(model.n_inputs);
  for (const { query, answer } of entries) {
    if (answer === null) continue;
    if ("number" in answer) showNumber(input, model.queries[query].number, answer.number);
    else for (const [i, value] of model.queries[query].inputs[answer.choice]) input[i] = value;
  }
  return input;
}

// ---- beliefs

export function logSoftmax(values) {
  const top = Math.max(...values);
  const total = Math.log(values.reduce((sum, value) => sum + Math.exp(value - top), 0)) + top;
  return values.map(value => value - total);
}

const plogp = p => (p > 0 ? -p * Math.log(p) : 0);

/** Entropy in bits. */
export const doubt = posterior => posterior.reduce((sum, p) => sum + plogp(p), 0) / BIT;

/** How far a belief (C,) is from the one before it, in bits. */
export const divergence = (before, after) => after.reduce((sum, p, i) => (p > 0 ? sum + p * Math.log2(p / Math.max(before[i], 1e-12)) : sum), 0);

/** Probabilities (C,) given the network input of some answers, and how many they are; labels that are excluded have none. */
function posteriorOf(model, input, nKnown, excluded = []) {
  const prior = Float64Array.from(model.tensors_[model.log_prior].values);
  const temperature = model.temperature[Math.min(nKnown, model.temperature.length - 1)];
  const logits = nKnown ? run(model.classifier, model.tensors_, input).map(one => one / temperature) : prior;
  for (const label of excluded) logits[label] = -Infinity;
  return (nKnown || excluded.length ? logSoftmax(logits) : logits).map(Math.exp);
}

/** A belief about the labels that are left. */
export function without(posterior, excluded) {
  if (!excluded.length) return posterior;
  const left = posterior.map((p, label) => (excluded.includes(label) ? 0 : p)), sum = left.reduce((total, p) => total + p, 0);
  return sum > 0 ? left.map(p => p / sum) : left;
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
export function possibleAnswers(model, odds, posterior, query) {
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

/** How surprising an answer is at a belief, how surprising answers are expected to be, and the variance of that, in nats. */
export function surpriseOf(model, belief, query, answer) {
  const { n_values: nValues, up_to: upTo } = model.answers;
  const possible = possibleAnswers(model, oddsAt(model, belief), belief.posterior, query).filter(one => one.value !== "none");
  const sum = possible.reduce((total, one) => total + one.probability, 0);
  const surprises = possible.map(one => Math.min(LARGEST, -Math.log(one.probability / sum)));
  let value = "choice" in answer ? answer.choice : null;
  if (value === null) {
    const { centre, spread } = model.queries[query].number, z = compress(answer.number, centre, spread);
    value = upTo[query].findIndex(end => end === null || z <= end);
  }
  const place = value < nValues[query] ? value : possible.length - 1; // "not given" comes last
  const expected = surprises.reduce((total, one, i) => total + possible[i].probability / sum * one, 0);
  const square = surprises.reduce((total, one, i) => total + possible[i].probability / sum * one * one, 0);
  return [surprises[place], expected, Math.max(0, square - expected * expected)];
}

// ---- numbers that are predicted

export const expected = (target, posterior) => posterior.reduce((sum, p, i) => sum + p * target.means[i], 0);

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

export const interval = (target, posterior, coverage = 0.9) =>
  [(1 - coverage) / 2, (1 + coverage) / 2].map(level => quantile(target, posterior, level));

// ---- what is chosen by

/** A model that can be asked of: what the exporter described, with the bytes of its weights. */
export const withWeights = (described, bytes) => ({ ...described, tensors_: unpack(described.tensors, bytes) });

/** What follows from some answers: {input, posterior, doubt}, and what is computed once it is asked for. */
export function beliefAfter(model, told, excluded) {
  const input = encode(model, told), posterior = posteriorOf(model, input, told.filter(one => one.answer !== null).length, excluded);
  return { input, posterior, doubt: doubt(posterior) };
}

/** The log odds of all answers at a belief, or null without an answer model. */
export function oddsAt(model, belief) {
  if (belief.odds === undefined) belief.odds = model.answers && logOdds(model, belief.input);
  return belief.odds;
}

/** The bits expected of every query (Q,), or null where nobody knows. */
export function bitsAt(model, belief) {
  if (belief.bits === undefined) belief.bits = oddsAt(model, belief) && information(model, belief.odds, belief.posterior);
  return belief.bits;
}

/** What queries are chosen by (Q,). */
export function scoresAt(model, belief) {
  if (belief.scores === undefined) belief.scores = computeScores(model, belief);
  return belief.scores;
}

function computeScores(model, belief) {
  if (model.querier) return run(model.querier, model.tensors_, belief.input);
  const bits = bitsAt(model, belief);
  return model.cost_aware ? bits.map((one, i) => one / Math.max(FREE, model.queries[i].question.cost)) : bits;
}

export function argmax(values) {
  let best = 0;
  values.forEach((value, i) => { if (value > values[best]) best = i; });
  return best;
}
