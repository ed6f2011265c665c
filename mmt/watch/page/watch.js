// The page: its state, what it asks for, and when it draws.

const METRICS = {
  loss: ["Training loss", "nats per token", "lower"],
  validation_loss: ["Validation loss", "nats per token", "lower"],
  overfitting: ["Validation loss above its best", "nats per token", "lower"],
  bleu: ["BLEU (validation)", "", "higher"],
  source_use: ["Use of the source", "nats per token", "higher"],
  epochs: ["Epochs seen", "estimate", ""],
  share: ["Share of target tokens", "%", ""],
  rate: ["Mixing rate, consumed", "% of examples", ""],
};
const LOG = ["epochs", "share", "rate"];
const PAUSE = 2000;  // milliseconds between two updates at least
const byId = id => document.getElementById(id);

const exported = byId("data").textContent.trim();
const source = exported ? new Exported(JSON.parse(exported)) : new Server();
const state = {metric: "", order: "value", scale: "shared", filter: "", chosen: null, steps: null, layer: "", sample: ""};
let runs = [], heatGrids = [], curveGrids = [], totals = [], samples = [];
let heatMaps = [], expertMaps = [], mixingPlots = [];
const totalCharts = new Map();
const curveChart = new Chart("", {height: 300, steps: zoom});
byId("curves").append(curveChart.box);

// ---- state in the address, so that a reload keeps it

function remember() {
  const kept = {metric: state.metric, order: state.order, scale: state.scale};
  if (state.chosen) kept.languages = state.chosen.join(",");
  if (state.steps) kept.steps = state.steps.join("-");
  history.replaceState(null, "", `#${new URLSearchParams(kept)}`);
}

function recall() {
  const kept = new URLSearchParams(location.hash.slice(1));
  for (const name of ["metric", "order", "scale"]) if (kept.get(name)) state[name] = kept.get(name);
  if (kept.has("languages")) state.chosen = kept.get("languages").split(",").filter(Boolean);
  const steps = (kept.get("steps") || "").match(/^(\d+)-(\d+)$/);
  if (steps) state.steps = [Number(steps[1]), Number(steps[2])];
  for (const name of ["order", "scale"]) {
    byId(name).value = state[name];
    if (byId(name).selectedIndex < 0) state[name] = byId(name).value = byId(name).options[0].value;
  }
}

// ---- asking

let running = false, again = false, last = 0;

async function update() {
  if (running) { again = true; return; }
  running = true;
  try {
    const begun = performance.now();
    await load();
    draw();
    document.documentElement.dataset.milliseconds = Math.round(performance.now() - begun);
    document.documentElement.dataset.updates = Number(document.documentElement.dataset.updates || 0) + 1;
  } catch (error) {
    byId("connection").textContent = `no answer: ${error.message}`;
  }
  running = false;
  last = performance.now();
  if (again) { again = false; setTimeout(update, PAUSE); }
}

/** An update because of news: not more often than every `PAUSE`, and not where nobody looks. */
function news() {
  if (document.hidden) { again = true; return; }
  if (running || performance.now() - last < PAUSE) {
    if (!again) { again = true; if (!running) setTimeout(() => { again = false; update(); }, PAUSE); }
    return;
  }
  update();
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && again && !running) { again = false; update(); }
});

async function load() {
  runs = await source.overviews();
  for (const run of runs) run.byCode = new Map(run.languages.map(row => [row.code, row]));
  const known = Object.keys(METRICS).filter(name => runs.some(run => run.metrics.includes(name)));
  if (!known.includes(state.metric)) state.metric = known[0] || "";
  if (state.chosen === null && known.length) state.chosen = suggested();
  const shown = await Promise.all(runs.map((run, place) => loadRun(run, place)));
  heatGrids = shown.map(each => each.heat);
  curveGrids = shown.map(each => each.curves);
  totals = shown.map(each => each.totals);
  samples = shown.map(each => each.samples);
  fillMetrics(known);
}

