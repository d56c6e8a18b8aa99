// All rounds at a glance, beneath the gate: what was let in, the price under it, and where one is.

import { style } from "../../drawing/palette.js";

const HEIGHT = 92;

export class Timeline {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
  }

  prepare(model) {
    this.model = model;
    this.resize();
  }

  resize() {
    this.width = Math.max(200, this.canvas.parentElement.clientWidth);
    const ratio = Math.min(3, window.devicePixelRatio || 1);
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = HEIGHT * ratio;
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.recolour();
  }

  // The bars do not change while it plays: drawn once, kept as a picture.
  recolour() {
    const { pen, model, width } = this;
    const step = width / model.rounds;
    pen.clearRect(0, 0, width, HEIGHT);
    this.middle = 50;
    for (let t = 0; t < model.rounds; t++) {
      const cheap = model.price[t] <= model.meanPrice;
      const up = Math.min(1, model.admitted[t] / model.fullOpening) * 44;
      const down = (model.price[t] / model.highPrice) * 34;
      const wide = Math.max(0.6, step - (step > 3 ? 1 : 0));
      pen.fillStyle = style("--c0");
      pen.fillRect(t * step, this.middle - up, wide, up);
      pen.globalAlpha = cheap ? 0.4 : 0.85;
      pen.fillStyle = cheap ? style("--edge") : style("--c1");
      pen.fillRect(t * step, this.middle + 4, wide, down);
      pen.globalAlpha = 1;
    }
    this.picture = pen.getImageData(0, 0, this.canvas.width, this.canvas.height);
    this.colours = { ink: style("--ink"), page: style("--page") };
  }

  draw(tau) {
    const { pen, model, width } = this;
    pen.putImageData(this.picture, 0, 0);
    const x = (tau / model.rounds) * width;
    pen.globalAlpha = 0.55;
    pen.fillStyle = this.colours.page;
    pen.fillRect(x, 0, width - x, HEIGHT);
    pen.globalAlpha = 1;
    pen.fillStyle = this.colours.ink;
    pen.fillRect(Math.min(width - 2, Math.max(0, x - 1)), 0, 2, HEIGHT);
  }

  roundAt(clientX) {
    const box = this.canvas.getBoundingClientRect();
    return (Math.min(1, Math.max(0, (clientX - box.left) / box.width)) * this.model.rounds);
  }
}
