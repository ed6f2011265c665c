// Where the page gets its data: from the server, or from what was exported into this file.

const EMPTY = 65535;
const PARTS = ["mean", "low", "high"];

/** Numbers by row (a language) and column (a bin of steps), as `Bins.as_json` writes them. */
class Grid {
  constructor(content) {
    this.edges = content.edges;
    this.columns = Math.max(0, content.edges.length - 1);
    this.languages = content.languages || [""];
    this.rows = new Map(this.languages.map((code, row) => [code, row]));
    this.least = content.least;
    this.step = (content.most - content.least) / (EMPTY - 1);
    for (const part of PARTS) if (content[part]) this[part] = numbers(content[part]);
  }

  /** The value of a language in a column, NaN if there is none. */
  value(code, column, part = "mean") {
    const row = this.rows.get(code);
    if (row === undefined || column < 0 || column >= this.columns) return NaN;
    const number = (this[part] || this.mean)[row * this.columns + column];
    return number === EMPTY ? NaN : this.least + number * this.step;
  }

  /** The latest value of a language. */
  latest(code) {
    for (let column = this.columns - 1; column >= 0; column--) {
      const value = this.value(code, column);
      if (!Number.isNaN(value)) return value;
    }
    return NaN;
  }

  /** The column of a step: edges[column] < step <= edges[column + 1]; -1 if there is none. */
  columnOf(step) {
    let low = 0, high = this.columns;
    if (!high || step < this.edges[0] || step > this.edges[high]) return -1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.edges[middle] < step) low = middle; else high = middle;
    }
    return low;
  }
}

function numbers(text) {
  const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  return new Uint16Array(bytes.buffer);
}

/** The data of a server that follows the runs. */
class Server {
  live = true;

  async ask(path, query = {}) {
    const response = await fetch(`api/${path}?${new URLSearchParams(query)}`);
    const content = await response.json();
    if (!response.ok) throw new Error(content.error);
    return content;
  }

  overviews() { return this.ask("runs"); }

  async series(run, metric, columns, steps, codes) {
    const query = {run, metric, columns, ...limits(steps)};
    if (codes) Object.assign(query, {languages: codes.join(","), bands: 1});
    return new Grid(await this.ask("series", query));
  }

  async totals(run, columns, steps) {
    const content = await this.ask("totals", {run, columns, ...limits(steps)});
    return new Map(Object.entries(content).map(([name, part]) => [name, new Grid(part)]));
  }

  samples(run, codes) { return this.ask("samples", {run, languages: codes.join(",")}); }

  /** Calls `changed` when there is news, and `state` with whether the server answers. */
  follow(changed, state) {
    const events = new EventSource("api/events");
    events.onopen = () => state(true);
    events.onerror = () => state(false);
    events.onmessage = event => changed(JSON.parse(event.data));
  }
}

function limits(steps) {
  return steps ? {first: steps[0], last: steps[1]} : {};
}

/** The data in an exported file. */
class Exported {
  live = false;

  constructor(content) { this.date = content.date; this.runs = content.runs; }

  async overviews() { return this.runs.map(run => run.overview); }
  async series(run, metric, columns, steps) { return cut(this.runs[run].series[metric], steps); }
  async samples(run) { return this.runs[run].samples; }
  async totals(run, columns, steps) {
    const parts = Object.entries(this.runs[run].totals);
    return new Map(parts.map(([name, part]) => [name, cut(part, steps)]));
  }
  follow() {}
}

/** The columns of a grid that lie between two steps. */
function cut(content, steps) {
  const grid = new Grid(content);
  if (!steps) return grid;
  const kept = [];
  for (let column = 0; column < grid.columns; column++)
    if (grid.edges[column + 1] >= steps[0] && grid.edges[column] < steps[1]) kept.push(column);
  const before = grid.columns;
  for (const part of PARTS) {
    const whole = grid[part];
    if (!whole) continue;
    grid[part] = new Uint16Array(kept.length * grid.languages.length);
    for (let row = 0; row < grid.languages.length; row++)
      kept.forEach((column, place) => {
        grid[part][row * kept.length + place] = whole[row * before + column];
      });
  }
  grid.edges = kept.length ? [grid.edges[kept[0]], ...kept.map(column => grid.edges[column + 1])] : [0];
  grid.columns = kept.length;
  return grid;
}