async function loadRun(run, place) {
  const logged = run.metrics.includes(state.metric);
  const columns = Math.max(60, Math.min(600, Math.round(byId("heat").clientWidth / runs.length)));
  const codes = (state.chosen || []).filter(code => run.byCode.has(code));
  const [heat, curves, numbers, lines] = await Promise.all([
    logged ? source.series(place, state.metric, columns, state.steps) : null,
    logged && codes.length ? source.series(place, state.metric, 500, state.steps, codes) : null,
    source.totals(place, 300, state.steps),
    source.samples(place, sampleCodes()),
  ]);
  return {heat, curves, totals: numbers, samples: lines};
}

/** Languages to begin with: some that overfit, the largest and the smallest. */
function suggested() {
  const over = runs.flatMap(run => run.warnings).filter(each => each.kind === "overfitting").map(each => each.language);
  const every = new Map(runs.flatMap(run => run.languages).map(row => [row.code, row]));
  const rows = [...every.values()].sort((a, b) => (b.pairs || 0) - (a.pairs || 0)).map(row => row.code);
  return [...new Set([...over.slice(0, 2), ...rows.slice(0, 2), ...rows.slice(-2)])].slice(0, 5);
}

/** The languages whose translations are shown: the chosen ones, or some. */
function sampleCodes() {
  if (state.chosen && state.chosen.length) return state.chosen;
  return runs[0].languages.slice(0, 5).map(({code}) => code);
}

function fillMetrics(known) {
  const select = byId("metric");
  if ([...select.options].map(option => option.value).join() !== known.join())
    select.replaceChildren(...known.map(name => element("option", {value: name, textContent: METRICS[name][0]})));
  if (!known.length) select.replaceChildren(element("option", {value: "", textContent: "no values yet"}));
  select.value = state.metric;
}

// ---- drawing

/** The rows of all runs in the chosen order, those that match the filter. */
function languageRows() {
  const rows = new Map();
  for (const run of runs) for (const row of run.languages) {
    const known = rows.get(row.code);
    if (!known) rows.set(row.code, {...row});
    else if (row.onset !== undefined) known.onset = Math.min(row.onset, known.onset ?? Infinity);
  }
  const sought = state.filter.toLowerCase();
  const kept = [...rows.values()].filter(({name, native, code}) =>
    !sought || `${name} ${native} ${code}`.toLowerCase().includes(sought));
  const sign = (METRICS[state.metric] || [])[2] === "lower" ? -1 : 1;
  const value = row => {
    const grid = heatGrids.find(each => each && each.rows.has(row.code));
    return grid ? grid.latest(row.code) : NaN;
  };
  const keys = {
    value: row => sign * value(row), name: () => 0, pairs: row => -(row.pairs ?? 0),
    onset: row => row.onset ?? Infinity,
  }[state.order];
  const keyed = kept.map(row => [keys(row), row]);
  keyed.sort(([a, one], [b, other]) => {
    if (Number.isNaN(a) !== Number.isNaN(b)) return Number.isNaN(a) ? 1 : -1;
    return (a < b ? -1 : a > b ? 1 : 0) || one.name.localeCompare(other.name);
  });
  return keyed.map(([, row]) => row);
}

function draw() {
  const rows = languageRows();
  byId("runs").replaceChildren(...runCards(runs));
  showWarnings(runs, choose);
  showDecisions(runs, choose);
  showMissing(runs);
  drawHeat(rows);
  drawCurves();
  drawTotals();
  drawMixing(rows);
  drawExperts(rows);
  drawSamples();
  drawTable(rows);
  drawControls(rows);
}

function drawControls(rows) {
  const end = Math.max(0, ...runs.map(run => run.step));
  const [first, final] = state.steps || [0, end];
  for (const [id, value] of [["first", first], ["last", final]])
    if (document.activeElement !== byId(id)) byId(id).value = value;
  byId("whole").disabled = !state.steps;
  const codes = byId("codes");
  if (codes.childElementCount !== rows.length && !state.filter)
    codes.replaceChildren(...rows.map(({name, code}) => element("option", {value: `${name} (${code})`})));
}

