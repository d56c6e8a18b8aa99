// Draws the gate at any moment. `tau` counts rounds: 12.4 is four tenths into round 13, 13 is its end. What is drawn
// depends on the run and on `tau` alone, so it can be played, stopped and wound back.

import { fixed, number, whole } from "../../drawing/format.js";
import { fillHeight, layoutOf, slot, tankLeft } from "./layout.js";
import { admittedIn, opening, windowOf } from "./model.js";

const between = (a, b, share) => a + (b - a) * share;
const clamp = (value) => Math.min(1, Math.max(0, value));
const ease = (x) => { const u = clamp(x); return u * u * (3 - 2 * u); };
const part = (phase, from, to) => ease((phase - from) / (to - from));
const noise = (k) => { const x = Math.sin(k * 127.1 + 11.7) * 43758.5453; return x - Math.floor(x); };

export class Scene {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.shown = null; // which part the tour points at
  }

  prepare(model) {
    this.model = model;
    this.recolour();
    this.resize();
  }

  resize() {
    const width = Math.max(280, this.canvas.parentElement.clientWidth);
    this.layout = layoutOf(width, this.model);
    const ratio = Math.min(3, window.devicePixelRatio || 1);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.layout.height * ratio);
    this.canvas.style.height = `${this.layout.height}px`;
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  recolour() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    this.colours = Object.fromEntries(["page", "raised", "sunk", "ink", "soft", "hair", "edge", "accent", "warn", "c0", "c1", "c5"].map((name) => [name, colour(`--${name}`)]));
    this.family = getComputedStyle(document.body).fontFamily;
    const oldest = this.model.oldest;
    this.ages = Array.from({ length: oldest + 1 }, (_, age) => mix(this.colours.c0, this.faded(), Math.sqrt(age / oldest)));
  }

  faded() {
    return mix(this.colours.edge, this.colours.page, 0.52);
  }

  ageColour(age) {
    return this.ages[Math.min(Math.max(0, age), this.ages.length - 1)];
  }

  draw(tau) {
    const { pen, layout, model } = this;
    const t = Math.min(model.rounds, Math.max(0, Math.ceil(tau - 1e-9)));
    const phase = t === 0 ? 1 : clamp(tau - (t - 1));
    pen.clearRect(0, 0, layout.width, layout.height);
    const open = between(opening(model, t - 1), opening(model, t), part(phase, 0.02, 0.2));
    this.drawStream(tau, open);
    this.drawCanal(open);
    this.drawTanks(t, phase);
    this.drawGate(t, open, phase);
    this.drawDebt(t, phase, tau);
    if (this.shown) this.drawRing();
  }

  text(text, x, y, { size = 12.5, colour = "soft", align = "left", weight = 400 } = {}) {
    const { pen } = this;
    pen.font = `${weight} ${size}px ${this.family}`;
    pen.fillStyle = this.colours[colour] || colour;
    pen.textAlign = align;
    pen.textBaseline = "alphabetic";
    pen.fillText(text, x, y);
  }

  box(x, y, width, height, radius = 5) {
    this.pen.beginPath();
    this.pen.roundRect(x, y, width, height, radius);
  }

  dot(x, y, radius, colour, alpha = 1) {
    const { pen } = this;
    pen.globalAlpha = alpha;
    pen.fillStyle = colour;
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.fill();
    pen.globalAlpha = 1;
  }

  // What streams past: dots that turn away before the gate unless they are let in.
  drawStream(tau, open) {
    const { pen, layout: { gate }, colours } = this;
    const deep = gate.bottom - gate.top;
    const water = pen.createLinearGradient(0, 0, gate.x, 0);
    water.addColorStop(0, faint(colours.c5, 0));
    water.addColorStop(0.35, faint(colours.c5, 0.2));
    water.addColorStop(1, faint(colours.c5, 0.26));
    pen.fillStyle = water;
    pen.fillRect(0, gate.top, gate.x, deep);
    this.text(this.layout.stacked ? "new samples" : "the stream: new samples every round", 4, gate.top - 10, { size: 12 });
    const count = Math.round(gate.x / 4.2);
    const run = gate.x + 60;
    const turn = gate.x - 46;
    for (let k = 0; k < count; k++) {
      const travelled = (noise(k) * run + tau * (0.75 + 0.3 * noise(k + 0.5)) * 95) % run;
      const high = gate.top + 6 + noise(k + 300) * (deep - 12);
      const over = Math.max(0, travelled - turn) / (run - turn);
      const x = over ? turn + Math.sin(Math.min(1, over * 1.15) * 1.5) * 30 : travelled;
      const y = high + over * over * 92;
      this.dot(x, y, 2.3, colours.soft, 0.55 * Math.min(1, travelled / 60) * (1 - over));
    }
    if (!this.layout.stacked) this.text("not let in: flows past, costs nothing", 18, gate.bottom + 58, { size: 12 });
    this.passing = open;
  }

  // Behind the gate the water stands as high as the gate is open.
  drawCanal(open) {
    const { pen, layout: { gate, width, stacked, tanks }, colours } = this;
    const high = open * (gate.bottom - gate.top);
    const end = stacked ? width - 12 : tanks.x + tanks.width;
    pen.fillStyle = faint(colours.c0, 0.17);
    pen.fillRect(gate.x, gate.bottom - high, end - gate.x, high);
    pen.strokeStyle = colours.edge;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(gate.x, gate.bottom);
    pen.lineTo(stacked ? end - 26 : end, gate.bottom);
    if (stacked) { // round the corner, and down to the buffers
      pen.lineTo(end - 26, tanks.y - 28);
      pen.moveTo(end, gate.top);
      pen.lineTo(end, tanks.y - 28);
      pen.globalAlpha = open;
      pen.fillStyle = faint(colours.c0, 0.17);
      pen.fillRect(end - 26, gate.bottom, 26, tanks.y - 28 - gate.bottom);
      pen.globalAlpha = 1;
    }
    pen.stroke();
  }

  drawGate(t, open, phase) {
    const { pen, model, layout: { gate }, colours } = this;
    const deep = gate.bottom - gate.top;
    pen.fillStyle = colours.page;
    pen.fillRect(gate.x - 7, gate.top - 20, 14, deep + 20 - open * deep);
    pen.fillStyle = colours.accent;
    this.box(gate.x - 6, gate.top - 16 - open * deep * 0.55, 12, deep + 16 - open * deep * 0.45, 2);
    pen.fill();
    pen.strokeStyle = colours.edge;
    pen.lineWidth = 3;
    pen.lineCap = "round";
    pen.beginPath();
    for (const side of [-11, 11]) {
      pen.moveTo(gate.x + side, gate.bottom + 5);
      pen.lineTo(gate.x + side, gate.top - 34);
    }
    pen.moveTo(gate.x - 16, gate.top - 34);
    pen.lineTo(gate.x + 16, gate.top - 34);
    pen.stroke();
    this.drawPrice(t, phase);
  }

  // The price of this round on a scale from nothing to the highest, with a tick at the mean.
  drawPrice(t, phase) {
    const { pen, model, layout: { gate }, colours } = this;
    const price = model.price[Math.max(0, t - 1)];
    const before = model.price[Math.max(0, t - 2)];
    const now = between(before, price, part(phase, 0, 0.16));
    const [x, y, long] = [gate.x + 26, gate.top - 58, Math.min(150, this.layout.width - gate.x - 40)];
    this.text(`price ${t ? fixed(price, price < 100 ? 2 : 0) : "–"}`, x, y, { size: 16, colour: "ink", weight: 620 });
    pen.fillStyle = colours.hair;
    this.box(x, y + 9, long, 6, 3);
    pen.fill();
    pen.fillStyle = now <= model.meanPrice ? colours.c0 : colours.c1;
    this.box(x, y + 9, Math.max(6, (long * now) / model.highPrice), 6, 3);
    pen.fill();
    const mean = x + (long * model.meanPrice) / model.highPrice;
    pen.fillStyle = colours.ink;
    pen.fillRect(mean - 0.75, y + 6, 1.5, 12);
    this.text("mean", mean, y + 31, { size: 11, align: "center" });
    if (t) this.text(`${whole(model.admitted[t - 1])} let in`, gate.x + 26, gate.top - 7, { size: 13, colour: "ink", weight: 600 });
  }

  drawTanks(t, phase) {
    const { model, layout } = this;
    const state = { t, drop: part(phase, 0, 0.28), shift: part(phase, 0.08, 0.36), phase };
    for (let m = 0; m < model.clients; m++) {
      this.drawTank(m, t);
      if (layout.dots) this.drawDots(m, state);
      else this.drawLayers(m, state);
    }
    const { tanks } = layout;
    const what = layout.stacked ? "buffers" : model.grouped ? "buffers, neighbours together" : "buffers of the clients";
    this.text(what, tanks.x, tanks.y + tanks.height + 32, { size: 12 });
    this.drawAgeKey(tanks.x + tanks.width, tanks.y + tanks.height + 32);
  }

  drawTank(m, t) {
    const { pen, model, layout, colours } = this;
    const { tanks, each } = layout;
    const left = tankLeft(layout, m);
    const foot = tanks.y + tanks.height;
    const high = Math.max(3, fillHeight(layout, model.buffers[m]));
    pen.fillStyle = colours.raised;
    pen.fillRect(left, foot - high, each, high);
    pen.strokeStyle = colours.edge;
    pen.lineWidth = 1.25;
    pen.beginPath();
    pen.moveTo(left, foot - high);
    pen.lineTo(left, foot);
    pen.lineTo(left + each, foot);
    pen.lineTo(left + each, foot - high);
    pen.stroke();
    if (layout.step >= 26) {
      const held = t ? model.held[t - 1][m] : 0;
      const over = held > model.buffers[m];
      const label = layout.step >= 42 ? `${number(held)} / ${number(model.buffers[m])}` : number(held);
      this.text(label, left + each / 2, foot + 14, { size: 11, align: "center", colour: over ? "warn" : "soft", weight: over ? 650 : 400 });
    }
  }

  drawDots(m, { t, drop, shift, phase }) {
    const { model, layout, colours } = this;
    const from = windowOf(model, m, Math.max(0, t - 1));
    const to = windowOf(model, m, t);
    const radius = layout.cell * 0.42;
    const room = model.buffers[m];
    for (let i = from.lo; i < Math.min(from.hi, to.lo) && drop < 1; i++) {
      const at = slot(layout, m, i - from.lo);
      this.dot(at.x, at.y + drop * 26, radius, this.ageColour(t - admittedIn(model, m, i)), 1 - drop);
    }
    for (let i = Math.max(from.lo, to.lo); i < from.hi; i++) {
      const [old, now] = [slot(layout, m, i - from.lo), slot(layout, m, i - to.lo)];
      this.dot(between(old.x, now.x, shift), between(old.y, now.y, shift), radius, this.ageColour(t - admittedIn(model, m, i)));
      if (i - to.lo >= room) this.ring(between(old.x, now.x, shift), between(old.y, now.y, shift), radius);
    }
    const fresh = Math.max(from.hi, to.lo);
    const count = to.hi - fresh;
    for (let i = fresh; i < to.hi; i++) {
      const share = count > 1 ? (i - fresh) / (count - 1) : noise(m + 31);
      const done = clamp((phase - 0.2 - 0.28 * share) / 0.5);
      if (done <= 0) continue;
      const at = this.travel(slot(layout, m, i - to.lo), ease(done), noise(i + 97 * m));
      this.dot(at.x, at.y, radius, colours.c0);
      if (done >= 1 && i - to.lo >= room) this.ring(at.x, at.y, radius);
    }
  }

  // Above its buffer.
  ring(x, y, radius) {
    const { pen } = this;
    pen.strokeStyle = this.colours.c1;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.stroke();
  }

  // Under the plate, along the canal, down into the buffer.
  travel(end, done, wobble) {
    const { gate, stacked, width } = this.layout;
    const deep = (gate.bottom - gate.top) * Math.max(0.12, this.passing);
    const level = gate.bottom - 4 - wobble * Math.max(0, deep - 8);
    const path = stacked
      ? [{ x: gate.x - 36, y: level }, { x: width - 20 - 10 * wobble, y: level }, { x: width - 20 - 10 * wobble, y: this.layout.tanks.y - 16 }, { x: end.x, y: this.layout.tanks.y - 16 }, end]
      : [{ x: gate.x - 36, y: level }, { x: end.x, y: level }, end];
    const lengths = path.slice(1).map((point, k) => Math.hypot(point.x - path[k].x, point.y - path[k].y));
    let left = done * lengths.reduce((a, b) => a + b, 0);
    for (let k = 0; k < lengths.length; k++) {
      if (left <= lengths[k] || k === lengths.length - 1) {
        const share = lengths[k] ? Math.min(1, left / lengths[k]) : 1;
        return { x: between(path[k].x, path[k + 1].x, share), y: between(path[k].y, path[k + 1].y, share) };
      }
      left -= lengths[k];
    }
    return end;
  }

  // Too many samples for dots: the same window in layers, one for each round of admission.
  drawLayers(m, { t, drop, phase }) {
    const { pen, model, layout, colours } = this;
    const [from, to] = [windowOf(model, m, Math.max(0, t - 1)), windowOf(model, m, t)];
    const hi = between(from.hi, to.hi, part(phase, 0.3, 0.85));
    const lo = Math.min(hi, between(from.lo, to.lo, drop));
    const left = tankLeft(layout, m);
    const foot = layout.tanks.y + layout.tanks.height;
    const high = (place) => Math.min(layout.tanks.height + 20, fillHeight(layout, place - lo));
    for (let age = Math.min(t, model.oldest); age >= 0; age--) {
      const round = t - age;
      const first = age === model.oldest ? lo : Math.max(lo, round ? model.cumulative[m][round - 1] : 0);
      const last = Math.min(hi, model.cumulative[m][round]);
      if (last <= first) continue;
      pen.fillStyle = this.ageColour(age);
      pen.fillRect(left + 1, foot - high(last), layout.each - 2, high(last) - high(first));
    }
    if (hi - lo > model.buffers[m] + 0.5) {
      pen.strokeStyle = colours.c1;
      pen.lineWidth = 2;
      pen.strokeRect(left + 1, foot - high(hi), layout.each - 2, high(hi) - fillHeight(layout, model.buffers[m]));
    }
  }

  drawAgeKey(right, y) {
    const { pen, model, colours } = this;
    const [long, steps] = [72, 18];
    const old = model.oldest > 1 ? `${model.oldest} rounds old` : "1 round old";
    this.text(old, right, y, { size: 11.5, align: "right" });
    const end = right - pen.measureText(old).width - 8;
    for (let k = 0; k < steps; k++) {
      pen.fillStyle = this.ageColour(Math.round((k / (steps - 1)) * model.oldest));
      pen.fillRect(end - long + (k * long) / steps, y - 8, long / steps + 0.5, 8);
    }
    this.text("new", end - long - 6, y, { size: 11.5, align: "right" });
    pen.fillStyle = colours.ink;
  }

  // Debt as water in a basin: in by spending above the budget, out by spending less.
  drawDebt(t, phase, tau) {
    const { pen, model, layout: { debt: at }, colours } = this;
    const now = between(model.debt[Math.max(0, t - 1)], model.debt[t], part(phase, 0.4, 0.95));
    const high = (at.height - 8) * Math.min(1, now / model.mostDebt);
    pen.save();
    this.box(at.x, at.y, at.width, at.height, 8);
    pen.clip();
    pen.fillStyle = colours.raised;
    pen.fillRect(at.x, at.y, at.width, at.height);
    if (now > 1e-9) {
      const level = at.y + at.height - high;
      pen.fillStyle = faint(colours.c1, 0.38);
      pen.beginPath();
      pen.moveTo(at.x, at.y + at.height);
      for (let x = 0; x <= at.width; x += 4) pen.lineTo(at.x + x, level + Math.sin(x / 17 + tau * 2.4) * Math.min(2.2, high / 4));
      pen.lineTo(at.x + at.width, at.y + at.height);
      pen.fill();
    }
    pen.restore();
    pen.strokeStyle = colours.edge;
    pen.lineWidth = 1.25;
    this.box(at.x, at.y, at.width, at.height, 8);
    pen.stroke();
    this.text(`debt ${whole(now)}`, at.x, at.y - 28, { size: 16, colour: "ink", weight: 620 });
    this.text("what was spent above the budget", at.x, at.y - 10, { size: 12 });
  }

  drawRing() {
    const { pen, layout: { gate, tanks, debt, width } } = this;
    const deep = gate.bottom - gate.top;
    const [x, y, w, h] = {
      stream: [2, gate.top - 28, gate.x - 22, deep + 44],
      price: [gate.x + 14, gate.top - 82, Math.min(180, width - gate.x - 18), 66],
      gate: [gate.x - 24, gate.top - 44, 48, deep + 58],
      buffers: [tanks.x - 8, tanks.y - 10, tanks.width + 14, tanks.height + 32],
      debt: [debt.x - 9, debt.y - 50, Math.max(debt.width + 18, 200), debt.height + 60],
    }[this.shown];
    pen.strokeStyle = this.colours.accent;
    pen.lineWidth = 2;
    pen.setLineDash([6, 5]);
    this.box(x, y, w, h, 12);
    pen.stroke();
    pen.setLineDash([]);
  }
}

function channels(colour) {
  return [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
}

function mix(a, b, share) {
  const [x, y] = [channels(a), channels(b)];
  return `#${x.map((value, i) => Math.round(between(value, y[i], share)).toString(16).padStart(2, "0")).join("")}`;
}

function faint(colour, alpha) {
  return `rgb(${channels(colour).join(" ")} / ${alpha})`;
}
