// State, input and what ties the parts together.

const ZOOM = 1.5, KEYS = 0.15;

class Viewer {
  constructor(schedule) {
    this.schedule = schedule;
    this.view = { low: 0, high: schedule.shown || 1, scroll: 0, selected: -1, hover: -1,
      path: false, waits: false, matches: null };
    this.scene = new Scene(schedule, this.view);
    const select = (task, reveal) => this.select(task, reveal);
    this.panel = new Panel(schedule, select);
    this.sheets = { table: new OperatorTable(schedule, this.view, select),
      graph: new OperatorGraph(schedule, this.view, select) };
    this.shown = "timeline";
    this.tip = document.getElementById("tip");
    this._header();
    this._legend();
    this._controls();
    this._pointer();
    this.scene.resize();
    this.fit();
    this.panel.show(-1);
    this._fromHash();
  }

  // -- state
  /** Show the timeline, the table of the operators or their graph. */
  open(name) {
    this.shown = name;
    for (const each of ["timeline", "table", "graph"]) {
      document.getElementById(`sheet-${each}`).hidden = each !== name;
      document.getElementById(each).setAttribute("aria-pressed", String(each === name));
    }
    for (const [id, views] of [["range", "timeline"], ["waits", "timeline"], ["path", "timeline graph"],
      ["out", "timeline graph"], ["in", "timeline graph"], ["fit", "timeline graph"]]) {
      document.getElementById(id).hidden = !views.includes(name);
    }
    this.update();
  }

  /** What is shown is another, or has changed. */
  update() {
    if (this.shown === "timeline") this.scene.ask(); else this.sheets[this.shown].update();
  }

  move(low, high) {
    const { end } = this.schedule, view = this.view;
    const width = Math.min(end || 1, Math.max(high - low, (end || 1) * 1e-7));
    view.low = Math.max(0, Math.min(low, end - width));
    view.high = view.low + width;
    document.getElementById("range").textContent =
      `${time(view.low)} to ${time(view.high)}`;
    this.scene.ask();
  }

  zoom(factor, x) {
    if (this.shown === "graph") this.sheets.graph.zoom(factor); else this._zoom(factor, x);
  }

  _zoom(factor, x = GUTTER + (this.scene.width - GUTTER) / 2) {
    const { low, high } = this.view, at = Math.min(high, Math.max(low, this.scene.ns(x)));
    this.move(at - (at - low) / factor, at + (high - at) / factor);
  }

  pan(share) {
    const step = (this.view.high - this.view.low) * share;
    this.move(this.view.low + step, this.view.high + step);
  }

  scroll(pixels) {
    const view = this.view;
    view.scroll = Math.max(0, Math.min(this.scene.scrollMost, view.scroll + pixels));
    this.scene.ask();
  }

  fit() {
    if (this.shown === "graph") this.sheets.graph.fit(); else this._fit();
  }

  /** What is shown at first; where that is so already, all of it. */
  _fit() {
    const { shown, end } = this.schedule, view = this.view;
    const all = view.low === 0 && view.high === shown && this.fitted;
    view.scroll = 0;
    this.move(0, all ? end : shown);
    this.fitted = true;
  }

  /** Select a task, -1 for none; reveal: bring it into view. */
  select(task, reveal = false) {
    this.view.selected = task;
    this.panel.show(task);
    if (task >= 0 && reveal) this._reveal(task);
    const hash = task >= 0 ? `#task=${task}` : "#";
    if (location.hash !== hash && (task >= 0 || location.hash)) {
      history.replaceState(null, "", hash);
    }
    this.update();
  }

  _reveal(task) {
    const { start, end } = this.schedule.tasks, { low, high } = this.view;
    const spent = end[task] - start[task], middle = (start[task] + end[task]) / 2;
    if (spent < (high - low) / 400 || start[task] < low || end[task] > high) {
      const width = Math.max(spent * 12, Math.min(high - low, spent * 200));
      this.move(middle - width / 2, middle + width / 2);
    }
    const y = this.scene.y(this.scene.rowOf(task));
    if (y < AXIS + HEADING || y + this.scene.pitch > this.scene.height) {
      this.scroll(y - this.scene.height / 2);
    }
  }

  step(by) {
    const { selected } = this.view;
    const next = selected < 0 ? this._firstInView() : this.schedule.neighbour(selected, by);
    if (next >= 0) this.select(next, true);
  }

  _firstInView() {
    const lane = this.schedule.lanes.find(l => l.rows.length);
    return lane ? lane.rows[Math.min(lane.from(this.view.low), lane.rows.length - 1)] : -1;
  }

  toggle(name) {
    this.view[name] = !this.view[name];
    document.getElementById(name).setAttribute("aria-pressed", String(this.view[name]));
    this.update();
  }