function drawHeat(rows) {
  const [label, unit, better] = METRICS[state.metric] || ["", "", ""];
  byId("heat-title").textContent = label ? `${label} by language over time` : "Languages over time";
  if (heatMaps.length !== runs.length) {
    heatMaps = runs.map((run, place) => new HeatMap({
      columnText: column => steps(heatGrids[place].edges, column),
      rowChosen: toggle, steps: zoom, tell: text => { byId("cell").textContent = text; },
    }));
    byId("heat").replaceChildren(...heatMaps.map(map => map.box));
    for (const map of heatMaps) map.scroller.addEventListener("scroll", () => {
      for (const other of heatMaps) if (other !== map) other.scroller.scrollTop = map.scroller.scrollTop;
    });
  }
  const end = Math.max(1, ...runs.map(run => run.step));
  const options = {better, log: LOG.includes(state.metric)};
  const values = heatGrids.flatMap(grid => (grid ? valuesOf(grid, rows.map(({code}) => code)) : []));
  const shared = new ColourScale(values, options);
  const perRow = new Map();
  const scaleOf = code => {
    if (state.scale === "shared") return shared;
    if (!perRow.has(code)) {
      const own = heatGrids.flatMap(grid => (grid ? valuesOf(grid, [code]) : []));
      perRow.set(code, new ColourScale(own, options));
    }
    return perRow.get(code);
  };
  shared.legend(byId("legend"), {better, unit, rows: state.scale === "row"});
  byId("legend").hidden = !values.length;
  heatMaps.forEach((map, place) => {
    const grid = heatGrids[place], run = runs[place];
    map.heading.replaceChildren(lineMark(place, ink(place)), run.name,
      grid && grid.columns ? "" : element("span", {className: "none", textContent: grid ? "no row yet" : "no values: see Not logged"}));
    map.scroller.hidden = map.ruler.hidden = !grid || !grid.columns;
    if (!grid) return;
    const shown = rows.filter(({code}) => run.byCode.has(code)).map(row => ({
      code: row.code, name: row.name, onset: run.byCode.get(row.code).onset, marks: decisionsOn(run, row.code),
      chosen: (state.chosen || []).includes(row.code),
    }));
    map.set({
      rows: shown, edges: grid.edges, domain: state.steps || [0, end], value: (code, column) => grid.value(code, column), scaleOf,
      label: `${label} of ${shown.length} languages of ${run.name}, up to step ${run.step}. Arrow keys move, Enter draws a curve.`,
    });
  });
}

/** All values of some languages. */
function valuesOf(grid, codes) {
  const values = [];
  for (const code of codes) for (let column = 0; column < grid.columns; column++) {
    const value = grid.value(code, column);
    if (!Number.isNaN(value)) values.push(value);
  }
  return values;
}

function steps(edges, column) {
  const [after, to] = [edges[column], edges[column + 1]].map(step => step.toLocaleString("en"));
  return `after step ${after}, up to ${to}`;
}

function drawCurves() {
  const [label, unit] = METRICS[state.metric] || ["", ""];
  const chosen = state.chosen || [];
  curveChart.name(label, unit);
  const curves = [];
  runs.forEach((run, place) => {
    const grid = curveGrids[place];
    if (!grid) return;
    chosen.forEach((code, number) => {
      if (!grid.rows.has(code)) return;
      const name = nameOf(run, code);
      curves.push({
        name: runs.length > 1 ? `${name}, ${run.name}` : name, grid, code, dash: DASHES[place % DASHES.length],
        colour: ink(number), onset: run.byCode.get(code).onset, marks: decisionsOn(run, code),
      });
    });
  });
  byId("curves").hidden = !curves.length;
  byId("no-curves").hidden = curves.length > 0;
  byId("no-curves").textContent = !label ? "no values: see Not logged"
    : chosen.length ? `${label} of these languages is not logged` : "Click languages in the heat map, or add them here.";
  curveChart.set(curves, state.steps);
  const buttons = chosen.map((code, place) => {
    const run = runs.find(each => each.byCode.has(code));
    const dot = element("i");
    dot.style.background = ink(place);
    const name = run ? nameOf(run, code) : code;
    return element("button", {type: "button", title: "remove the curve", onclick: () => toggle(code)}, dot, name, " ×");
  });
  const marks = runs.length > 1 ? runs.map((run, place) => element("span", {className: "where"}, lineMark(place), ` ${run.name}`)) : [];
  byId("chosen").replaceChildren(...buttons, ...marks);
}

