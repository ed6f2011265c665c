// The parts of the page that are neither heat map nor curves: runs, warnings, mixing, samples, table.

const NUMBERS = [
  ["nll", "training loss"], ["validation_loss", "validation loss"], ["bleu", "BLEU"],
  ["tokens_per_second", "tokens/s"], ["data_wait", "waiting"],
];
const TOTALS = {
  nll: ["Training loss", "nats per token"], loss: ["Smoothed training loss", "nats per token, with label smoothing"],
  validation_loss: ["Validation loss", "nats per token, mean of languages"],
  bleu: ["BLEU", "mean of languages"], accuracy: ["Accuracy", "of target tokens"],
  tokens_per_second: ["Throughput", "tokens per second"],
  data_wait: ["Waiting for data", "part of the time"], source_use: ["Use of the source", "nats per token"],
  gradient_norm: ["Gradient norm", ""], skipped: ["Skipped steps", "per row"],
  moe_dropped: ["Tokens without an expert", "part of the tokens"],
  moe_least_load: ["Least used expert", "load, 1 is an even share"],
  moe_load_entropy: ["Balance of experts", "entropy of the load, 1 is even"],
  moe_aux_loss: ["Load-balancing loss", "of the experts, 1 is even"],
  moe_z_loss: ["Router z-loss", "of the experts"],
  moe_gate: ["Gate of the experts", "mean over tokens"], moe_budget_loss: ["Budget loss of the gate", ""],
  alignment_loss: ["Loss of guided attention", "nats per aligned token"],
  teacher_loss: ["Loss to the teacher", "nats per token"],
};
const LAST = {
  tokens: ["Tokens", "of both sides, since the row before"], target_tokens: ["Target tokens", "since the row before"],
  validation_tokens: ["Validation tokens", "target tokens of a validation"],
  seconds: ["Time", "seconds since the row before"],
};

function lineMark(run, colour = "currentColor") {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("width", 28);
  svg.setAttribute("height", 8);
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(svg.namespaceURI, "line");
  for (const [name, value] of Object.entries({
    x1: 1, x2: 27, y1: 4, y2: 4, stroke: colour, "stroke-width": 2.5,
    "stroke-dasharray": DASHES[run % DASHES.length].join(" ") || "none",
  })) line.setAttribute(name, value);
  svg.append(line);
  return svg;
}

