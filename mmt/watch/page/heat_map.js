// A heat map of languages and steps, or of languages and experts, on a canvas with names.

const VIRIDIS = [
  [68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137],
  [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37],
];
const PALETTE = Uint32Array.from({length: 256}, (_, place) => {
  const at = place / 255 * (VIRIDIS.length - 1);
  const before = Math.min(Math.floor(at), VIRIDIS.length - 2), part = at - before;
  const [red, green, blue] = [0, 1, 2].map(channel => Math.round(
    VIRIDIS[before][channel] * (1 - part) + VIRIDIS[before + 1][channel] * part));
  return 255 << 24 | blue << 16 | green << 8 | red;  // little-endian RGBA
});

/** Maps values to 0..255: by limits for all rows or per row, with better values brighter. */
class ColourScale {
  constructor(values, {better = "", log = false} = {}) {
    const finite = Float64Array.from(values, value => (log ? Math.log(Math.max(value, 1e-9)) : value))
      .filter(Number.isFinite).sort();
    const at = part => finite[Math.round(part * (finite.length - 1))];
    this.log = log;
    this.reversed = better === "lower";
    const some = finite.length > 50;  // single outliers must not hide the others
    this.low = finite.length ? at(some ? 0.02 : 0) : 0;
    this.high = finite.length ? at(some ? 0.98 : 1) : 1;
  }

  place(value) {
    const at = this.log ? Math.log(Math.max(value, 1e-9)) : value;
    const part = this.high > this.low ? (at - this.low) / (this.high - this.low) : 0.5;
    const place = Math.round(255 * Math.min(1, Math.max(0, part)));
    return this.reversed ? 255 - place : place;
  }

  get limits() { return [this.low, this.high].map(value => (this.log ? Math.exp(value) : value)); }

  legend(canvas, {better, unit, rows}) {
    const context = sized(canvas, 320, 34);
    for (let x = 0; x < 200; x++) {
      const place = Math.round(x / 199 * 255);
      const [red, green, blue] = rgb(PALETTE[this.reversed ? 255 - place : place]);
      context.fillStyle = `rgb(${red} ${green} ${blue})`;
      context.fillRect(60 + x, 2, 1.5, 13);
    }
    context.fillStyle = colour("text");
    context.textBaseline = "middle";
    const ends = rows ? ["least", "most"] : this.limits.map(number);
    context.textAlign = "right";
    context.fillText(rows ? ends[0] : `≤ ${ends[0]}`, 56, 9);
    context.textAlign = "left";
    context.fillText(rows ? ends[1] : `≥ ${ends[1]}`, 264, 9);
    context.fillStyle = colour("soft");
    context.textAlign = "center";
    const hint = {lower: "◀ better", higher: "better ▶"}[better] || "";
    const what = [unit, this.log ? "log scale" : "", hint].filter(Boolean).join(" · ");
    context.fillText(what, 160, 26);
    canvas.setAttribute("aria-label", `Colour scale from ${ends[0]} to ${ends[1]} ${what}`);
  }
}

function rgb(word) { return [word & 255, word >> 8 & 255, word >> 16 & 255]; }

/** A heat map. `rows`: {code, name, chosen, onset, marks}; `value(code, column)`; `edges` of the columns. */
class HeatMap {
  constructor({axis = short, columnText, rowChosen = () => {}, steps = () => {}, tell}) {
    Object.assign(this, {axis, columnText, rowChosen, tell});
    this.canvas = element("canvas", {tabIndex: 0});
    this.canvas.setAttribute("role", "application");
    this.frame = element("div", {className: "cell", hidden: true});  // no canvas is painted for a moving pointer
    this.scroller = element("div", {className: "rows"}, this.canvas, this.frame);
    this.ruler = element("canvas");
    this.ruler.setAttribute("aria-hidden", "true");
    this.heading = element("h3");
    this.box = element("div", {}, this.heading, this.scroller, this.ruler);
    this.cells = document.createElement("canvas");
    this.rows = [];
    this.cell = null;
    this.drag = chooseSteps(this.canvas, x => this.edgeAt(x), steps);
    this.canvas.addEventListener("pointermove", event => this.point(event));
    this.canvas.addEventListener("pointerleave", () => { tip.hide(); this.mark(null); });
    this.canvas.addEventListener("click", event => this.click(event));
    this.canvas.addEventListener("keydown", event => this.key(event));
    this.canvas.addEventListener("blur", () => this.mark(null));
  }