function drawTotals() {
  const names = totalNames(totals);
  for (const name of names) if (!totalCharts.has(name)) {
    const chart = new Chart("", {height: 130, steps: zoom});
    const [title, unit] = TOTALS[name] || LAST[name] || [name.replaceAll("_", " "), ""];
    chart.name(title, unit);
    totalCharts.set(name, chart);
  }
  const boxes = names.map(name => totalCharts.get(name).box);
  const old = [...byId("totals").children];
  if (boxes.length !== old.length || boxes.some((box, place) => box !== old[place])) byId("totals").replaceChildren(...boxes);
  for (const name of names) {
    const curves = totals.flatMap((each, place) => (each.has(name)
      ? [{name: runs[place].name, grid: each.get(name), code: "", colour: ink(place), dash: DASHES[place % DASHES.length]}] : []));
    totalCharts.get(name).set(curves, state.steps);
  }
  if (!names.length) byId("totals").replaceChildren(element("p", {className: "none", textContent: "no row yet"}));
}

function drawMixing(rows) {
  if (mixingPlots.length !== runs.length) {
    mixingPlots = runs.map(() => new MixingPlot());
    byId("mixing").replaceChildren(...mixingPlots.map(plot => plot.box));
  }
  mixingPlots.forEach((plot, place) => {
    const run = runs[place];
    const known = rows.map(({code}) => run.byCode.get(code)).filter(Boolean);
    if (state.order !== "name") known.sort((a, b) => (b.planned || 0) - (a.planned || 0));
    plot.scroller.hidden = plot.ruler.hidden = run.ledger_step === null;
    plot.set(run, known);
    if (run.ledger_step === null) plot.heading.append(element("span", {className: "none", textContent: "no values: see Not logged"}));
  });
}

function drawExperts(rows) {
  const layers = [...new Set(runs.flatMap(run => Object.keys(run.expert_load ? run.expert_load.layers : {})))];
  byId("layer-label").hidden = byId("experts-hint").hidden = !layers.length;
  if (!layers.includes(state.layer)) state.layer = layers[0] || "";
  byId("layer").replaceChildren(...layers.map(name => element("option", {value: name, textContent: name})));
  byId("layer").value = state.layer;
  if (!layers.length) {
    expertMaps = [];
    byId("experts").replaceChildren(element("p", {className: "none", textContent: "no values: see Not logged"}));
    return;
  }
  if (expertMaps.length !== runs.length) {
    expertMaps = runs.map(() => new HeatMap({
      axis: (first, last) => Array.from({length: last}, (_, expert) => [expert + 0.5, `${expert}`]).filter((_, expert) => expert % Math.ceil(last / 16) === 0),
      columnText: column => `share of expert ${column}, %`, tell: text => { byId("expert-cell").textContent = text; },
    }));
    byId("experts").replaceChildren(...expertMaps.map(map => map.box));
  }
  expertMaps.forEach((map, place) => {
    const run = runs[place], table = run.expert_load && run.expert_load.layers[state.layer];
    map.heading.replaceChildren(run.name, table ? `, step ${run.expert_load.step.toLocaleString("en")}` : ": no values: see Not logged");
    map.scroller.hidden = map.ruler.hidden = !table;
    if (!table) return;
    const shares = new Map(Object.entries(table).map(([code, load]) => {
      const sum = load.reduce((a, b) => a + b, 0);
      return [code, load.map(count => (sum ? 100 * count / sum : NaN))];
    }));
    const experts = Object.values(table)[0].length;
    const scale = new ColourScale([0, ...[...shares.values()].flat()]);
    map.set({
      rows: rows.filter(({code}) => shares.has(code)).map(({code, name}) => ({code, name})),
      edges: Array.from({length: experts + 1}, (_, expert) => expert),
      value: (code, expert) => shares.get(code)[expert], scaleOf: () => scale,
      label: `Share of each expert by language, ${state.layer} of ${run.name}`,
    });
  });
}

