"use strict";
// Brings the page to life: what is compressed in it becomes its program, its words, the model and the bytes of the
// weights. The content policy lets nothing run but this and that very program.

(() => {
  const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";

  /** The bytes in a text of base 85: four of them in five digits, the last of which may be left out. */
  function fromBase85(text) {
    const n = text.length, bytes = new Uint8Array(Math.floor(n * 4 / 5));
    const valueOf = new Uint8Array(128);
    for (let i = 0; i < 85; i++) valueOf[DIGITS.charCodeAt(i)] = i;
    for (let i = 0, at = 0; i < n; i += 5) {
      let value = 0;
      for (let k = 0; k < 5; k++) value = value * 85 + (i + k < n ? valueOf[text.charCodeAt(i + k)] : 84);
      for (let shift = 24; shift >= 0 && at < bytes.length; shift -= 8) bytes[at++] = value >>> shift;
    }
    return bytes;
  }

  /** What zlib compressed into a text. */
  async function inflate(text) {
    const bytes = fromBase85(text.trim());
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
