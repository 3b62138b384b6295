"use strict";
// Brings the page to life: what is compressed in it becomes its program, its words, the model and the bytes of the
// weights. The content policy lets nothing run but this and that very program.

(() => {
  /** What zlib compressed into a text. */
  async function inflate(text) {
    const bytes = Uint8Array.from(atob(text.trim()), one => one.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  const part = name => inflate(document.getElementById(name).textContent);

  Promise.all([part("page"), part("weights")]).then(([page, weights]) => {
    globalThis.exportedPage = { ...JSON.parse(new TextDecoder().decode(page)), weights };
    const script = document.createElement("script");
    script.textContent = exportedPage.program;
    document.body.append(script);
  }).catch(error => {
    document.getElementById("main").textContent = document.body.dataset.broken;
    throw error;
  });
})();
