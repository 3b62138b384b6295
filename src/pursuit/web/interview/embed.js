// One line puts the interview into any page: <script src="https://HOST/embed.js" data-model="MODEL"></script>

(() => {
  const script = document.currentScript, { origin } = new URL(script.src), { model, title } = script.dataset;
  const frame = document.createElement("iframe");
  frame.src = model ? `${origin}/m/${encodeURIComponent(model)}` : `${origin}/`;
  frame.title = title || "Interview";
  frame.style.cssText = "display:block;width:100%;height:640px;border:0";
  addEventListener("message", event => {
    const height = event.source === frame.contentWindow && event.origin === origin && event.data?.pursuitHeight;
    if (height) frame.style.height = `${Math.ceil(height)}px`;
  });
  script.after(frame);
})();
