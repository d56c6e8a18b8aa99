// Where everything stands on the canvas, for its width: side by side, or the buffers beneath the gate on a phone.

const DEEP = 46; // of the channel

export function layoutOf(width, model) {
  return width >= 640 ? wide(width, model) : narrow(width, model);
}

function wide(width, model) {
  const gate = { x: Math.round(Math.max(190, width * 0.27)), top: 92, bottom: 92 + DEEP };
  const tanks = { x: gate.x + 44, y: gate.bottom + 34, width: width - gate.x - 60, height: 208 };
  return finish(width, 430, gate, tanks, { x: 18, y: 272, width: gate.x - 70, height: 108 }, model);
}

function narrow(width, model) {
  const gate = { x: Math.round(width * 0.55), top: 84, bottom: 84 + DEEP };
  const debt = { x: 12, y: 232, width: width - 66, height: 44 };
  const tanks = { x: 12, y: 318, width: width - 24, height: 170 };
  return finish(width, 520, gate, tanks, debt, model);
}

function finish(width, height, gate, tanks, debt, model) {
  const stacked = tanks.y > debt.y;
  const step = tanks.width / model.clients;
  const each = Math.max(2, Math.min(step * 0.74, 64));
  const cell = cellSize(each, tanks.height, Math.max(model.mostHeld, ...model.buffers));
  const columns = Math.max(1, Math.floor(each / cell));
  return { width, height, gate, debt, tanks, stacked, step, each, cell, columns, dots: cell >= 3.5 };
}

// The largest square cell with which the fullest buffer still fits.
function cellSize(width, height, most) {
  let best = 0.5;
  for (let columns = 1; columns <= 12; columns++) {
    best = Math.max(best, Math.min(width / columns, height / Math.ceil(most / columns)));
  }
  return Math.min(best, 24);
}

export function slot(layout, m, place) {
  const { tanks, cell, columns } = layout;
  const left = tankLeft(layout, m);
  const inset = (layout.each - columns * cell) / 2;
  return {
    x: left + inset + ((place % columns) + 0.5) * cell,
    y: tanks.y + tanks.height - (Math.floor(place / columns) + 0.5) * cell,
  };
}

export const tankLeft = (layout, m) => layout.tanks.x + m * layout.step + (layout.step - layout.each) / 2;
export const fillHeight = (layout, count) => (layout.dots ? Math.ceil(count / layout.columns) : count / layout.columns) * layout.cell;
