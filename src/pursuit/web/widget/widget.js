// A cell's frame around the interview. What the page says goes to Python, and what Python answers to the page.

function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.title = model.get("title");
  frame.setAttribute("sandbox", "allow-scripts allow-popups");
  frame.style.cssText = "width:100%;height:640px;border:1px solid #8884;border-radius:6px;background:#fff";
  frame.srcdoc = model.get("page");
  const fromPage = ({ source, data }) => {
    if (source !== frame.contentWindow) return;
    if (data.height) frame.style.height = `${Math.min(Math.max(data.height + 4, 320), 1400)}px`;
    else if (data.what) model.send(data);
  };
  const fromPython = message => frame.contentWindow?.postMessage(message, "*");
  addEventListener("message", fromPage);
  model.on("msg:custom", fromPython);
  el.append(frame);
  return () => { removeEventListener("message", fromPage); model.off("msg:custom", fromPython); };
}

export default { render };
