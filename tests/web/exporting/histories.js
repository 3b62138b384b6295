// Reads {program, model, weights, histories, people, moves} from standard input and prints what the page's own scripts
// say: of each history the belief and the bits; of each person the interview that the page would hold.
"use strict";
const fs = require("fs");
const { program, model: described, weights, histories = [], people = [], moves = [] } = JSON.parse(fs.readFileSync(0, "utf8"));
const { BrowserEngine, bitsAt, beliefAfter, expected, interval, withWeights, SessionLog } = new Function(program)();
const model = withWeights(described, new Uint8Array(Buffer.from(weights, "base64")));

function believe(told) {
  const belief = beliefAfter(model, told, []), bits = bitsAt(model, belief);
  return { posterior: [...belief.posterior], bits: bits && [...bits] };
}

function hold(answers) {
  const log = new SessionLog(model), asked = [];
  for (let query = log.next; query !== null; query = log.next) {
    asked.push(query);
    log.add({ move: "tell", query, answer: answers[query], volunteered: log.isBeforehand(query) });
  }
  const { belief: { posterior }, cost } = log.now;
  const number = model.target && [expected(model.target, posterior), ...interval(model.target, posterior)];
  return { asked, posterior: [...posterior], cost, number, progress: log.progress };
}

/** The states of an engine after each of some calls: [name of its function, ...arguments]. */
async function play(calls) {
  const engine = new BrowserEngine(model), states = [await engine.state()];
  for (const [name, ...values] of calls) {
    try {
      states.push(await engine[name](...values));
    } catch (error) {
      states.push({ doubt: error.doubt ?? null, message: error.message ?? null });
    }
  }
  return states;
}

Promise.all(moves.map(play)).then(plays => {
  process.stdout.write(JSON.stringify({ beliefs: histories.map(believe), interviews: people.map(hold), plays }));
});
