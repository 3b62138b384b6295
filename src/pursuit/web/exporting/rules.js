// When to stop, and what may be asked in which order.

import { BIT, FREE, interval } from "./mathematics.js";

const OWN_SHARE = 1e-3; // how much of its own score decides which member of a group comes first
const COST_ROUNDING = 1e-5; // by what share a sum of costs may be off

const END_GROUPS = ["budget", "risk"]; // the rules that may stop within a group of questions

/** Whether a rule stops at a standing; `memory` is what it remembers of the one before, and is changed. */
export function stops(rule, standing, memory, model) {
  const isEnough = isSatisfied(rule, standing, memory, model);
  return isEnough && (!standing.inGroup || END_GROUPS.includes(rule.rule));
}

function isSatisfied(rule, standing, memory, model) {
  switch (rule.rule) {
    case "budget": return standing.nAsked >= rule.n;
    case "confidence": return Math.max(...standing.posterior) >= Math.fround(rule.level);
    case "risk": return decides(rule, standing);
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
    default: return false; // "never", "conformal", and "cost", which only closes what is too dear
  }
}

const decides = (rule, { posterior, nAsked }) =>
  Math.max(...posterior) >= Math.fround(rule.levels[Math.min(nAsked, rule.levels.length - 1)]);

/** Whether a rule vouches for a prediction made at a standing; null if none promises anything. */
export function decided(rules, standing) {
  const promises = rules.filter(rule => rule.rule === "risk");
  return promises.length ? promises.some(rule => decides(rule, standing)) : null;
}

/** Which labels remain by a posterior (C,), the most probable first; null if no rule says. */
export function labelSet(rules, posterior) {
  const rule = rules.find(one => one.rule === "conformal");
  if (!rule) return null;
  const best = Math.max(...posterior), least = label => Math.fround(rule.least[rule.least.length > 1 ? label : 0]);
  return [...posterior.keys()].filter(label => posterior[label] > 0 && (posterior[label] === best || posterior[label] >= least(label)))
    .sort((a, b) => posterior[b] - posterior[a] || a - b);
}

const costOf = (model, query) => model.queries[query].question.cost;

/** What it takes to ask a query: whoever begins a group pays for all of it. */
function price(model, answers, query) {
  const group = model.order.groups.find(own => own.includes(query) && !own.some(i => answers.has(i)));
  return (group ?? [query]).reduce((sum, i) => sum + costOf(model, i), 0);
}

const canAfford = (model, spent, price) => model.stop.every(rule => rule.rule !== "cost"
  || spent + price <= rule.units * (1 + COST_ROUNDING));

/** Scores (Q,) to choose by among what is open (Q,): members of a group stand for all that it tells. A mere preference
 *  stays as it is. */
export function groupScores(model, scores, open) {
  if (model.querier) return scores;
  const found = Array.from(scores), weight = i => (model.cost_aware ? Math.max(FREE, costOf(model, i)) : 1);
  for (const own of model.order.groups.map(group => group.filter(i => open[i]))) {
    const mean = own.reduce((sum, i) => sum + weight(i) * scores[i], 0) / own.reduce((sum, i) => sum + weight(i), 0);
    own.forEach(i => { found[i] = mean + OWN_SHARE * (scores[i] - mean); });
  }
  return found;
}

/** Whether what a query waits for holds: `answers` are those so far by query. */
function isAllowed(model, answers, query) {
  const { beforehand, only_after: conditions } = model.order;
  return conditions.every(({ query: own, after, accepted }) => {
    if (own !== query) return true;
    const answer = answers.get(after);
    if (accepted === null) return answers.has(after) || beforehand.includes(after);
    return Boolean(answer && "choice" in answer && accepted.includes(answer.choice));
  });
}

/** Which queries may be asked now (Q,): not asked, affordable with what is `spent` (null: whatever they cost), and open
 *  in the order of queries. */
export function openQueries(model, answers, spent) {
  const { beforehand, groups } = model.order;
  const open = model.queries.map((_, i) => !answers.has(i) && !beforehand.includes(i)
    && (spent === null || canAfford(model, spent, price(model, answers, i))) && isAllowed(model, answers, i));
  // A group goes on while a member is open; one that waits for something else does not hold up the rest.
  const next = groups.filter(own => own.some(i => answers.has(i)) && own.some(i => open[i])).flat();
  return next.length ? open.map((isOpen, i) => isOpen && next.includes(i)) : open;
}
