// Drawing: lanes, minimap and arena on canvases. Work per frame grows with pixels, not with tasks.

const GUTTER = 76, AXIS = 22, HEADING = 22, ROOMY = 64, ARENA = [112, 300], MOST_ARROWS = 1500;
const CHARACTER = 5.6, LINE = 13; // of a label: width and height

class Scene {
  constructor(schedule, view) {
    this.schedule = schedule;
    this.view = view; // low, high: ns; scroll: px; selected, hover: tasks; path, waits; matches
    this.canvas = Object.fromEntries(
      ["map", "lanes", "arena"].map(id => [id, document.getElementById(id)]));
    this.asked = false;
    this.restyle();
  }

  restyle() {
    const style = getComputedStyle(document.documentElement);
    const names = ["paper", "lift", "ink", "quiet", "line", "lane", "accent", "focus", "arrow",
      "text", "launch", "barrier", "wait", "end", "arena"];
    this.ink = Object.fromEntries(names.map(n => [n, style.getPropertyValue(`--${n}`).trim()]));
    this.kinds = Array.from({ length: 10 }, (_, k) => style.getPropertyValue(`--k${k}`).trim());
    this.font = getComputedStyle(document.body).fontFamily;
  }

  /** Draw at the next frame. */
  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.draw(); });
  }

  resize() {
    this._share();
    for (const canvas of Object.values(this.canvas)) {
      const box = canvas.getBoundingClientRect();
      const scale = window.devicePixelRatio || 1;
      canvas.width = Math.round(box.width * scale);
      canvas.height = Math.round(box.height * scale);
    }
    const box = this.canvas.lanes.getBoundingClientRect();
    this.width = box.width;
    this.height = box.height;
    this._place();
    this.busy = null;
  }

  /** The arena gets the height that lanes of a good size leave over; what it leaves is theirs. */
  _share() {
    const { lanes, arena } = this.canvas, { schedule } = this;
    const both = lanes.getBoundingClientRect().height + arena.getBoundingClientRect().height;
    const count = schedule.lanes.length + schedule.measuredLanes.length;
    const spare = both - AXIS - 2 * HEADING - ROOMY * count;
    arena.style.height = `${Math.max(ARENA[0], Math.min(ARENA[1], spare))}px`;
  }

  /** Where each lane lies, from the top of all lanes. */
  _place() {
    const groups = [["Planned", this.schedule.lanes, this.schedule.idle]];
    if (this.schedule.measuredLanes.length) {
      groups.push(["Measured", this.schedule.measuredLanes, []]);
    }
    const count = groups.reduce((sum, group) => sum + group[1].length, 0);
    const room = this.height - AXIS - HEADING * groups.length - 8;
    const pitch = Math.max(5, Math.floor(room / count));
    this.rows = [];
    this.headings = [];
    let y = 0;
    for (const [name, lanes, idle] of groups) {
      this.headings.push({ name, y });
      y += HEADING;
      lanes.forEach((lane, eu) => {
        this.rows.push({ lane, idle: idle[eu], eu, y, planned: name === "Planned" });
        y += pitch;
      });
    }
    this.pitch = pitch;
    this.bar = pitch - (pitch > 12 ? 4 : 1);
    this.content = y;
    this.first = new Map(groups.map(([name]) => [name, this.rows.findIndex(
      row => row.planned === (name === "Planned"))]));
  }

  get scrollMost() { return Math.max(0, this.content - (this.height - AXIS)); }

  x(ns) { return GUTTER + (ns - this.view.low) * this.scale; }
  ns(x) { return this.view.low + (x - GUTTER) / this.scale; }
  get scale() { return Math.max(1, this.width - GUTTER) / (this.view.high - this.view.low); }
  y(row) { return AXIS + row.y - this.view.scroll; }
  rowOf(task) { return this.rows[this.schedule.tasks.eu[task]]; }
  middle(task) { return this.y(this.rowOf(task)) + this.bar / 2; }

  /** The row at a height, null for none. */
  rowAt(y) {
    const row = this.rows.find(r => y >= this.y(r) && y < this.y(r) + this.pitch);
    return y > AXIS && row ? row : null;
  }

  /** The task at a point; -1 for none. A task too thin to see is found two pixels around. */
  taskAt(x, y) {
    const row = x >= GUTTER ? this.rowAt(y) : null;
    return row ? row.lane.at(this.ns(x), 2 / this.scale) : -1;
  }

  /** The idle time at a point, -1 for none. */
  gapAt(x, y) {
    const row = x >= GUTTER ? this.rowAt(y) : null;
    return row && row.idle ? row.idle.at(this.ns(x)) : -1;
  }

  draw() {
    this._map();
    this._lanes();
    drawArena(this);
  }

  begin(id) {
    const canvas = this.canvas[id], scale = window.devicePixelRatio || 1;
    const c = canvas.getContext("2d");
    c.setTransform(scale, 0, 0, scale, 0, 0);
    const width = canvas.width / scale, height = canvas.height / scale;
    c.fillStyle = this.ink.paper;
    c.fillRect(0, 0, width, height);
    c.font = `11px ${this.font}`;
    c.textBaseline = "middle";
    c.lineWidth = 1;
    return [c, width, height];
  }

  _lanes() {
    const [c, width, height] = this.begin("lanes");
    this._ticks(c, width, height);
    c.save();
    c.beginPath();
    c.rect(0, AXIS, width, height - AXIS);
    c.clip();
    for (const { name, y } of this.headings) {
      c.fillStyle = this.ink.quiet;
      c.fillText(name, 10, AXIS + y - this.view.scroll + HEADING / 2);
    }
    const every = Math.ceil(11 / this.pitch);
    for (const row of this.rows) {
      const y = this.y(row);
      if (y + this.pitch < AXIS || y > height) continue;
      if (row.eu % every === 0) {
        c.fillStyle = this.ink.quiet;
        c.fillText(`EU ${row.eu}`, 10, y + this.bar / 2);
      }
      c.fillStyle = this.ink.lane;
      c.fillRect(GUTTER, y, width - GUTTER, this.bar);
    }
    c.beginPath();
    c.rect(GUTTER, AXIS, width - GUTTER, height - AXIS);
    c.clip();
    if (this.view.path) drawPathSteps(this, c); // beneath the tasks
    for (const row of this.rows) {
      const y = this.y(row);
      if (y + this.pitch < AXIS || y > height) continue;
      if (row.idle) this._idle(c, row, y);
      this._row(c, row, y);
    }
    if (this.view.path) drawPathFrames(this, c);
    drawLinks(this, c);
    c.restore();
  }

  _ticks(c, width, height) {
    const wanted = 110 / this.scale;
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= wanted);
    c.textAlign = "left";
    for (let t = Math.ceil(this.view.low / step) * step; t <= this.view.high; t += step) {
      const x = Math.round(this.x(t)) + 0.5;
      c.strokeStyle = this.ink.line;
      c.beginPath();
      c.moveTo(x, AXIS - 6);
      c.lineTo(x, height);
      c.stroke();
      c.fillStyle = this.ink.quiet;
      const text = tick(Math.round(t / step) * step);
      if (x + c.measureText(text).width < width) c.fillText(text, x + 4, AXIS / 2);
    }
  }

  /**
   * Walk the rows of a lane that are visible, at least a pixel apart: each with its place, x, width
   * and the place of the next one. Less than a pixel wide, a row stands for all up to the next.
   */
  *visible(lane) {
    const right = this.width;
    for (let i = lane.from(this.view.low), next; i < lane.rows.length; i = next) {
      const x = this.x(lane.start[i]);
      if (x > right) return;
      const w = this.x(lane.end[i]) - x;
      next = i + 1;
      if (w < 1) next = Math.max(next, lane.from(this.ns(Math.floor(x) + 1), next));
      yield [i, x, w, next];
    }
  }

  _idle(c, { idle }, y) {
    const h = Math.max(1, Math.round(this.bar * 0.3)), top = y + Math.round((this.bar - h) / 2);
    const { reason } = this.schedule.gaps;
    c.globalAlpha = this.view.path ? 0.4 : 1;
    let last = null; // setting a colour costs more than a small box
    for (const [i, x, w] of this.visible(idle)) {
      const cause = reason[idle.rows[i]];
      if (cause !== last) c.fillStyle = this.idleColour(cause);
      last = cause;
      c.fillRect(x, top, Math.max(1, w), h);
    }
    c.globalAlpha = 1;
  }

  idleColour(reason) {
    const known = { [LAUNCH]: "launch", [TAKE]: "launch", [BARRIER]: "barrier", [END]: "end" };
    return this.ink[known[reason] ?? "wait"];
  }

  _row(c, { lane, planned }, y) {
    const { schedule, view } = this;
    let last = -1;
    for (const [i, x, w, next] of this.visible(lane)) {
      const task = lane.rows[i];
      const operator = schedule.tasks.operator[task];
      const faded = (view.matches && !view.matches.has(operator))
        || (view.path && planned && !schedule.onPath[task]);
      const colour = schedule.colour[operator];
      if (colour !== last) c.fillStyle = this.kinds[colour];
      last = colour;
      c.globalAlpha = faded ? 0.18 : 1;
      if (w < 1) {
        const share = (lane.sums[next] - lane.sums[i]) * this.scale;
        c.globalAlpha *= Math.min(1, Math.max(0.3, share));
        c.fillRect(Math.floor(x), y, 1, this.bar);
        continue;
      }
      c.fillRect(x, y, Math.max(1, w - (w > 3 ? 0.7 : 0)), this.bar);
      if (w > LINE && this.bar >= 11 && !faded) {
        this._label(c, task, x, w, y);
        last = -1;
      }
    }
    c.globalAlpha = 1;
    for (const [task, colour] of [[view.hover, this.ink.ink], [view.selected, this.ink.accent]]) {
      if (task >= 0) this._frame(c, lane, planned, task, colour, y);
    }
  }

  /** The name of its operator: across, or upright where more of it finds room so. */
  _label(c, task, x, w, y) {
    const left = Math.max(x, GUTTER), room = Math.min(x + w, this.width) - left;
    const across = Math.floor((room - 7) / CHARACTER);
    const down = Math.floor((this.bar - 10) / CHARACTER);
    const { name } = this.schedule.operator(task), { names } = this.schedule;
    c.fillStyle = this.ink.text;
    if (across < 0.8 * name.length && down > across && down >= 4) {
      if (room < LINE) return;
      c.save();
      c.translate(left + room / 2, y + this.bar / 2);
      c.rotate(-Math.PI / 2);
      c.textAlign = "center";
      c.fillText(names.short(name, down), 0, 0, this.bar - 6);
      c.restore();
    } else if (across >= 3) {
      c.fillText(names.short(name, across), left + 4, y + this.bar / 2, room - 6);
    }
    this._tasks(c, task, x, w, y);
  }

  /** Marks between the rTasks of a run, once they are wide enough. */
  _tasks(c, task, x, w, y) {
    const count = this.schedule.tasks.count[task], each = w / count;
    if (each < 7) return;
    c.fillStyle = this.ink.paper;
    const from = Math.max(1, Math.ceil((GUTTER - x) / each));
    for (let k = from; k < count && x + k * each < this.width; k++) {
      c.fillRect(x + k * each, y + this.bar - 4, 0.8, 4);
    }
  }

  _frame(c, lane, planned, task, colour, y) {
    const { schedule } = this;
    const eu = planned ? schedule.tasks.eu[task] : schedule.measured.eu[task];
    const lanes = planned ? schedule.lanes : schedule.measuredLanes;
    if (lanes[eu] !== lane) return;
    const { start, end } = planned ? schedule.tasks : schedule.measured;
    const x = this.x(start[task]), w = Math.max(2, this.x(end[task]) - x);
    c.strokeStyle = colour;
    c.lineWidth = 2;
    c.strokeRect(x - 0.5, y - 0.5, w + 0.5, this.bar + 1);
    c.lineWidth = 1;
  }

  _map() {
    const [c, width, height] = this.begin("map");
    const { schedule, view } = this, room = width - GUTTER, top = 6, h = height - 12;
    if (!this.busy) this.busy = this._busy(Math.max(1, Math.floor(room)));
    c.fillStyle = this.ink.quiet;
    c.fillText("EUs busy", 10, height / 2);
    c.fillStyle = this.ink.lane;
    c.fillRect(GUTTER, top, room, h);
    c.fillStyle = this.kinds[0];
    this.busy.forEach((share, i) => c.fillRect(GUTTER + i, top + h * (1 - share), 1, h * share));
    const scale = room / schedule.end;
    const low = GUTTER + view.low * scale, high = GUTTER + view.high * scale;
    c.globalAlpha = 0.72;
    c.fillStyle = this.ink.paper;
    c.fillRect(GUTTER, top, low - GUTTER, h);
    c.fillRect(high, top, width - high, h);
    c.globalAlpha = 1;
    c.strokeStyle = this.ink.focus;
    c.strokeRect(low + 0.5, top - 1.5, Math.max(3, high - low - 1), h + 3);
  }

  /** Share of the EUs that are busy, per pixel of the whole time. */
  _busy(pixels) {
    const { schedule } = this, step = schedule.end / pixels;
    return Float64Array.from({ length: pixels }, (_, i) => schedule.lanes.reduce(
      (sum, lane) => sum + lane.covered(i * step, (i + 1) * step), 0,
    ) / (step * schedule.lanes.length));
  }
}
