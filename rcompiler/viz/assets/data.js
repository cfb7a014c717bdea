// What the page carries, as typed arrays, and how things are found in it. No drawing here.

// Of a reason; an event's number otherwise.
const ORDER = -1, LAUNCH = -2, BARRIER = -3, END = -4, TAKE = -5,
  SIGNAL = -6;
const TYPES = { f8: Float64Array, i4: Int32Array };

/** A column: its type and the base64 text of its little-endian bytes. */
function column([type, text]) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new TYPES[type](bytes.buffer);
}

/** Rows by key: rows of key k are items[first[k]] .. items[first[k + 1] - 1], in their order. */
function group(keys, count) {
  const first = new Int32Array(count + 1);
  for (const key of keys) if (key >= 0) first[key + 1]++;
  for (let k = 0; k < count; k++) first[k + 1] += first[k];
  const items = new Int32Array(first[count]);
  const at = first.slice();
  keys.forEach((key, row) => { if (key >= 0) items[at[key]++] = row; });
  return { of: key => items.subarray(first[key], first[key + 1]) };
}

/** The first place in a sorted array, from `low` on, whose value is above the limit. */
function above(values, limit, low = 0) {
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle; else low = middle + 1;
  }
  return low;
}

/** Rows of one EU in the order of time; rows do not overlap. sums: time covered before each. */
class Lane {
  constructor(rows, start, end) {
    this.rows = rows;
    this.start = Float64Array.from(rows, row => start[row]);
    this.end = Float64Array.from(rows, row => end[row]);
    this.sums = new Float64Array(rows.length + 1);
    for (let i = 0; i < rows.length; i++) {
      this.sums[i + 1] = this.sums[i] + this.end[i] - this.start[i];
    }
  }

  /** Place of the first row, from `low` on, that ends after a time. */
  from(time, low = 0) { return above(this.end, time, low); }

  /** The row at a time, or the nearest one within `slack`; -1 for none. */
  at(time, slack = 0) {
    const here = this.from(time);
    let best = -1, distance = slack;
    for (const i of [here - 1, here]) {
      if (i < 0 || i >= this.rows.length) continue;
      const away = Math.max(0, this.start[i] - time, time - this.end[i]);
      if (away <= distance) { best = this.rows[i]; distance = away; }
    }
    return best;
  }

  /** Time covered in [low, high). */
  covered(low, high) {
    const before = time => {
      const i = this.from(time);
      const part = i < this.rows.length ? Math.max(0, time - this.start[i]) : 0;
      return this.sums[i] + part;
    };
    return before(high) - before(low);
  }
}

/** Rows grouped by EU, as lanes. */
function lanesOf(eu, start, end, eus, sorted = true) {
  const grouped = group(eu, eus);
  return Array.from({ length: eus }, (_, k) => {
    const rows = grouped.of(k);
    if (!sorted) rows.sort((a, b) => start[a] - start[b]);
    return new Lane(rows, start, end);
  });
}

/** The schedule: head, operators, columns by table, and the tables' indices. */
class Schedule {
  constructor(source) {
    Object.assign(this, source);
    for (const [name, table] of Object.entries(source.tables)) {
      this[name] = Object.fromEntries(Object.entries(table).map(([k, c]) => [k, column(c)]));
    }
    const { tasks, gaps, waits, signals, measured } = this;
    const events = this.events.length, { eus } = this.head;
    this.count = tasks.start.length;
    this.lanes = lanesOf(tasks.eu, tasks.start, tasks.end, eus);
    this.idle = lanesOf(gaps.eu, gaps.start, gaps.end, eus);
    this.measuredLanes = measured
      ? lanesOf(measured.eu, measured.start, measured.end, this.head.measured.eus, false) : [];
    this.waitsOfTask = group(waits.task, this.count);
    this.waitsOfEvent = group(waits.event, events);
    this.signalsOfTask = group(signals.task, this.count);
    this.signalsOfEvent = group(signals.event, events);
    this.onPath = new Uint8Array(this.count);
    for (const task of this.path.number) this.onPath[task] = 1;
    this.place = new Int32Array(this.count); // of a task in its lane
    for (const lane of this.lanes) lane.rows.forEach((task, i) => { this.place[task] = i; });
    this.end = Math.max(this.head.makespan, this.head.measured ? this.head.measured.makespan : 0);
    this.shown = this.head.shown; // of it at first: measured times may end long behind the plan
    this._spent();
  }

  operator(task) { return this.operators[this.tasks.operator[task]]; }

  /** The task before or after one on its EU, -1 for none. */
  neighbour(task, step) {
    const { rows } = this.lanes[this.tasks.eu[task]];
    const at = this.place[task] + step;
    return at >= 0 && at < rows.length ? rows[at] : -1;
  }

