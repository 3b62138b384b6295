// The interview with a model of the server, and the choice of a picture where it looks at one.

import { button, h, quietButton } from "../dom.js";
import { Interview } from "../interview.js";
import { showColour, subtitleText } from "../presentation.js";
import { isFramed } from "../settings.js";
import { count, momentText, say, translate } from "../words.js";
import { call, encoded, get, problemText } from "./api.js";
import { ServerEngine } from "./engine.js";

/** The page of a new session with a `model`, or of the one with an `id`; `unfinished` is one to go on with instead. */
export async function interviewPage(shell, { model = null, id = null, unfinished = null }) {
  const engine = new ServerEngine({ model, id, onBegin: own => history.replaceState(null, "", `/s/${encoded(own)}`) });
  const state = await engine.state(), presentation = await get(`/api/models/${encoded(engine.model)}/interview`);
  showColour(presentation.colour);
  translate(presentation.languages);
  const startOver = () => location.assign(`/m/${encoded(engine.model)}`);
  const about = { title: state.title, logo: presentation.logo, subtitle: () => subtitleText(presentation, state),
    links: () => [[say("start_over"), startOver], [say("about_model"), `/about/${encoded(engine.model)}`]] };
  if (state.is_image && !state.image?.has_picture) return choosePicture(shell, about, model);
  const interview = new Interview(engine, shell.main, shell.spoken, { startOver, presentation, reportUrl: () => engine.reportUrl, footnote: () => ownFootnote(shell, engine, startOver) });
  shell.setHeader(about, () => interview.render());
  await interview.begin(state);
  if (!unfinished) return;
  const link = h("a", { class: "quiet", href: `/s/${encoded(unfinished.id)}` }, say("unfinished"));
  interview.notice = [h("p", {}, soFarText(unfinished)), link];
  interview.render();
}

/** How far a session has come, and when. */
export const soFarText = ({ n_asked: n, updated }) => [n > 0 && count("answered_so_far", n), momentText(updated)].filter(Boolean).join(" · ");

/** What is kept of this interview, for whom and for how long, and what its person may do about it. */
function ownFootnote(shell, engine, startOver) {
  const { lists, keepDays } = document.documentElement.dataset, place = `/api/sessions/${encoded(engine.id)}`;
  const kept = [engine.session?.model_changed && say("model_changed"), say(isFramed ? "kept_framed" : lists === "no" ? "kept_unlisted" : "kept_here"), keepDays ? count("kept_days", Number(keepDays)) : say("kept_always")];
  if (!engine.id) return kept.filter(Boolean).join(" ");
  const remove = async () => {
    await call("DELETE", place);
    shell.main.className = "wide";
    shell.main.replaceChildren(h("section", {}, h("h1", { tabindex: "-1" }, say("deleted")), h("p", { class: "lead" }, say("deleted_text")),
      h("div", { class: "actions" }, button(say("again"), startOver, { class: "first" }))));
    shell.main.querySelector("h1").focus();
  };
  const tools = h("span", { class: "tools" });
  const offer = () => tools.replaceChildren(h("a", { class: "quiet", href: `${place}/answers.json`, download: "answers.json" }, say("save_answers")), quietButton(say("delete_answers"), ask));
  const ask = () => {
    tools.replaceChildren(say("delete_sure"), " ", quietButton(say("delete_yes"), () => remove().catch(problem => shell.fail(problem)), { class: "quiet danger" }), quietButton(say("delete_no"), offer));
    tools.querySelector(".danger").focus();
  };
  offer();
  return [kept.filter(Boolean).join(" "), " ", tools];
}

/** Show the samples, and let a person bring a picture of their own. */
async function choosePicture(shell, about, model) {
  const { samples } = await get(`/api/models/${encoded(model)}/samples`);
  const go = session => location.assign(`/s/${encoded(session.id)}`);
  const error = h("p", { class: "error", role: "alert" });
  const attempt = async act => {
    try {
      go(await act());
    } catch (problem) {
      error.textContent = problemText(problem);
    }
  };
  const upload = file => {
    const form = new FormData();
    form.append("model", model);
    form.append("picture", file);
    return attempt(() => call("POST", "/api/sessions/picture", form));
  };
  const show = () => {
    const input = h("input", { type: "file", accept: "image/png,image/jpeg", id: "upload", onchange: () => input.files.length && upload(input.files[0]) });
    shell.main.className = "wide";
    shell.main.replaceChildren(h("section", {}, h("h1", { tabindex: "-1" }, say("choose_picture")), h("p", { class: "lead" }, say("choose_picture_hint")),
      samples.length > 0 && h("ul", { class: "samples" }, samples.map(({ n, url, label }, i) => h("li", {},
        button(h("img", { src: url, alt: "", loading: "lazy" }), () => attempt(() => call("POST", "/api/sessions", { model, sample: n })), { "aria-label": say("sample", { n: i + 1 }), "data-label": label })))),
      h("div", { class: "upload" }, h("label", { for: "upload" }, say("own_picture")), input), error));
  };
  shell.setHeader(about, show);
  show();
}
