// The curves of one run as they grow: what is new is added, and when there is too much of it all is asked for again.

import { get, runPath } from "./api.js";

const POINTS = 400;

export class Curves {
  constructor(name, signal) {
    Object.assign(this, { name, signal, policies: new Map(), round: 0, held: 0 });
  }

  // Asks for what came since; true where something did.
  async refresh() {
    const since = this.held > 1.2 * POINTS ? 0 : this.reached();
    const answer = await get(runPath(this.name, "/curves"), { since, points: POINTS }, this.signal);
    this.round = answer.round;
    this.state = answer.state;
    const before = this.reached();
    if (since === 0) this.policies.clear();
    for (const one of answer.policies) this.policies.set(one.policy, joined(this.policies.get(one.policy), one, since));
    this.held = Math.max(0, ...[...this.policies.values()].map((one) => one.t.length));
    return this.reached() !== before || since === 0;
  }

  // The last round that all policies have.
  reached() {
    return this.policies.size ? Math.min(...[...this.policies.values()].map((one) => one.rounds)) : 0;
  }

  // One measured series of a policy: { t, mean, half }.
  series(policy, key) {
    const one = this.policies.get(policy);
    if (!one) return { t: [], mean: [], half: [] };
    const judged = key in one.judged;
    return { t: judged ? one.evaluated : one.t, ...(judged ? one.judged : one.series)[key] };
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

// y at each of `at`, on the straight lines between the points (x, y); both ascending.
export function interpolated(x, y, at) {
  let i = 0;
  return at.map((value) => {
    while (i < x.length - 2 && x[i + 1] < value) i += 1;
    if (x.length < 2 || value <= x[i]) return y[i] ?? null;
    const share = Math.min(1, (value - x[i]) / (x[i + 1] - x[i]));
    return y[i] + share * (y[i + 1] - y[i]);
  });
}
