// The interview with a model of the server, and the choice of a picture where it looks at one.

import { h } from "../dom.js";
import { Interview } from "../interview.js";
import { say } from "../words.js";
import { call, encoded, get } from "./api.js";
import { ServerEngine } from "./engine.js";

/** The page of a new session with a `model`, or of the one with an `id`. */
export async function interviewPage(shell, { model = null, id = null }) {
  const engine = new ServerEngine({ model, id, onBegin: own => history.replaceState(null, "", `/s/${encoded(own)}`) });
  const state = await engine.state();
  const startOver = () => location.assign(`/m/${encoded(engine.model)}`);
  const about = { title: state.title, subtitle: () => (state.is_number ? say("subtitle_number") : state.is_image ? say("subtitle_image", { n: state.n_labels }) : say("subtitle", { n: state.n_labels })),
    links: () => [[say("start_over"), startOver], [say("about_model"), `/about/${encoded(engine.model)}`]] };
  if (state.is_image && !state.image?.has_picture) return choosePicture(shell, about, model);
  const interview = new Interview(engine, shell.main, shell.spoken, { startOver, reportUrl: () => engine.reportUrl, footnote: () => (engine.session?.model_changed ? say("model_changed") : say(document.documentElement.dataset.lists === "no" ? "kept_unlisted" : "kept_here")) });
  shell.setHeader(about, () => interview.render());
  return interview.begin(state);
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
      error.textContent = problem.isLost ? say("no_server") : problem.message || say("failed");
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
        h("button", { type: "button", "aria-label": say("sample", { n: i + 1 }), "data-label": label, onclick: () => attempt(() => call("POST", "/api/sessions", { model, sample: n })) }, h("img", { src: url, alt: "", loading: "lazy" }))))),
      h("div", { class: "upload" }, h("label", { for: "upload" }, say("own_picture")), input), error));
  };
  shell.setHeader(about, show);
  show();
}
