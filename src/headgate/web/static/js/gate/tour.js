// The tour beneath the gate: it plays the one round that each stop is about, then waits.

import { h, indexed, refill } from "../../drawing/dom.js";

export class Tour {
  constructor(stops, scene, player) {
    Object.assign(this, { stops, scene, player, at: -1 });
    this.title = h("h2");
    this.text = h("p");
    this.place = h("span", { class: "soft numeral" });
    this.back = h("button", { type: "button", onclick: () => this.stop(this.at - 1) }, "Back");
    this.next = h("button", { type: "button", class: "strong", onclick: () => (this.at + 1 < stops.length ? this.stop(this.at + 1) : this.leave()) });
    this.end = h("button", { type: "button", class: "quiet", onclick: () => this.leave() }, "End the tour");
    this.node = h("section", { class: "tour", "aria-label": "The paper in one minute" }, this.title, h("div", { "aria-live": "polite" }, this.text), h("div", { class: "tour-buttons" }, this.back, this.next, this.end, this.place));
    this.node.addEventListener("keydown", (event) => { if (event.key === "Escape") this.leave(); });
    this.show();
  }

  stop(at) {
    const { show, round } = this.stops[at];
    this.at = at;
    this.scene.shown = show;
    this.show();
    this.player.playRound(round);
  }

  leave() {
    this.at = -1;
    this.scene.shown = null;
    this.player.seek(this.player.tau);
    this.show();
  }

  show() {
    const on = this.at >= 0;
    this.node.classList.toggle("on", on);
    const { title, text } = on ? this.stops[this.at] : { title: "The paper in one minute", text: "Six stops: what a round is, why prices matter, why to wait, what debt does, what K does, and what comes of it." };
    this.title.textContent = title;
    refill(this.text, indexed(text));
    this.back.hidden = this.at < 1;
    this.end.hidden = !on;
    this.next.textContent = !on ? "Start" : this.at + 1 < this.stops.length ? "Next" : "Done";
    this.place.textContent = on ? `${this.at + 1} / ${this.stops.length}` : "";
  }
}