  search(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) {
      this.view.matches = null;
      this.panel.show(this.view.selected);
    } else {
      const found = this.schedule.operators.flatMap(
        (op, number) => op.name.toLowerCase().includes(wanted) ? [number] : []);
      this.view.matches = new Set(found);
      this.panel.found(text, found);
    }
    this.update();
  }

  clear() {
    const search = document.getElementById("search");
    if (this.view.matches) {
      search.value = "";
      this.search("");
    } else {
      this.select(-1);
    }
  }

  _fromHash() {
    const task = /^#task=(\d{1,15})$/.exec(location.hash);
    if (task && Number(task[1]) < this.schedule.count) this.select(Number(task[1]), true);
    else this.select(-1);
  }

  // -- fixed parts
  _header() {
    const { head } = this.schedule;
    document.getElementById("name").textContent = head.name;
    document.getElementById("facts").textContent = [
      head.madeFor ? `played on ${head.device}, made for ${head.madeFor}` : head.device,
      `${whole(head.eus)} EU${head.eus === 1 ? "" : "s"}`,
      head.policy && `policy ${head.policy}`,
      `${whole(head.programs.length)} launch${head.programs.length === 1 ? "" : "es"}`,
      this.schedule.shown < this.schedule.end &&
        `measured runs go on to ${time(this.schedule.end)}, beyond what is shown: Fit shows all`,
    ].filter(Boolean).join(" · ");
    const bound = ns => ns > 0 ? [time(ns), percent(ns / head.makespan)] : ["–", ""];
    const figures = [
      ["Makespan, estimated", time(head.makespan), ""],
      ...(head.measured ? [["Measured", time(head.measured.makespan),
        `${(head.measured.makespan / head.makespan).toFixed(2)} ×`]] : []),
      ["Work bound", ...bound(head.work)],
      ["Path bound", ...bound(head.longest)],
      ["Bandwidth bound", ...bound(head.bandwidth)],
      ["EUs busy", percent(head.utilisation), ""],
      ["rTasks", whole(head.tasks), `in ${whole(this.schedule.count)} runs`],
      ["Waits", whole(this.schedule.waits.event.length), ""],
      ["Arena", bytes(head.arena), head.arenaBound ? `bound ${bytes(head.arenaBound)}` : ""],
    ];
    document.getElementById("figures").append(...figures.map(([key, value, note]) => element(
      "div", [element("dt", key), element("dd", [value, " ", element("small", note)])],
      { title: MEANINGS[key] ?? "" })));
  }

  _legend() {
    const entry = (name, colour, idle) => {
      const swatch = element("i", [], { className: idle ? "swatch idle" : "swatch" });
      swatch.style.background = `var(--${colour})`;
      return element("span", [swatch, name]);
    };
    const { kinds, head } = this.schedule;
    const own = kinds.slice(0, 9).map(([kind], i) => entry(kind, `k${i}`, false));
    const rest = kinds.slice(9);
    if (rest.length) own.push(entry(rest.length === 1 ? rest[0][0] : "other kinds", "k9", false));
    const causes = { launch: "launch", barrier: "barrier", wait: "wait for a signal", end: "end" };
    if (head.dynamic.some(taken => taken)) causes.launch = "launch or take";
    const idle = Object.entries(causes).map(
      ([cause, name]) => entry(`idle: ${name}`, cause, true));
    document.getElementById("legend").append(...own, ...idle);
  }

  // -- input
  _controls() {
    const on = (id, event, action) => document.getElementById(id).addEventListener(event, action);
    on("in", "click", () => this.zoom(ZOOM));
    on("out", "click", () => this.zoom(1 / ZOOM));
    on("fit", "click", () => this.fit());
    for (const name of ["timeline", "table", "graph"]) on(name, "click", () => this.open(name));
    document.getElementById("path").title = `c: ${CRITICAL}`;
    on("path", "click", () => this.toggle("path"));
    on("waits", "click", () => this.toggle("waits"));
    on("search", "input", event => this.search(event.target.value));
    on("search", "keydown", event => {
      if (event.key === "Escape") { this.clear(); this.scene.canvas.lanes.focus(); }
      if (event.key === "Enter" && this.view.matches?.size) {
        this.select(this.schedule.firstTask([...this.view.matches][0]), true);
      }
    });
    document.addEventListener("keydown", event => this._key(event));
    addEventListener("hashchange", () => this._fromHash());
    new ResizeObserver(() => {
      if (this.shown !== "timeline") return;
      this.scene.resize();
      this.scroll(0);
    }).observe(document.querySelector(".stage"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.scene.restyle();
      this.scene.ask();
    });
  }

  _key(event) {
    if (event.target.id === "search" || event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      ArrowLeft: () => this.pan(-KEYS), ArrowRight: () => this.pan(KEYS),
      ArrowUp: () => this.scroll(-60), ArrowDown: () => this.scroll(60),
      "+": () => this.zoom(ZOOM), "=": () => this.zoom(ZOOM), "-": () => this.zoom(1 / ZOOM),
      f: () => this.fit(), c: () => this.toggle("path"), w: () => this.toggle("waits"),
      t: () => this.open("timeline"), o: () => this.open("table"), g: () => this.open("graph"),
      n: () => this.step(1), p: () => this.step(-1), Escape: () => this.clear(),
      "/": () => document.getElementById("search").focus(),
    };
    const arrows = event.key.startsWith("Arrow");
    const inPanel = arrows && (this.shown !== "timeline" || event.target.closest?.("aside"));
    if (!actions[event.key] || inPanel) return;
    event.preventDefault();
    actions[event.key]();
  }

  _pointer() {
    const { lanes, map, arena } = this.scene.canvas;
    this._drag(lanes, (dx, dy) => {
      const ns = dx / this.scene.scale;
      this.move(this.view.low - ns, this.view.high - ns);
      this.scroll(-dy);
    }, (x, y) => this.select(this.scene.taskAt(x, y)));
    const centre = x => {
      const at = (x - GUTTER) / (this.scene.width - GUTTER) * this.schedule.end;
      const half = (this.view.high - this.view.low) / 2;
      this.move(at - half, at + half);
    };
    this._drag(map, (dx, dy, x) => centre(x), centre);
    for (const canvas of [lanes, arena]) {
      canvas.addEventListener("wheel", event => this._wheel(event), { passive: false });
      canvas.addEventListener("pointerleave", () => this._hover(-1, ""));
    }
    lanes.addEventListener("pointermove", event => this._over(event));
    arena.addEventListener("pointermove", event => {
      this._hover(-1, arenaAt(this.scene, event.offsetX, event.offsetY), event);
    });
  }

  /** moved(dx, dy, x) while a button is down; clicked(x, y) if it did not move. */
  _drag(canvas, moved, clicked) {
    let from = null, far = false;
    canvas.addEventListener("pointerdown", event => {
      if (event.button) return;
      from = event;
      far = false;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", event => {
      if (!from) return;
      const dx = event.offsetX - from.offsetX, dy = event.offsetY - from.offsetY;
      if (!far && Math.hypot(dx, dy) < 4) return;
      far = true;
      moved(dx, dy, event.offsetX);
      from = event;
    });
    canvas.addEventListener("pointerup", event => {
      if (from && !far) clicked(event.offsetX, event.offsetY);
      from = null;
    });
    canvas.addEventListener("pointercancel", () => { from = null; });
  }

  _wheel(event) {
    event.preventDefault();
    const size = event.deltaMode ? 30 : 1;
    if (event.shiftKey) this.scroll((event.deltaY || event.deltaX) * size);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.pan(event.deltaX * size / this.scene.width);
    } else this.zoom(Math.exp(-event.deltaY * size / 400), event.offsetX);
  }

  _over(event) {
    const { offsetX: x, offsetY: y } = event, { schedule } = this;
    const task = this.scene.taskAt(x, y), gap = task < 0 ? this.scene.gapAt(x, y) : -1;
    let text = "";
    if (task >= 0) {
      const { start, end, count } = schedule.tasks;
      text = `${schedule.operator(task).name}\n${time(end[task] - start[task])}, ` +
        `${whole(count[task])} rTask${count[task] === 1 ? "" : "s"}`;
    } else if (gap >= 0) {
      const { start, end, reason } = schedule.gaps;
      text = `idle for ${time(end[gap] - start[gap])}: ${schedule.reasonText(reason[gap])}`;
    }
    this._hover(task, text, event);
  }

  _hover(task, text, event) {
    if (this.view.hover !== task) {
      this.view.hover = task;
      this.scene.ask();
    }
    this.tip.hidden = !text;
    if (!text) return;
    this.tip.textContent = text;
    const stage = document.querySelector(".stage").getBoundingClientRect();
    const x = event.clientX - stage.left, y = event.clientY - stage.top;
    const { offsetWidth: w, offsetHeight: h } = this.tip;
    this.tip.style.left = `${Math.max(0, Math.min(x + 14, stage.width - w - 4))}px`;
    this.tip.style.top = `${y + 18 + h > stage.height ? y - h - 8 : y + 18}px`;
  }
}

new Viewer(new Schedule(JSON.parse(document.getElementById("data").textContent)));
document.documentElement.dataset.ready = "yes";
