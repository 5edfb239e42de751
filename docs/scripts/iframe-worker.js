/* Pages opened from a folder may not start workers. There, and only there, the search runs in a frame. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.onmessage = null
      const frame = document.createElement("iframe")
      frame.hidden = true
      this.ready = new Promise(resolve => {
        frame.addEventListener("load", () => resolve(frame.contentWindow), { once: true })
      })
      window.addEventListener("message", event => {
        if (event.source !== frame.contentWindow) return
        const copy = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(copy)
        if (this.onmessage) this.onmessage(copy)
      })
      frame.srcdoc =
        "<!doctype html><script>window.postMessage = data => parent.postMessage(data, '*')</" + "script>" +
        `<script src="${url}"></` + "script>"
      const add = () => document.body.appendChild(frame)
      if (document.body) add()
      else document.addEventListener("DOMContentLoaded", add)
      this.frame = frame
    }
    postMessage(data) {
      this.ready.then(target => target.dispatchEvent(new target.MessageEvent("message", { data })))
    }
    terminate() { this.frame.remove() }
  }
}
