// Reads {page, histories, people, rejecting} from standard input and prints what the mathematics of the page says:
// of each history the belief and the bits; of each person the interview that the page would hold.
"use strict";
const fs = require("fs");
const { page, histories = [], people = [], rejects = 0 } = JSON.parse(fs.readFileSync(0, "utf8"));
const text = fs.readFileSync(page, "utf8");
const part = (open, close = "</script>") => text.split(open)[1].split(close)[0];
const holder = { exports: {} };
new Function("module", part("<script>"  ).split("\n// What the page shows")[0])(holder);
const Pursuit = holder.exports;

function believe(model, entries) {
  const input = Pursuit.encode(model, entries), posterior = Pursuit.posteriorOf(model, entries, input);
  const bits = model.answers ? Pursuit.information(model, Pursuit.logOdds(model, input), posterior) : null;
  return { posterior: [...posterior], bits: bits && [...bits] };
}

function hold(model, answers) {
  const interview = new Pursuit.Interview(model), asked = [];
  for (let n = 0; n <= rejects; n++) {
    if (n > 0) interview.reject(Pursuit.argmax(interview.now.posterior));
    for (let query = interview.next; query !== null; query = interview.next) {
      asked.push(query);
      interview.tell(answers[query]);
    }
  }
  const { posterior, cost } = interview.now;
  const number = model.target && [Pursuit.expected(model.target, posterior), ...Pursuit.interval(model.target, posterior)];
  return { asked, posterior: [...posterior], cost, number, evidence: interview.evidence(Pursuit.argmax(posterior)),
    gained: interview.standings[0].doubt - interview.now.doubt };
}

Pursuit.load(JSON.parse(part('id="model">')), part('id="weights">')).then(model => {
  const answer = { beliefs: histories.map(entries => believe(model, entries)), interviews: people.map(own => hold(model, own)) };
  process.stdout.write(JSON.stringify(answer));
});
