// Search from a disk: browsers start no worker for a file, so its script runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inner = this.frame.contentWindow;
      this.ready = this.load(inner, String(url));
    }

    async load(inner, url) {
      const script = (source) =>
        new Promise((done, failed) => {
          const element = inner.document.createElement("script");
          element.src = source;
          element.onload = done;
          element.onerror = failed;
          inner.document.body.appendChild(element);
        });
      inner.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      inner.importScripts = (...sources) => sources.reduce((before, next) => before.then(() => script(next)), Promise.resolve());
      await script(url);
    }

    async postMessage(data) {
      await this.ready;
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
