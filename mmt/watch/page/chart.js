// Line charts on a canvas: curves with bands, axes, and values under the pointer or the arrow keys.

// Okabe and Ito's colours, which colour-blind people can tell apart; lighter on a dark page.
const LIGHT = ["#0072b2", "#d18700", "#009e73", "#c2609a", "#d55e00", "#3a9fd8", "#8a8f00", "#6a3d9a"];
const DARK = ["#56b4e9", "#e69f00", "#2ec492", "#e39ac6", "#ff7f3f", "#2f8fe0", "#c9c94a", "#b39ddb"];
const DASHES = [[], [6, 4], [2, 3], [9, 3, 2, 3], [12, 5]];

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** The colour of the n-th curve or run. */
function ink(place) {
  const colours = colour("page") === "#f4f5f9" ? LIGHT : DARK;
  return colours[place % colours.length];
}

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size >= 100) return value.toFixed(1);
  if (size === 0) return "0";
  return size >= 1 ? value.toFixed(2) : value.toPrecision(2);
}

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(4)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(4)}k`;
  return `${+value.toPrecision(4)}`;
}

/** Round numbers between two values: two or more, because one does not show the scale. */
function ticks(low, high, count) {
  const raw = (high - low) / Math.max(count, 1);
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(each => each >= raw);
  const all = [];
  for (let place = Math.ceil(low / step); place * step <= high + step * 1e-6; place++) all.push(place * step);
  return all.length < 2 ? ticks(low, high, 1.5 * count) : all;
}

/** Gives a canvas the size of its box; returns its context, in CSS pixels, emptied. */
function sized(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "11px system-ui, sans-serif";
  return context;
}

const tip = {
  show(text, x, y) {
    const box = document.getElementById("tip");
    box.textContent = text;
    box.hidden = false;
    const {width, height} = box.getBoundingClientRect();
    box.style.left = `${Math.max(4, x + 14 + width > innerWidth ? x - width - 10 : x + 14)}px`;
    box.style.top = `${Math.max(4, Math.min(y + 12, innerHeight - height - 4))}px`;
  },
  hide() { document.getElementById("tip").hidden = true; },
};

/** Lets people drag over `canvas` to choose steps. `stepAt` maps x to a step. */
function chooseSteps(canvas, stepAt, chosen) {
  const drag = {start: null, done: false, moved: event => drag.start !== null && Math.abs(event.offsetX - drag.start) > 12};
  canvas.addEventListener("pointerdown", event => {
    drag.done = false;
    if (event.button === 0) drag.start = event.offsetX;
  });
  window.addEventListener("pointerup", event => {
    if (drag.start === null) return;
    const ends = [drag.start, event.clientX - canvas.getBoundingClientRect().left];
    drag.start = null;
    drag.done = Math.abs(ends[1] - ends[0]) > 12;
    if (drag.done) chosen([stepAt(Math.min(...ends)), stepAt(Math.max(...ends))]);
  });
  window.addEventListener("pointercancel", () => { drag.start = null; });
  return drag;
}

/** A chart of curves: {name, colour, dash, grid, code, onset, marks}. */
class Chart {
  constructor(title, {height = 150, steps = () => {}} = {}) {
    this.height = height;
    this.curves = [];
    this.place = null;
    this.heading = element("h3");
    this.canvas = element("canvas", {tabIndex: 0});
    this.canvas.setAttribute("role", "img");
    this.readout = element("p", {className: "readout"});
    this.readout.setAttribute("role", "status");
    this.box = element("div", {className: "chart"}, this.heading, this.canvas, this.readout);
    this.name(title, "");
    this.drag = chooseSteps(this.canvas, x => this.stepAt(x), steps);
    this.canvas.addEventListener("pointermove", event => this.point(this.stepAt(event.offsetX), event));
    this.canvas.addEventListener("pointerleave", () => { tip.hide(); this.point(null); });
    this.canvas.addEventListener("keydown", event => this.key(event));
    this.canvas.addEventListener("blur", () => { this.place = null; this.readout.textContent = ""; this.draw(); });
  }

  name(title, unit) {
    this.heading.replaceChildren(title, " ", element("small", {textContent: unit}));
    this.title = title;
  }

  set(curves, steps) {
    this.curves = curves;
    this.steps = steps;
    this.draw();
  }

  stepAt(x) {
    const {left, width, first, last} = this.frame;
    return Math.round(first + Math.min(1, Math.max(0, (x - left) / width)) * (last - first));
  }

  range() {
    let first = Infinity, last = -Infinity, low = Infinity, high = -Infinity;
    for (const {grid, code} of this.curves) {
      if (!grid.columns) continue;
      first = Math.min(first, grid.edges[0]);
      last = Math.max(last, grid.edges[grid.columns]);
      for (let column = 0; column < grid.columns; column++) {
        const value = grid.value(code, column);
        if (Number.isNaN(value)) continue;
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
    if (this.steps) [first, last] = this.steps;
    if (!(low <= high)) [low, high] = [0, 1];
    if (low === high) { low -= Math.abs(low) / 10 || 0.5; high += Math.abs(high) / 10 || 0.5; }
    return {first, last: Math.max(last, first + 1), low, high};
  }

  draw() {
    const width = this.box.clientWidth || 300;
    const context = sized(this.canvas, width, this.height);
    const range = this.range();
    const frame = this.frame = {...range, left: 46, top: 6, width: width - 56, height: this.height - 26};
    const x = step => frame.left + (step - frame.first) / (frame.last - frame.first) * frame.width;
    const y = value => frame.top + (frame.high - value) / (frame.high - frame.low) * frame.height;
    this.axes(context, x, y);
    context.save();
    context.beginPath();
    context.rect(frame.left, 0, frame.width + 4, this.height);
    context.clip();
    for (const curve of this.curves) this.curve(context, curve, x, y);
    if (this.place !== null) {
      context.strokeStyle = colour("soft");
      context.setLineDash([]);
      context.beginPath();
      context.moveTo(x(this.place), frame.top);
      context.lineTo(x(this.place), frame.top + frame.height);
      context.stroke();
    }
    context.restore();
    const names = this.curves.slice(0, 12).map(curve => `${curve.name} ${number(curve.grid.latest(curve.code))}`);
    this.canvas.setAttribute("aria-label", `${this.title}. Latest: ${names.join("; ") || "no values"}`);
  }

  axes(context, x, y) {
    const {first, last, low, high, left, top, width, height} = this.frame;
    context.strokeStyle = colour("line");
    context.fillStyle = colour("soft");
    context.lineWidth = 1;
    context.setLineDash([]);
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const value of ticks(low, high, Math.max(4, height / 40))) {
      context.beginPath();
      context.moveTo(left, y(value));
      context.lineTo(left + width, y(value));
      context.stroke();
      context.fillText(short(value), left - 5, y(value));
    }
    context.textBaseline = "top";
    for (const step of ticks(first, last, Math.max(4, width / 110))) {
      context.textAlign = x(step) > left + width - 16 ? "right" : "center";
      context.fillText(short(step), x(step), top + height + 6);
    }
  }

  curve(context, {grid, code, colour: ink, dash, onset, marks = []}, x, y) {
    context.strokeStyle = context.fillStyle = ink;
    context.lineWidth = 1.6;
    if (grid.low && grid.columns > 1) {
      context.globalAlpha = 0.15;
      context.beginPath();
      const known = [];
      for (let column = 0; column < grid.columns; column++)
        if (!Number.isNaN(grid.value(code, column))) known.push(column);
      for (const column of known) context.lineTo(x(grid.edges[column + 1]), y(grid.value(code, column, "high")));
      for (const column of known.reverse()) context.lineTo(x(grid.edges[column + 1]), y(grid.value(code, column, "low")));
      context.fill();
      context.globalAlpha = 1;
    }
    context.setLineDash(dash || []);
    context.beginPath();
    let points = 0, at = null;
    for (let column = 0; column < grid.columns; column++) {
      const value = grid.value(code, column);
      if (Number.isNaN(value)) continue;
      at = [x(grid.edges[column + 1]), y(value)];
      context.lineTo(...at);
      points += 1;
    }
    context.stroke();
    context.setLineDash([]);
    if (points === 1) { context.beginPath(); context.arc(...at, 3, 0, 7); context.fill(); }
    for (const {step, rule} of marks) {
      const value = grid.value(code, grid.columnOf(step)), up = rule === "enter" ? -1 : 1;
      if (Number.isNaN(value)) continue;
      context.beginPath();
      context.moveTo(x(step), y(value) + 6 * up);
      context.lineTo(x(step) - 5, y(value) - 4 * up);
      context.lineTo(x(step) + 5, y(value) - 4 * up);
      context.closePath();
      context.fillStyle = colour("card");
      context.fill();
      context.stroke();
      context.fillStyle = ink;
    }
    if (onset !== undefined) {
      const value = grid.value(code, grid.columnOf(onset));
      if (Number.isNaN(value)) return;
      context.beginPath();
      context.moveTo(x(onset), y(value) - 3);
      context.lineTo(x(onset) - 6, y(value) - 13);
      context.lineTo(x(onset) + 6, y(value) - 13);
      context.fill();
    }
  }

  point(step, event) {
    if (step === null || !this.curves.length || this.drag.moved(event || {offsetX: NaN})) {
      if (step === null && this.place !== null) { this.place = null; this.draw(); }
      return;
    }
    this.place = step;
    this.draw();
    const text = this.text(step);
    if (event && event.clientX !== undefined) tip.show(text, event.clientX, event.clientY);
    else this.readout.textContent = text.replaceAll("\n", "; ");
  }

  text(step) {
    const values = this.curves.map(({name, grid, code}) => [name, grid.value(code, grid.columnOf(step))]);
    const known = values.filter(([, value]) => !Number.isNaN(value)).slice(0, 16);
    return [`step ${step.toLocaleString("en")}`, ...known.map(([name, value]) => `${name}: ${number(value)}`)].join("\n");
  }

  key(event) {
    const {first, last} = this.frame;
    const by = {ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10}[event.key];
    if (event.key === "Home") this.point(first);
    else if (event.key === "End") this.point(last);
    else if (by) {
      const now = this.place === null ? last : this.place;
      this.point(Math.round(Math.min(last, Math.max(first, now + by * (last - first) / 100))));
    } else return;
    event.preventDefault();
  }
}
