// The page of a server that asks for a token: it is typed once, and a cookie that no script can read remembers it.

import { h } from "../dom.js";
import { say } from "../words.js";
import { call, problemText } from "./api.js";

/** Ask for the token, and show the page again once it is right. */
export function tokenPage(shell) {
  const show = () => {
    const field = h("input", { type: "password", id: "token", autocomplete: "current-password", required: true, "aria-describedby": "token-hint" });
    const error = h("p", { class: "error", role: "alert" });
    const send = async event => {
      event.preventDefault();
      try {
        await call("POST", "/api/token", { token: field.value });
        location.reload();
      } catch (problem) {
        error.textContent = problem.status === 401 ? say("token_wrong") : problemText(problem);
        field.select();
      }
    };
    shell.main.className = "wide";
    shell.main.replaceChildren(h("section", {}, h("h1", { tabindex: "-1" }, say(location.pathname === "/operator" ? "token_operator" : "token_title")), h("p", { class: "lead", id: "token-hint" }, say("token_hint")),
      h("form", { class: "truth", onsubmit: send }, h("label", { for: "token" }, say("token_label")),
        h("div", { class: "controls" }, field, h("button", { type: "submit", class: "small-button first" }, say("token_send")))), error));
    field.focus();
  };
  shell.setHeader({ title: "pursuit" }, show);
  show();
}
