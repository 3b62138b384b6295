// What the page shows: one question a screen, the belief beside it, and the result with its reasons.
// Texts of the model only ever become text nodes.

(() => {
  const N_LABELS = 5; // labels that a belief shows by name
  const N_LEADING = 3; // labels shown after each imagined answer
  const N_EFFECTS = 4; // imagined answers
  const N_REASONS = 5;
  const N_KEYS = 9; // choices that have a key of their own
  const N_LISTED = 12; // choices that are listed before somebody types
  const DAY = 86400000;

  const read = id => JSON.parse(document.getElementById(id).textContent);
  const words = read("words");
  const say = (key, values = {}) => words[key].replace(/\{(\w+)\}/g, (_, name) => String(values[name]));

  let model, interview;
  let view; // {changing: place, volunteering: query, isPicking, showsWhy, accepted: label, unusual: number}
  let widths = new Map(); // of the bars of the belief, by label, so that they move

  // ---- small things

  /** An element with properties, listeners (onclick), attributes and children. */
  function h(tag, properties = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name === "class") element.className = value;
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat().filter(child => child !== null && child !== undefined && child !== false));
    return element;
  }

  const language = document.documentElement.lang;
  const fixed = (number, digits) => number.toLocaleString(language, { maximumFractionDigits: digits, useGrouping: false });
  const percentFormat = new Intl.NumberFormat(language, { style: "percent" });

  function percent(p) {
    if (p > 0 && p < 0.005) return `<${percentFormat.format(0.01)}`;
    return p < 1 && p > 0.995 ? `>${percentFormat.format(0.99)}` : percentFormat.format(p);
  }

  function bitsText(bits) {
    const digits = Math.abs(bits) < 0.095 ? 3 : 2;
    const text = fixed(bits, digits);
    return text === "1" ? words.bits_one : say("bits", { n: text });
  }

  function bar(share, from = share) {
    const inner = h("i");
    inner.style.width = `${100 * from}%`;
    if (from !== share) requestAnimationFrame(() => requestAnimationFrame(() => { inner.style.width = `${100 * share}%`; }));
    return h("span", { class: "b", "aria-hidden": "true" }, inner);
  }

  const barRow = (name, text, share, leads, from) =>
    h("li", { class: leads ? "leads" : "" }, h("span", {}, name), h("em", {}, text), bar(share, from));

  // ---- answers in words

  const pad = number => String(number).padStart(2, "0");

  function numberText(query, number) {
    const how = query.number;
    if (how.is_date) {
      const date = new Date(Math.round(number * 1440) * 60000);
      const day = `${date.getUTCFullYear()}-${pad(date.getUTCMonth() + 1)}-${pad(date.getUTCDate())}`;
      return how.has_time ? `${day} ${pad(date.getUTCHours())}:${pad(date.getUTCMinutes())}` : day;
    }
    const text = Math.abs(number) >= 1e12 ? String(number) : number.toLocaleString(language, { maximumSignificantDigits: 9, useGrouping: false });
    return query.unit ? `${text} ${query.unit}` : text;
  }

  function choiceText(query, choice) {
    if (choice >= query.choices.length) return words.not_given;
    const text = query.choices[choice];
    if (query.is_yes_no && /^(yes|no)$/i.test(text)) return words[text.toLowerCase()];
    return text;
  }

  function answerText(entry) {
    const query = model.queries[entry.query];
    if (entry.answer === null) return words.unknown_chip;
    return "number" in entry.answer ? numberText(query, entry.answer.number) : choiceText(query, entry.answer.choice);
  }

  /** One of the answers that may be given, as the answer model lists them. */
  function outcomeTitle(query, value) {
    const described = model.queries[query];
    if (value === "missing") return say("if_you_say", { answer: words.not_given });
    const interval = model.answers && model.answers.intervals[query];
    if (!interval) return say("if_you_say", { answer: choiceText(described, value) });
    const [low, high] = interval[value];
    const key = low === null ? (high === null ? "any" : "up_to") : high === null ? "above" : "between";
    return say("if_in_range", { answer: say(key, { low, high }) });
  }

  /** The choices of a query in the order they are shown: yes before no, "not given" last. */
  function shownChoices(query) {
    const all = query.inputs.map((_, i) => i);
    return query.is_yes_no ? [1, 0, ...all.slice(2)] : all;
  }

  // ---- beliefs

  const byProbability = posterior => [...posterior.keys()].sort((a, b) => posterior[b] - posterior[a] || a - b);

  function beliefBars(posterior, most, from = null) {
    const ranked = byProbability(posterior);
    let shown = ranked.slice(0, most);
    const leader = shown[0];
    if (model.target) shown = shown.sort((a, b) => a - b); // bins of a number stay in their order
    else shown = shown.filter((label, i) => i === 0 || posterior[label] > 0.0005);
    const rows = shown.map(label => barRow(
      model.labels[label], percent(posterior[label]), posterior[label], label === leader, from ? from.get(label) ?? 0 : undefined));
    const n = ranked.filter(label => posterior[label] > 0).length - shown.length;
    const rest = Math.max(0, 1 - shown.reduce((sum, label) => sum + posterior[label], 0));
    if (n > 0 && from) rows.push(barRow(n === 1 ? words.other : say("others", { n }), percent(rest), rest, false, from.get("rest") ?? 0));
    return h("ul", { class: "bars" }, rows);
  }

  function beliefSection() {
    const { posterior } = interview.now;
    const bars = beliefBars(posterior, N_LABELS, widths);
    widths = new Map([...posterior].map((p, label) => [label, p]));
    const shown = byProbability(posterior).slice(0, N_LABELS);
    widths.set("rest", 1 - shown.reduce((sum, label) => sum + posterior[label], 0));
    return h("section", {}, h("h2", {}, words.belief), model.target && h("p", { class: "lead" }, numberBelief(posterior)), bars);
  }

  const targetText = number => number.toLocaleString(language, {
    minimumFractionDigits: model.target.decimals, maximumFractionDigits: model.target.decimals, useGrouping: false });

  function numberBelief(posterior) {
    const [low, high] = Pursuit.interval(model.target, posterior).map(targetText);
    return say("number_interval", { low, high });
  }

  // ---- answers given

  function gainText(place) {
    const gained = interview.standings[place].doubt - interview.standings[place + 1].doubt;
    if (Math.abs(gained) < 0.005) return words.bits_none;
    return gained > 0 ? say("bits_gained", { bits: bitsText(gained) }) : say("bits_lost", { bits: bitsText(-gained) });
  }

  function answersSection() {
    const items = interview.entries.map((entry, place) => {
      if (entry.rejected !== undefined) {
        return h("li", {}, h("span", { class: "n" }, place + 1), h("span", {}, say("is_it", { label: model.labels[entry.rejected] })),
          h("button", { class: "chip no", title: words.take_back, "aria-label": words.take_back, onclick: () => takeBackRejection(place) },
            words.no.toLowerCase()));
      }
      const query = model.queries[entry.query], answer = answerText(entry);
      const tone = entry.answer === null ? "none" : query.is_yes_no ? ["no", "yes"][entry.answer.choice] || "" : "";
      const label = say("change", { question: query.text, answer });
      return h("li", {}, h("span", { class: "n" }, place + 1), h("span", {}, query.text),
        h("button", { class: `chip ${tone}`, title: label, "aria-label": label, onclick: () => show({ changing: place }) },
          query.is_yes_no && entry.answer !== null ? answer.toLowerCase() : answer),
        h("small", {}, entry.answer === null ? words.left_open : gainText(place)));
    });
    return h("section", {}, h("h2", {}, words.your_answers),
      items.length ? h("ol", { class: "chain" }, items) : h("p", { class: "lead small" }, words.no_answers));
  }

  function takeBackRejection(place) {
    const after = interview.entries.slice(place + 1);
    interview.entries.length = place;
    interview.standings.length = place + 1;
    for (const entry of after) {
      if (entry.rejected !== undefined) interview.reject(entry.rejected);
      else interview.tell(entry.answer, entry.query, entry.volunteered);
    }
    show({});
  }

  // ---- a question

  function answer(value) {
    if (view.changing !== undefined) interview.change(view.changing, value);
    else if (view.volunteering !== undefined) interview.tell(value, view.volunteering, true);
    else interview.tell(value);
    show({ showsWhy: view.showsWhy });
  }

  function choiceButton(query, choice, key, current) {
    const isNow = Boolean(current && current.choice === choice);
    return h("button", { "data-key": key, "aria-pressed": current === undefined ? null : String(isNow), onclick: () => answer({ choice }) },
      key && h("kbd", { "aria-hidden": "true" }, key), choiceText(query, choice));
  }

  function unsureButton(current) {
    return h("button", { class: "unsure", "data-key": "0", "aria-pressed": current === undefined ? null : String(current === null), onclick: () => answer(null) },
      h("kbd", { "aria-hidden": "true" }, "0"), words.dont_know);
  }

  /** A list that is searched by typing: items {text, make(key)}. */
  function searchable(items, label) {
    const list = h("div", { class: "choices" });
    const fold = text => text.toLocaleLowerCase(language).normalize("NFD").replace(/\p{Diacritic}/gu, "");
    const folded = items.map(item => fold(item.text));
    const fill = typed => {
      const fitting = items.filter((_, i) => folded[i].includes(fold(typed.trim())));
      const rows = fitting.slice(0, N_LISTED).map((item, i) => item.make(!typed && i < N_KEYS ? String(i + 1) : null));
      if (!fitting.length) rows.push(h("p", { class: "lead", role: "status" }, words.nothing_found));
      if (fitting.length > N_LISTED) rows.push(h("p", { class: "lead small" }, say("more_choices", { n: fitting.length - N_LISTED })));
      list.replaceChildren(...rows);
    };
    const input = h("input", { type: "search", placeholder: words.search, "aria-label": label, autocomplete: "off",
      oninput: () => fill(input.value),
      onkeydown: event => { if (event.key === "Enter" && input.value) list.querySelector("button")?.click(); } });
    fill("");
    return [input, list];
  }

  function rangeText(query) {
    const { low, high, seen } = query.number;
    const text = value => numberText(query, value);
    if (low !== null && high !== null) return say("number_range", { low: text(low), high: text(high) });
    if (low !== null) return say("number_low", { low: text(low) });
    if (high !== null) return say("number_high", { high: text(high) });
    return seen ? say("number_seen", { low: text(seen[0]), high: text(seen[1]) }) : "";
  }

  /** A number as people write it: with a decimal comma, and perhaps the unit; NaN if it is none. */
  function parseNumber(query, text) {
    let written = text.trim();
    if (query.unit && written.endsWith(query.unit)) written = written.slice(0, -query.unit.length).trim();
    if (/^[+-]?\d*,\d+$/.test(written) && !(language === "en" && /^[+-]?\d{1,3},\d{3}$/.test(written))) written = written.replace(",", ".");
    return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(written) ? Number(written) : NaN;
  }

  const dateNumber = text => (text ? Date.parse(text.includes("T") ? `${text}Z` : `${text}T00:00Z`) / DAY : NaN);
  const dateValue = (how, number) => new Date(Math.round(number * 1440) * 60000).toISOString().slice(0, how.has_time ? 16 : 10);

  function numberField(query, current) {
    const how = query.number, error = h("p", { class: "error", role: "alert", id: "error" });
    const hint = h("p", { class: "lead small", id: "range" }, rangeText(query));
    const type = how.is_date ? (how.has_time ? "datetime-local" : "date") : "text";
    const value = current && "number" in current ? (how.is_date ? dateValue(how, current.number) : String(current.number)) : "";
    const input = h("input", { type, id: "number", inputmode: how.is_date ? null : how.decimals ? "decimal" : "text", value, autocomplete: "off",
      "aria-labelledby": "question", "aria-describedby": "range error" });
    let unusual = null;
    const refuse = text => { error.textContent = text; input.setAttribute("aria-invalid", "true"); input.focus(); };
    const submit = () => {
      const number = how.is_date ? dateNumber(input.value) : parseNumber(query, input.value);
      const [least, most] = how.seen || [null, null];
      if (!Number.isFinite(number)) return refuse(how.is_date ? words.date_wrong : say("number_wrong", { example: fixed(least ?? 0, how.decimals) }));
      if ((how.low !== null && number < how.low) || (how.high !== null && number > how.high)) return refuse(say("number_outside", { range: rangeText(query) }));
      const room = how.seen ? most - least : Infinity;
      if (how.low === null && how.high === null && (number < least - room || number > most + room) && unusual !== number) {
        unusual = number;
        return refuse(say("number_unusual", { low: numberText(query, least), high: numberText(query, most) }));
      }
      return answer({ number });
    };
    input.addEventListener("keydown", event => { if (event.key === "Enter") submit(); });
    return [
      h("div", { class: "field" }, input, query.unit && h("span", { class: "unit" }, query.unit),
        h("button", { class: "first", onclick: submit }, words.submit)),
      slider(query, input, current), hint, error,
    ];
  }

  /** A slider for whoever has no keyboard; it writes into the field. */
  function slider(query, input, current) {
    const how = query.number, low = how.low ?? how.seen?.[0], high = how.high ?? how.seen?.[1];
    if (how.is_date || low === undefined || high === undefined || !(high > low)) return null;
    const step = Math.max(10 ** -how.decimals, Number(((high - low) / 1000).toPrecision(1)));
    const middle = current && "number" in current ? current.number : Math.min(high, Math.max(low, how.centre));
    const range = h("input", { type: "range", min: low, max: high, step: how.decimals >= 6 ? "any" : step, value: middle, "aria-label": words.your_number,
      oninput: () => { input.value = fixed(Number(range.value), Math.min(how.decimals, 6)); input.removeAttribute("aria-invalid"); } });
    input.addEventListener("input", () => {
      const number = parseNumber(query, input.value);
      if (Number.isFinite(number)) range.value = number;
    });
    return range;
  }

  function answerControls(query, current) {
    if (query.number) {
      const missing = query.inputs.length ? choiceButton(query, 0, "1", current) : null;
      return h("div", { class: "choices" }, numberField(query, current), missing, unsureButton(current));
    }
    const choices = shownChoices(query);
    if (choices.length <= N_LISTED) {
      return h("div", { class: "choices" }, choices.map((choice, i) => choiceButton(query, choice, i < N_KEYS ? String(i + 1) : null, current)), unsureButton(current));
    }
    const items = choices.map(choice => ({ text: choiceText(query, choice), make: key => choiceButton(query, choice, key, current) }));
    const [input, list] = searchable(items, query.text);
    return h("div", {}, h("div", { class: "choices" }, input), list, h("div", { class: "choices" }, unsureButton(current)));
  }

  /** About how many questions are still to come, in words; empty where that would be a guess. */
  function questionsLeft() {
    const { now } = interview, n = now.open.filter(Boolean).length;
    const budgets = model.stop.filter(rule => rule.rule === "budget").map(rule => rule.n - now.nAsked);
    const most = Math.min(n, ...budgets), bits = interview.bits(), best = bits && bits[interview.next];
    const level = Math.max(...model.stop.filter(rule => rule.rule === "confidence").map(rule => rule.level), 0);
    if (best > 0.02 && level) {
      const left = Math.max(1, Math.ceil((now.doubt - Pursuit.doubt([level, 1 - level])) / best));
      if (left <= Math.min(most, 30)) return say("about_more", { n: left });
    }
    return budgets.length || n <= 10 ? say("at_most_more", { n: most }) : "";
  }

  function progress() {
    const first = interview.standings[0].doubt, share = first > 0 ? Math.min(1, Math.max(0, 1 - interview.now.doubt / first)) : 1;
    const track = h("div", { class: "track", role: "progressbar", "aria-label": words.progress, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * share) }, h("i"));
    track.firstChild.style.width = `${100 * share}%`;
    return track;
  }

  function questionSection(index) {
    const query = model.queries[index], isChange = view.changing !== undefined, isOwn = view.volunteering !== undefined;
    const current = isChange ? interview.entries[view.changing].answer : undefined;
    const isFirst = !isChange && !isOwn && interview.isBeforehand(index);
    const n = interview.entries.filter(entry => entry.query !== undefined && !entry.volunteered).length + 1;
    const number = isChange ? words.question_change : isOwn ? words.question_volunteered : isFirst ? words.question_first : say("question_number", { n });
    const isPlain = !isChange && !isOwn;
    const isStart = isPlain && !interview.entries.length;
    return h("section", {},
      h("p", { class: "meta" }, h("span", {}, number), h("span", {}, isPlain && !isFirst ? questionsLeft() : "")),
      progress(),
      h("h1", { tabindex: "-1", id: "question" }, query.text),
      query.help && h("p", { class: "lead" }, query.help),
      answerControls(query, current),
      h("div", { class: "row" },
        isPlain && interview.entries.length > 0 && h("button", { class: "quiet", onclick: back }, `← ${words.back}`),
        !isPlain && h("button", { class: "quiet", onclick: () => show({}) }, `← ${words.cancel}`),
        isPlain && h("button", { class: "quiet", "data-key": "w", "aria-expanded": String(Boolean(view.showsWhy)), "aria-controls": "why", onclick: toggleWhy }, words.why),
        isPlain && interview.now.open.filter(Boolean).length > 1 && h("button", { class: "quiet", onclick: () => show({ isPicking: true }) }, words.tell_first)),
      isStart && model.expects_reports && h("p", { class: "lead small" }, words.tell_hint),
      isPlain && view.showsWhy && whySection(index, isFirst));
  }

  function back() {
    interview.back();
    show({ showsWhy: view.showsWhy });
  }

  function toggleWhy() {
    view.showsWhy = !view.showsWhy;
    render();
    document.querySelector("[data-key=w]").focus();
  }

  function whySection(index, isFirst) {
    const candidates = isFirst ? [] : interview.candidates(), bits = candidates[0]?.bits;
    const most = Math.max(...candidates.map(one => one.bits ?? one.share), 1e-9);
    const full = bits === null ? most : Math.max(1, most);
    const rows = candidates.map((one, i) => barRow(model.queries[one.query].text,
      one.bits === null ? percent(one.share) : bitsText(one.bits), (one.bits ?? one.share) / full, i === 0));
    const effects = interview.effects(index).filter(effect => effect.value !== "none").slice(0, N_EFFECTS);
    const imagined = effects.map(effect => h("div", {}, h("h3", {}, outcomeTitle(index, effect.value),
      effect.probability !== null && h("span", { class: "lead" }, ` (${percent(effect.probability)})`)), beliefBars(effect.posterior, N_LEADING)));
    return h("div", { class: "why", id: "why" }, h("p", {}, reason(index, isFirst, candidates)),
      rows.length > 1 && h("ul", { class: "bars" }, rows), imagined.length > 0 && h("div", { class: "grid2" }, imagined));
  }

  function reason(index, isFirst, candidates) {
    if (isFirst) return words.reason_beforehand;
    const n = interview.now.open.filter(Boolean).length, { bits } = candidates[0];
    if (bits === null) return say("reason_share", { n });
    const values = { n, bits: bitsText(bits), cost: fixed(model.queries[index].cost, 2) };
    const open = interview.ranking(), promisesMost = open.every(i => interview.bits()[i] <= bits);
    const key = n === 1 ? "reason_last" : model.cost_aware ? "reason_cost" : promisesMost ? "reason_bits" : "reason_prefers";
    return `${say(key, values)} ${words.reason_coin}`;
  }

  function pickSection() {
    const items = model.queries.flatMap((query, i) => (interview.now.open[i]
      ? [{ text: query.text, make: () => h("button", { onclick: () => show({ volunteering: i }) }, query.text) }] : []));
    return h("section", {}, h("h1", { tabindex: "-1" }, words.tell_which), h("p", { class: "lead" }, words.tell_hint),
      h("div", { class: "choices" }), searchable(items, words.tell_which),
      h("div", { class: "row" }, h("button", { class: "quiet", onclick: () => show({}) }, `← ${words.back}`)));
  }

  // ---- the result

  function resultSection() {
    const { posterior } = interview.now, [best, next] = byProbability(posterior);
    const n = interview.entries.filter(entry => entry.query !== undefined && !entry.volunteered).length;
    const after = n === 0 ? words.result_none : n === 1 ? words.result_one : say("result", { n });
    const isNumber = Boolean(model.target);
    const label = isNumber ? say("about_number", { n: targetText(Pursuit.expected(model.target, posterior)) }) : model.labels[best];
    const hasNext = next !== undefined && posterior[next] >= 0.005;
    const sure = isNumber ? numberBelief(posterior)
      : hasNext ? say("sure_next", { percent: percent(posterior[best]), label: model.labels[next], next: percent(posterior[next]) })
        : `${say("sure", { percent: percent(posterior[best]) })}.`;
    if (view.accepted) {
      return h("section", {}, h("h1", { tabindex: "-1" }, say("thanks", { label })), h("p", { class: "lead" }, sure),
        isNumber ? null : reasonsBlock(best),
        h("div", { class: "actions" }, h("button", { class: "first", onclick: startOver }, words.again), h("button", { onclick: () => print() }, words.print)));
    }
    const left = posterior.filter(p => p > 0).length;
    return h("section", {}, h("p", { class: "lead" }, after), h("h1", { class: "answer", tabindex: "-1" }, label), h("p", { class: "lead" }, sure),
      !interview.now.open.some(Boolean) && h("p", { class: "lead" }, words.nothing_left),
      h("p", { class: "promise" }, h("b", {}, words.trust), " ",
        isNumber ? words.trust_number : say("trust_label", { n: Math.min(99, Math.floor(100 * posterior[best])) })),
      isNumber ? null : reasonsBlock(best),
      h("div", { class: "actions" },
        h("button", { class: "first", onclick: () => show({ accepted: true }) }, words.right),
        !isNumber && left > 1 && h("button", { onclick: () => { interview.reject(best); show({}); } }, words.wrong),
        h("button", { onclick: () => print() }, words.print),
        interview.entries.length > 0 && h("button", { onclick: back }, words.back)));
  }

  function reasonsBlock(label) {
    const evidence = interview.evidence(label), most = Math.max(...evidence.map(one => Math.abs(one.bits)), 1e-9);
    const rows = found => found.slice(0, N_REASONS).map(({ place, bits }) => {
      const entry = interview.entries[place];
      return h("li", {}, h("span", {}, model.queries[entry.query].text, " ", h("b", {}, answerText(entry))),
        h("em", {}, bitsText(Math.abs(bits))), bar(Math.abs(bits) / most));
    });
    const speaksFor = evidence.filter(one => one.bits >= 0.05).sort((a, b) => b.bits - a.bits);
    const against = evidence.filter(one => one.bits <= -0.05).sort((a, b) => a.bits - b.bits);
    const list = found => (found.length ? h("ul", {}, rows(found)) : h("p", { class: "lead small" }, words.nothing_speaks));
    const turn = interview.turningPoint();
    return [
      h("div", { class: "reasons" },
        h("div", { class: "for" }, h("h2", {}, words.speaks_for), list(speaksFor)),
        h("div", { class: "against" }, h("h2", {}, words.speaks_against), list(against))),
      turn && h("p", { class: "lead small turning" }, say("turning_point", {
        answer: choiceText(model.queries[interview.entries[turn.place].query], turn.choice),
        question: model.queries[interview.entries[turn.place].query].text, label: model.labels[turn.label] })),
    ];
  }

  // ---- the whole page

  function head() {
    const root = document.documentElement;
    const isDark = matchMedia("(prefers-color-scheme: dark)");
    const follow = () => { root.dataset.theme = isDark.matches ? "dark" : "light"; };
    follow();
    isDark.addEventListener("change", follow);
    const about = model.target ? words.subtitle_number : say("subtitle", { n: model.labels.length });
    document.getElementById("head").replaceChildren(h("b", {}, model.title), h("span", {}, about), h("nav", {},
      h("button", { class: "quiet", onclick: startOver }, words.start_over),
      h("button", { class: "quiet", "aria-label": words.theme, title: words.theme,
        onclick: () => { root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark"; } }, "◐")));
  }

  function startOver() {
    interview = new Pursuit.Interview(model);
    show({});
  }

  /** Go to another view: the heading gets the focus, and the belief is read out. */
  function show(next) {
    view = next;
    render();
    const heading = document.querySelector("main h1");
    if (heading) heading.focus({ preventScroll: true });
    scrollTo(0, 0);
    const { posterior } = interview.now, best = Pursuit.argmax(posterior);
    const spoken = model.target ? say("spoken_number", { n: targetText(Pursuit.expected(model.target, posterior)) })
      : say(interview.isDone ? "spoken_result" : "spoken_belief", { label: model.labels[best], percent: percent(posterior[best]) });
    document.getElementById("spoken").textContent = interview.entries.length ? spoken : "";
  }

  function render() {
    const asked = view.changing !== undefined ? interview.entries[view.changing].query : view.volunteering ?? interview.next;
    const section = view.isPicking ? pickSection() : asked === null ? resultSection() : questionSection(asked);
    document.getElementById("main").replaceChildren(section, h("div", { class: "side" }, beliefSection(), answersSection()),
      h("p", { class: "footnote" }, words.made_with));
  }

  document.addEventListener("keydown", event => {
    if (!interview || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    if (event.key === "Backspace" && interview.entries.length && !view.isPicking && view.changing === undefined) back();
    else if (/^[0-9w]$/.test(event.key)) document.querySelector(`main [data-key="${event.key}"]`)?.click();
    else return;
    event.preventDefault();
  });

  Pursuit.load(read("model"), document.getElementById("weights").textContent).then(loaded => {
    model = loaded;
    document.getElementById("weights").remove();
    head();
    startOver();
  }).catch(error => {
    document.getElementById("main").replaceChildren(h("section", {}, h("h1", {}, words.broken)));
    throw error;
  });
})();
