// The curves of one run as they grow: what is new is added, and when there is too much of it all is asked for again.

import { get, runPath } from "./api.js";

const POINTS = 400;

export class Curves {
  constructor(name, signal) {
    Object.assign(this, { name, signal, policies: new Map(), held: 0 });
  }

  // Asks for what came since; true where something did, or the state is another.
  async refresh() {
    const since = this.held > 1.2 * POINTS ? 0 : this.reached();
    const answer = await get(runPath(this.name, "/curves"), { since, points: POINTS }, this.signal);
    const before = this.known();
    Object.assign(this, { state: answer.state, round: answer.round });
    if (since === 0) this.policies.clear();
    for (const one of answer.policies) this.policies.set(one.policy, joined(this.policies.get(one.policy), one, since));
    this.held = Math.max(0, ...[...this.policies.values()].map((one) => one.t.length));
    return this.known() !== before;
  }

  known() {
    return [this.state, this.round, ...[...this.policies.values()].map((one) => one.rounds)].join();
  }

  // The last round that all policies have.
  reached() {
    return this.policies.size ? Math.min(...[...this.policies.values()].map((one) => one.rounds)) : 0;
  }
}

function joined(old, added, since) {
  if (!old || since === 0) return added;
  const kept = old.t.filter((t) => t <= since).length;
  const judged = old.evaluated.filter((t) => t <= since).length;
  return {
    ...added,
    t: [...old.t.slice(0, kept), ...added.t],
    evaluated: [...old.evaluated.slice(0, judged), ...added.evaluated],
    series: extended(old.series, added.series, kept),
    judged: extended(old.judged, added.judged, judged),
  };
}

function extended(old, added, kept) {
  return Object.fromEntries(Object.entries(added).map(([key, { mean, half }]) => [
    key, { mean: [...old[key].mean.slice(0, kept), ...mean], half: half && old[key].half ? [...old[key].half.slice(0, kept), ...half] : half },
  ]));
}