  /** domain: the first and last edge of the axis, which several maps may share. */
  set({rows, edges, domain, value, scaleOf, label}) {
    Object.assign(this, {rows, edges, value, scaleOf, domain: domain || [edges[0], edges[edges.length - 1]]});
    const known = this.cell && rows.some(({code}) => code === this.cell.code);
    if (!known || this.cell.column >= edges.length - 1) this.cell = null;
    this.canvas.setAttribute("aria-label", label);
    this.draw();
  }

  draw() {
    const width = Math.max(120, this.scroller.clientWidth);
    this.rowHeight = Math.max(3, Math.min(17, Math.floor(7500 / Math.max(this.rows.length, 1))));
    this.left = Math.min(150, Math.round(width * 0.34));
    this.width = width - this.left - 2;
    this.columns = Math.max(0, this.edges.length - 1);
    this.paintCells();
    this.paint();
    this.paintRuler(width);
  }

  columnAtPixel(x) {
    const [first, last] = this.domain;
    const step = first + (x + 0.5) / this.width * (last - first);
    if (step < this.edges[0] || step > this.edges[this.columns]) return -1;
    let low = 0, high = this.columns;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.edges[middle] < step) low = middle; else high = middle;
    }
    return low;
  }

  edgeAt(x) {
    const [first, last] = this.domain;
    return Math.round(first + Math.min(1, Math.max(0, (x - this.left) / this.width)) * (last - first));
  }

  paintCells() {
    const width = Math.max(1, Math.round(this.width)), height = Math.max(1, this.rows.length);
    this.cells.width = width;
    this.cells.height = height;
    if (!this.columns || !this.rows.length) return;
    const image = new ImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const column = Int32Array.from({length: width}, (_, x) => this.columnAtPixel(x));
    const inks = new Uint32Array(this.columns);
    this.rows.forEach(({code}, row) => {
      const scale = this.scaleOf(code);
      for (let place = 0; place < this.columns; place++) {
        const value = this.value(code, place);
        inks[place] = Number.isNaN(value) ? 0 : PALETTE[scale.place(value)];
      }
      for (let x = 0; x < width; x++) if (column[x] >= 0) pixels[row * width + x] = inks[column[x]];
    });
    this.cells.getContext("2d").putImageData(image, 0, 0);
  }

  paint() {
    const {rowHeight, left, width, rows} = this;
    const context = sized(this.canvas, left + width, Math.max(rowHeight, rows.length * rowHeight));
    context.fillStyle = colour("empty");
    context.fillRect(left, 0, width, rows.length * rowHeight);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.cells, left, 0, width, rows.length * rowHeight);
    context.textBaseline = "middle";
    context.textAlign = "right";
    const ink = colour("text"), accent = colour("accent");
    rows.forEach((row, place) => {
      const y = place * rowHeight;
      if (rowHeight >= 9) {
        context.fillStyle = row.chosen ? accent : ink;
        context.font = `${row.chosen ? "600 " : ""}11px system-ui, sans-serif`;
        context.fillText(fit(context, row.name, left - 16), left - 6, y + rowHeight / 2);
      }
      if (row.chosen) {
        context.fillStyle = accent;
        context.fillRect(0, y + 1, 3, rowHeight - 2);
      }
      if (row.onset !== undefined) this.paintOnset(context, row.onset, y);
      for (const {step, rule} of row.marks || []) this.paintDecision(context, step, rule, y);
    });
    this.placeMark();
  }

  paintOnset(context, onset, y) {
    const [first, last] = this.domain;
    if (onset < first || onset > last) return;
    const x = this.left + (onset - first) / (last - first) * this.width;
    context.fillStyle = "#000";
    context.fillRect(x - 2, y + 1, 4, this.rowHeight - 2);
    context.fillStyle = "#fff";
    context.fillRect(x - 1, y + 1, 2, this.rowHeight - 2);
  }

  /** A triangle that points to more or to less of the language. */
  paintDecision(context, step, rule, y) {
    const [first, last] = this.domain;
    if (step < first || step > last) return;
    const x = this.left + (step - first) / (last - first) * this.width, half = Math.min(5, this.rowHeight / 2);
    const [point, base] = rule === "enter" ? [y + 1, y + 2 * half - 1] : [y + 2 * half - 1, y + 1];
    context.beginPath();
    context.moveTo(x, point);
    context.lineTo(x - half, base);
    context.lineTo(x + half, base);
    context.closePath();
    context.fillStyle = "#fff";
    context.fill();
    context.strokeStyle = "#000";
    context.lineWidth = 1;
    context.stroke();
  }

  placeMark() {
    this.frame.hidden = !this.cell;
    if (!this.cell) return;
    const {code, column} = this.cell, row = this.rowOf(code);
    const [first, last] = this.domain;
    const x = this.left + (this.edges[column] - first) / (last - first) * this.width;
    const wide = Math.max(4, (this.edges[column + 1] - this.edges[column]) / (last - first) * this.width);
    this.frame.style.transform = `translate(${x}px, ${row * this.rowHeight}px)`;
    this.frame.style.width = `${wide}px`;
    this.frame.style.height = `${this.rowHeight}px`;
  }

  paintRuler(width) {
    const context = sized(this.ruler, width, 18);
    if (!this.columns) return;
    const [first, last] = this.domain;
    context.fillStyle = colour("soft");
    context.textBaseline = "top";
    const marks = this.axis === short ? ticks(first, last, Math.max(2, this.width / 110)) : this.axis(first, last);
    for (const mark of marks) {
      const [value, text] = Array.isArray(mark) ? mark : [mark, short(mark)];
      const x = this.left + (value - first) / (last - first) * this.width;
      context.textAlign = x > width - 24 ? "right" : "center";
      context.fillText(text, x, 4);
    }
  }

  mark(cell) {
    if (cell && this.cell && cell.code === this.cell.code && cell.column === this.cell.column) return;
    if (!cell && !this.cell) return;
    this.cell = cell;  // a language, not a row: the order may change
    this.placeMark();
  }

  rowOf(code) { return this.rows.findIndex(row => row.code === code); }

  text({code, column}) {
    const {name, onset, marks = []} = this.rows[this.rowOf(code)];
    const value = this.value(code, column);
    const over = onset === undefined ? "" : `\noverfits since step ${onset.toLocaleString("en")}`;
    const here = marks.filter(({step}) => step > this.edges[column] && step <= this.edges[column + 1]);
    const decided = here.map(({step, text}) => `\nstep ${step.toLocaleString("en")}: ${text}`).join("");
    return `${name} (${code})\n${this.columnText(column)}: ${number(value)}${over}${decided}`;
  }

  cellAt(event) {
    const row = Math.floor(event.offsetY / this.rowHeight);
    if (row < 0 || row >= this.rows.length || !this.columns) return null;
    const x = event.offsetX - this.left;
    const column = x < 0 ? this.columns - 1 : this.columnAtPixel(Math.min(x, this.width - 1));
    return column < 0 ? null : {code: this.rows[row].code, column};
  }

  point(event) {
    const cell = this.cellAt(event);
    this.mark(cell);
    if (cell) tip.show(this.text(cell), event.clientX, event.clientY);
    else tip.hide();
  }

  click(event) {
    if (this.drag.done) return;
    const cell = this.cellAt(event);
    if (cell) this.rowChosen(cell.code);
  }

  key(event) {
    if (!this.rows.length || !this.columns) return;
    let row = this.cell ? this.rowOf(this.cell.code) : 0;
    let column = this.cell ? this.cell.column : this.columns - 1;
    const move = {
      ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
      PageUp: [-20, 0], PageDown: [20, 0], Home: [0, -1e9], End: [0, 1e9],
    }[event.key];
    if (event.key === "Enter" || event.key === " ") this.rowChosen(this.rows[row].code);
    else if (move) {
      if (this.cell) [row, column] = [row + move[0], column + move[1]];
      row = Math.min(this.rows.length - 1, Math.max(0, row));
      column = Math.min(this.columns - 1, Math.max(0, column));
    } else return;
    event.preventDefault();
    this.mark({code: this.rows[row].code, column});
    this.tell(this.text(this.cell).replaceAll("\n", ", "));
    const top = row * this.rowHeight;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    const bottom = top + this.rowHeight - this.scroller.clientHeight;
    if (bottom > this.scroller.scrollTop) this.scroller.scrollTop = bottom;
  }
}

function fit(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let kept = text;
  while (kept && context.measureText(`${kept}…`).width > width) kept = kept.slice(0, -1);
  return `${kept}…`;
}
