// Time in the gate: playing, stopped, at any round. Tells `moved(tau)` on every change.

export class Player {
  constructor(rounds, moved, changed) {
    Object.assign(this, { rounds, moved, changed, tau: 0, speed: 1, playing: false, frame: 0, still: false, until: rounds });
  }

  get round() {
    return Math.min(this.rounds, Math.max(0, Math.ceil(this.tau - 1e-9)));
  }

  play(until = this.rounds) {
    this.until = until;
    if (this.playing || !this.rounds) return;
    if (this.tau >= this.rounds) this.seek(0);
    this.playing = true;
    this.changed();
    let last = performance.now();
    const step = (now) => {
      if (!this.playing) return;
      const passed = Math.min(0.1, (now - last) / 1000) * this.speed; // a tab that slept does not jump
      last = now;
      this.waited = (this.waited || 0) + passed;
      if (!this.still) this.go(this.tau + passed);
      else if (this.waited >= 1) {
        this.waited = 0;
        this.go(Math.floor(this.tau + 1e-9) + 1);
      }
      if (this.playing) this.frame = requestAnimationFrame(step);
    };
    this.frame = requestAnimationFrame(step);
  }

  go(tau) {
    this.tau = Math.min(this.until, tau);
    this.moved(this.tau);
    if (this.tau >= this.until) this.pause();
  }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    cancelAnimationFrame(this.frame);
    this.changed();
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  seek(tau) {
    this.tau = Math.min(this.rounds, Math.max(0, tau));
    this.moved(this.tau);
    this.changed();
  }

  // One round from its beginning to its end; at once where nothing shall move.
  playRound(round) {
    this.pause();
    this.seek(this.still ? round : round - 1);
    if (!this.still) this.play(round);
  }

  // To the end of the next round, or of the one before.
  step(by) {
    this.pause();
    this.seek(by > 0 ? Math.floor(this.tau + 1e-9) + by : Math.ceil(this.tau - 1e-9) + by);
  }
}