function ago(seconds) {
  if (seconds === null) return "no row yet";
  if (seconds < 90) return `last row ${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `last row ${Math.round(seconds / 60)} min ago`;
  if (seconds < 172800) return `last row ${Math.round(seconds / 3600)} h ago`;
  return `last row ${Math.round(seconds / 86400)} days ago`;
}

function runCards(runs) {
  return runs.map((run, place) => {
    const stopped = run.warnings.some(warning => warning.kind === "stopped");
    const over = stopped || (run.steps && run.step >= run.steps);
    const state = over ? (stopped ? "stopped" : "finished") : ago(run.age);
    const name = element("div", {className: "run-name"}, lineMark(place, ink(place)), run.name);
    const steps = run.steps ? ` of ${run.steps.toLocaleString("en")}` : "";
    const values = [["step", `${run.step.toLocaleString("en")}${steps}`], ["state", state]];
    const smoothed = run.latest.nll === undefined ? [["loss", "smoothed training loss"]] : [];
    for (const [field, label] of [...smoothed, ...NUMBERS]) {
      const value = run.latest[field];
      if (value !== undefined) values.push([label, field === "data_wait" ? `${(100 * value).toFixed(1)} %` : number(value)]);
    }
    const list = element("dl", {className: "numbers"}, ...values.map(([label, value]) =>
      element("div", {}, element("dt", {textContent: label}), element("dd", {textContent: value}))));
    const bar = run.steps ? [element("progress", {max: run.steps, value: run.step, ariaLabel: "steps done"})] : [];
    const reading = run.progress < 1
      ? [element("p", {className: "none", textContent: `reading ${run.directory}: ${Math.round(100 * run.progress)} %`})] : [];
    const faults = run.faults.map(text => element("p", {className: "fault", textContent: text}));
    return element("div", {className: "card"}, name, element("div", {className: "where", textContent: run.directory}),
      list, ...bar, ...reading, ...faults);
  });
}

function showWarnings(runs, choose) {
  const box = document.getElementById("warnings");
  const items = [];
  const kinds = new Map();
  runs.forEach(run => run.warnings.forEach(({kind, language, text}) => {
    kinds.set(kind, (kinds.get(kind) || 0) + 1);
    const item = element("li", {}, element("span", {className: "kind", textContent: kind}),
      runs.length > 1 ? `${run.name}: ${text}` : text);
    if (language) item.append(element("button", {type: "button", textContent: "curve", onclick: () => choose(language)}));
    items.push(item);
  }));
  box.hidden = !items.length;
  const counts = [...kinds].map(([kind, count]) => `${count} ${kind}`).join(", ");
  box.querySelector("summary").textContent = `${items.length} warning${items.length === 1 ? "" : "s"}: ${counts}`;
  box.querySelector("ul").replaceChildren(...items);
}

/** The decisions on a language: {step, rule, text}. */
function decisionsOn(run, code) {
  return run.decisions.filter(each => (each.languages || []).includes(code));
}

/** The last decisions of all runs, the latest first. */
function showDecisions(runs, choose) {
  const box = document.getElementById("decisions");
  const every = runs.flatMap(run => run.decisions.map(each => ({...each, run: run.name})));
  every.sort((a, b) => b.step - a.step);
  const items = every.slice(0, 500).map(({step, rule, text, languages, run}) => {
    const item = element("li", {}, element("span", {className: "kind", textContent: `step ${step.toLocaleString("en")} ${rule}`}),
      runs.length > 1 ? `${run}: ${text}` : text);
    if (languages && languages.length)
      item.append(element("button", {type: "button", textContent: "curve", onclick: () => choose(languages[0])}));
    return item;
  });
  box.hidden = !items.length;
  box.querySelector("summary").textContent = `${every.length} decision${every.length === 1 ? "" : "s"} on the data` +
    (every.length > items.length ? `, the last ${items.length}` : "");
  box.querySelector("ul").replaceChildren(...items);
}

function showMissing(runs) {
  const box = document.getElementById("missing");
  const of = new Map();
  for (const run of runs) for (const text of run.missing) of.set(text, [...(of.get(text) || []), run.name]);
  const items = [...of].map(([text, names]) => element("li", {
    textContent: names.length < runs.length ? `${names.join(", ")}: ${text}` : text}));
  box.hidden = !items.length;
  box.querySelector("ul").replaceChildren(...items);
}

/** Names of the numbers of whole runs, the known ones first. */
function totalNames(totals) {
  const names = new Set(totals.flatMap(each => [...each.keys()]));
  const known = Object.keys(TOTALS).filter(name => names.has(name));
  const others = [...names].filter(name => !(name in TOTALS) && !(name in LAST)).sort();
  return [...known, ...others, ...Object.keys(LAST).filter(name => names.has(name))];
}

/** Draws planned (ring) and consumed (dot) shares of the languages of a run. */
class MixingPlot {
  constructor(tell) {
    this.canvas = element("canvas", {tabIndex: 0});
    this.canvas.setAttribute("role", "img");
    this.heading = element("h3");
    this.scroller = element("div", {className: "rows"}, this.canvas);
    this.ruler = element("canvas");
    this.ruler.setAttribute("aria-hidden", "true");
    this.box = element("div", {}, this.heading, this.scroller, this.ruler);
    this.canvas.addEventListener("pointermove", event => {
      const row = this.rows[Math.floor(event.offsetY / 17)];
      if (row) tip.show(this.text(row), event.clientX, event.clientY); else tip.hide();
    });
    this.canvas.addEventListener("pointerleave", () => tip.hide());
    this.rows = [];
  }

  text(row) {
    const share = value => `${(100 * value).toPrecision(3)} %`;
    return `${row.name} (${row.code})\nplanned ${share(row.planned)}, consumed ${share(row.consumed)}` +
      `\n${row.examples.toLocaleString("en")} examples, ${number(row.epochs)} epochs`;
  }

  set(run, rows) {
    this.rows = rows.filter(row => row.planned !== undefined);
    this.heading.replaceChildren(run.name, run.ledger_step === null ? "" : `, up to step ${run.ledger_step.toLocaleString("en")}`);
    this.draw();
  }

  draw() {
    const width = Math.max(120, this.scroller.clientWidth), left = Math.min(150, Math.round(width * 0.34));
    const context = sized(this.canvas, width - 2, Math.max(17, this.rows.length * 17));
    const shares = this.rows.flatMap(row => [row.planned, row.consumed]).filter(share => share > 0);
    const low = Math.log10(Math.min(1, ...shares) * 0.7), high = Math.log10(Math.max(1e-6, ...shares) * 1.3);
    const x = share => left + 10 + (Math.log10(Math.max(share, 1e-9)) - low) / (high - low) * (width - left - 26);
    const text = colour("text"), line = colour("line"), accent = colour("accent");
    context.textBaseline = "middle";
    context.textAlign = "right";
    this.rows.forEach((row, place) => {
      const y = place * 17 + 8.5;
      context.fillStyle = text;
      context.fillText(fit(context, row.name, left - 12), left - 4, y);
      context.strokeStyle = line;
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(x(row.planned), y);
      context.lineTo(Math.max(left, x(row.consumed)), y);
      context.stroke();
      context.strokeStyle = text;
      context.lineWidth = 1.4;
      context.beginPath();
      context.arc(x(row.planned), y, 4.5, 0, 7);
      context.stroke();
      context.fillStyle = accent;
      context.beginPath();
      context.arc(Math.max(left, x(row.consumed)), y, 2.7, 0, 7);
      context.fill();
    });
    this.paintRuler(width, x, low, high);
    const far = this.rows.map(row => Math.abs(Math.log2((row.consumed || 1e-9) / (row.planned || 1e-9))));
    this.canvas.setAttribute("aria-label", `Planned and consumed shares of ${this.rows.length} languages; ` +
      `${far.filter(each => each > 0.5).length} differ by over 40 %. The table below has the numbers.`);
  }

  paintRuler(width, x, low, high) {
    const context = sized(this.ruler, width, 34);
    context.fillStyle = colour("soft");
    context.textAlign = "center";
    context.textBaseline = "top";
    let end = 0;  // of the text before
    for (let power = Math.floor(low); power <= high; power++) for (const factor of [1, 2, 5]) {
      const share = factor * 10 ** power, text = `${+(100 * share).toPrecision(1)} %`;
      if (Math.log10(share) < low || Math.log10(share) > high || x(share) - 20 < end) continue;
      context.fillText(text, x(share), 3);
      end = x(share) + 20;
    }
    context.textAlign = "left";
    context.fillText("○ planned   ● consumed   (part of the examples, log scale)", 4, 19);
  }
}

function sampleRows(run, samples, codes, several) {
  const rows = [];
  for (const code of codes) {
    for (const [source, translation, reference] of samples[code] || []) {
      const cell = (label, text) => element("div", {dir: "auto"}, element("small", {textContent: label}), text);
      rows.push(element("div", {className: "sample"},
        element("div", {}, nameOf(run, code), element("small", {textContent: several ? `${run.name} · ${code}` : code})),
        cell("source", source), cell("translation", translation || "(empty)"), cell("reference", reference)));
    }
  }
  return rows;
}

function nameOf(run, code) {
  const row = run.languages.find(each => each.code === code);
  return row ? row.name : code;
}

function showTable(runs, rows, label, grids) {
  const several = runs.length > 1;
  const heads = ["language", "code"];
  for (const run of runs) {
    const of = several ? ` · ${run.name}` : "";
    heads.push(`pairs${of}`, `planned${of}`, `consumed${of}`, `epochs${of}`, `${label}${of}`, `overfits since${of}`);
  }
  const percent = value => (value === undefined ? "–" : `${(100 * value).toPrecision(3)} %`);
  const whole = value => (value === undefined || value === null ? "–" : value.toLocaleString("en"));
  const body = rows.map(({code, name}) => {
    const cells = [name, code];
    runs.forEach((run, place) => {
      const row = run.byCode.get(code) || {};
      const grid = grids[place];
      cells.push(whole(row.pairs), percent(row.planned), percent(row.consumed), number(row.epochs),
        grid ? number(grid.latest(code)) : "–", row.onset === undefined ? "" : whole(row.onset));
    });
    return element("tr", {}, ...cells.map(text => element("td", {textContent: text})));
  });
  const table = document.querySelector("#values table");
  table.tHead.replaceChildren(element("tr", {}, ...heads.map(text => element("th", {textContent: text, scope: "col"}))));
  table.tBodies[0].replaceChildren(...body);
}