  /** Gaps directly before a task, first to last. */
  idleBefore(task) {
    const lane = this.idle[this.tasks.eu[task]];
    const before = this.neighbour(task, -1);
    const since = before < 0 ? -1 : this.tasks.end[before];
    const found = [];
    for (let i = lane.from(this.tasks.start[task]) - 1; i >= 0 && lane.start[i] >= since; i--) {
      found.unshift(lane.rows[i]);
    }
    return found;
  }

  /** The signals of an event, in the order of their times. */
  signallers(event) { return this.signalsOfEvent.of(event); }

  eventName(event) { return this.events[event][1]; }

  reasonText(reason) {
    const known = { [ORDER]: "order", [LAUNCH]: "launch", [BARRIER]: "barrier", [END]: "end",
      [TAKE]: "take", [SIGNAL]: "signal" };
    return known[reason] ?? `event ${this.eventName(reason)}`;
  }

  /** The task with which an operator begins. */
  firstTask(operator) { return this.begins[operator]; }

  /** Sums of time: by kind, of which the largest get a colour of their own, by operator, by cause. */
  _spent() {
    const { operator, start, end } = this.tasks, sums = new Map();
    const add = (key, ns) => sums.set(key, (sums.get(key) ?? 0) + ns);
    const spent = new Float64Array(this.operators.length);
    const took = new Float64Array(this.operators.length);
    this.begins = new Int32Array(this.operators.length).fill(-1);
    for (let i = 0; i < this.count; i++) {
      spent[operator[i]] += end[i] - start[i];
      if (this.measured) took[operator[i]] += this.measured.end[i] - this.measured.start[i];
      if (this.begins[operator[i]] < 0) this.begins[operator[i]] = i; // tasks begin in their order
    }
    this.names = new Names(this.operators.map(op => op.name));
    this.spent = spent; // planned and measured time of all EUs, by operator
    this.took = took;
    this.operators.forEach((op, number) => add(op.kind, spent[number]));
    this.kinds = [...sums].sort((a, b) => b[1] - a[1]);
    this.slowest = [...spent.entries()].sort((a, b) => b[1] - a[1]);
    const colours = new Map(this.kinds.map(([kind], i) => [kind, Math.min(i, 9)]));
    this.colour = this.operators.map(op => colours.get(op.kind));
    const { gaps } = this, idle = new Map();
    gaps.reason.forEach((reason, i) => {
      const cause = reason >= 0 ? "wait for a signal" : this.reasonText(reason);
      idle.set(cause, (idle.get(cause) ?? 0) + gaps.end[i] - gaps.start[i]);
    });
    this.idleByCause = [...idle].sort((a, b) => b[1] - a[1]);
  }
}

// -- text
function time(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return `${(ns / 1e9).toFixed(3)} s`;
  if (size >= 1e6) return `${(ns / 1e6).toFixed(3)} ms`;
  if (size >= 1e3) return `${(ns / 1e3).toFixed(2)} µs`;
  return `${ns.toFixed(ns % 1 ? 1 : 0)} ns`;
}

/** A time without zeros at the end of its fraction. */
const tick = ns => time(ns).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " ");

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) { count /= 1024; unit++; }
  return `${unit ? count.toFixed(count < 10 ? 2 : 1) : count} ${units[unit]}`;
}

/** Names, made shorter by the words that most of them have: the others tell them apart. */
class Names {
  constructor(names) {
    this.common = new Map(); // how many names have a word
    for (const name of names) {
      for (const word of new Set(this._words(name).map(bare))) {
        this.common.set(word, (this.common.get(word) ?? 0) + 1);
      }
    }
  }

  /** Words with what parts them from the next one. */
  _words(name) { return name.match(/[^_./:\s-]*[_./:\s-]*/g).filter(Boolean); }

  /** A name in so many characters: with the words that fewest names have, as many as find room. */
  short(name, most) {
    if (name.length <= most) return name;
    const words = this._words(name), kept = new Set();
    const rare = [...words.keys()].sort(
      (a, b) => this.common.get(bare(words[a])) - this.common.get(bare(words[b])) || b - a);
    const text = () => words.map((word, i) => (kept.has(i) ? word : "…")).join("")
      .replace(/…+/g, "…").replace(/[_./:\s-]*…$/, "…");
    for (const word of rare) {
      kept.add(word);
      if (text().length > most) kept.delete(word);
    }
    return kept.has(rare[0]) ? text() : cut(bare(words[rare[0]]), most);
  }
}

const bare = word => word.replace(/[_./:\s-]+$/, "");

/** A text without its middle, of which the end stays longer: it tells more than the start. */
function cut(text, most) {
  if (text.length <= most) return text;
  const tail = Math.ceil((most - 1) * 0.6);
  return `${text.slice(0, most - 1 - tail)}…${text.slice(text.length - tail)}`;
}

const percent = share => `${(100 * share).toFixed(1)} %`;
const sizes = tile => tile.join(" × ") || "–";
const whole = count => count.toLocaleString("en");