function drawSamples() {
  const all = [...new Set(samples.flatMap(each => each.map(({step}) => step)))].sort((a, b) => b - a);
  byId("sample-label").hidden = !all.length;
  if (!all.includes(Number(state.sample))) state.sample = "";
  const select = byId("sample-step");
  select.replaceChildren(element("option", {value: "", textContent: "latest"}),
    ...all.map(step => element("option", {value: step, textContent: step.toLocaleString("en")})));
  select.value = state.sample;
  if (!all.length) {
    byId("samples").replaceChildren(element("p", {className: "none", textContent: "no values: see Not logged"}));
    return;
  }
  const wanted = sampleCodes();
  const lines = runs.flatMap((run, place) => {
    const merged = {};  // a validation may translate some of the languages only
    for (const each of samples[place])
      if (!state.sample || each.step <= Number(state.sample)) Object.assign(merged, each.samples);
    return sampleRows(run, merged, wanted, runs.length > 1);
  });
  byId("samples").replaceChildren(...(lines.length ? lines
    : [element("p", {className: "none", textContent: "no translation of the chosen languages: choose others in the heat map"})]));
}

function drawTable(rows) {
  if (byId("values").open) showTable(runs, rows, (METRICS[state.metric] || [""])[0], heatGrids);
}

// ---- what people do

function toggle(code) {
  const chosen = state.chosen || [];
  state.chosen = chosen.includes(code) ? chosen.filter(each => each !== code) : [...chosen, code];
  remember();
  update();
}

function choose(code) {
  if (!(state.chosen || []).includes(code)) toggle(code);
  byId("curves-title").scrollIntoView({block: "nearest"});
}

function zoom(steps) {
  state.steps = steps && steps[1] > steps[0] ? steps : null;
  remember();
  update();
}

for (const name of ["metric", "order", "scale"]) byId(name).addEventListener("change", event => {
  state[name] = event.target.value;
  remember();
  if (name === "metric") update(); else draw();
});
byId("layer").addEventListener("change", event => { state.layer = event.target.value; draw(); });
byId("sample-step").addEventListener("change", event => { state.sample = event.target.value; draw(); });
byId("filter").addEventListener("input", event => { state.filter = event.target.value; draw(); });
for (const id of ["first", "last"]) byId(id).addEventListener("change", () => {
  zoom([Number(byId("first").value), Number(byId("last").value)]);
});
byId("whole").addEventListener("click", () => zoom(null));
byId("none").addEventListener("click", () => { state.chosen = []; remember(); update(); });
byId("add").addEventListener("change", event => {
  const sought = event.target.value.trim().toLowerCase();
  const row = runs.flatMap(run => run.languages).find(({name, native, code}) =>
    [name, native, code, `${name} (${code})`].some(each => each.toLowerCase() === sought));
  if (!row) return;
  event.target.value = "";
  if (!(state.chosen || []).includes(row.code)) toggle(row.code);
});
byId("values").addEventListener("toggle", () => drawTable(languageRows()));
byId("theme").addEventListener("click", () => {
  const dark = colour("page") !== "#f4f5f9";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  byId("theme").textContent = dark ? "Dark" : "Light";
  draw();
});
let resized = 0;
window.addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(draw, 150); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
byId("theme").textContent = matchMedia("(prefers-color-scheme: dark)").matches ? "Light" : "Dark";

recall();
if (source.live) {
  source.follow(news, alive => {
    byId("connection").textContent = alive ? "follows the files" : "no answer from mmt watch; trying again";
  });
} else {
  byId("connection").textContent = `as of ${source.date}`;
}
update();
