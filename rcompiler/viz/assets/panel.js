// The details beside the timeline. Everything is set as text: names come from a file.

/** An element with text or children. */
function element(tag, content, props = {}) {
  const node = Object.assign(document.createElement(tag), props);
  for (const part of [content].flat()) if (part !== null) node.append(part);
  return node;
}

// What the figures of the head are, by their names.
const MEANINGS = {
  "Work bound": "all rTasks, spread evenly over the EUs",
  "Path bound": "the longest chain of operators, 1 rTask each",
  "Bandwidth bound": "all bytes, at the shared bandwidth",
};
const CRITICAL = "what the end waits for, one task after the other";

class Panel {
  constructor(schedule, select) {
    this.schedule = schedule;
    this.select = select;
    this.node = document.getElementById("panel");
  }

  /** Show a task, or the whole schedule for -1. */
  show(task) {
    const parts = task < 0 ? this._whole() : this._task(task);
    this.node.replaceChildren(...parts.filter(part => part !== null));
    this.node.scrollTop = 0;
  }

  /** Show the operators that a search found. */
  found(text, operators) {
    const list = operators.slice(0, 200).map(number => element("li", this._operator(number)));
    const more = operators.length > 200 ? [element("li", `and ${operators.length - 200} more`)] : [];
    this.node.replaceChildren(
      element("h2", `${operators.length} operator${operators.length === 1 ? "" : "s"}`),
      element("p", operators.length ? "Enter shows the first." : `None is called “${text}”.`,
        { className: "quiet" }),
      element("ul", [...list, ...more]),
    );
  }

  // -- pieces
  _link(text, task) {
    const button = element("button", text, { type: "button", className: "link" });
    button.dataset.task = task;
    button.addEventListener("click", () => this.select(task, true));
    return button;
  }

  _operator(number) {
    return this._link(this.schedule.operators[number].name, this.schedule.firstTask(number));
  }

  _taskLink(task) {
    const { tasks } = this.schedule;
    return this._link(
      `${this.schedule.operator(task).name} on EU ${tasks.eu[task]}`, task);
  }

  _pairs(entries) {
    return element("dl", entries.filter(([, value]) => value !== null).flatMap(
      ([key, value]) => [element("dt", key), element("dd", value)]));
  }

  _section(title, lines) {
    if (!lines.length) return [];
    const shown = lines.slice(0, 40).map(line => element("li", line()));
    if (lines.length > 40) shown.push(element("li", `and ${lines.length - 40} more`));
    return [element("h3", title), element("ul", shown)];
  }

  // -- one task
  _task(task) {
    const { tasks, measured, onPath } = this.schedule, op = this.schedule.operator(task);
    const first = tasks.first[task], count = tasks.count[task], stride = tasks.stride[task];
    const last = first + (count - 1) * stride;
    const range = count === 1 ? whole(first)
      : `${whole(first)} to ${whole(last)}${stride > 1 ? `, each ${stride}th` : ""}`;
    const spent = tasks.end[task] - tasks.start[task];
    const { programs, dynamic } = this.schedule.head, launch = programs[tasks.program[task]];
    const taken = dynamic[tasks.program[task]] ? ", as estimated: who is free takes it" : "";
    return [
      element("h2", op.name),
      this._pairs([
        ["Kind", op.kind],
        ["rKernel", op.kernel],
        ["Tile", sizes(op.tile)],
        ["Registers", sizes(op.registers)],
        ["rTasks", `${range} (${whole(count)} of ${whole(op.tasks)})`],
        ["EU", `${tasks.eu[task]}${taken}`],
        ["Launch", launch],
        ["Start", time(tasks.start[task])],
        ["End", time(tasks.end[task])],
        ["Duration", `${time(spent)} (${time(spent / count)} per rTask)`],
        ["Critical path", onPath[task] ? "yes" : "no"],
        ["Starts after", this._cause(task)],
      ]),
      ...this._section("Idle before", [...this.schedule.idleBefore(task)].map(
        gap => () => this._gap(gap))),
      ...this._section("Waits", [...this.schedule.waitsOfTask.of(task)].map(
        wait => () => this._wait(wait))),
      ...this._section("Signals", [...this.schedule.signalsOfTask.of(task)].map(
        signal => () => this._signal(signal))),
      ...(measured ? this._measured(task, spent) : []),
      element("h3", "Operator"),
      this._pairs([
        ["Estimated", time(op.estimated)],
        ["Kernel timed", op.measured ? time(op.measured) : null],
        ["Chosen by", op.source],
        ["Bound by", op.limit || null],
        ["Why", op.reason || null],
      ]),
    ];
  }

  _cause(task) {
    const { tasks } = this.schedule, cause = tasks.cause[task], reason = tasks.reason[task];
    const text = this.schedule.reasonText(reason);
    return cause < 0 ? text : [`${text}: `, this._taskLink(cause)];
  }

  _gap(gap) {
    const { gaps } = this.schedule;
    const spent = `${time(gaps.end[gap] - gaps.start[gap])}, `;
    const text = `${spent}${this.schedule.reasonText(gaps.reason[gap])}`;
    return gaps.cause[gap] < 0 ? text : [`${text}: `, this._taskLink(gaps.cause[gap])];
  }

  _wait(wait) {
    const { waits, signals } = this.schedule, event = waits.event[wait];
    const came = this.schedule.signallers(event);
    const name = this.schedule.eventName(event);
    const blocked = waits.until[wait] - waits.since[wait];
    const how = blocked > 0 ? `waited ${time(blocked)}, until ${time(waits.until[wait])}`
      : "was there already";
    const by = [...came.subarray(0, 12)].map(signal => element("li", [
      `${time(signals.at[signal])} by `,
      signals.task[signal] < 0 ? `EU ${signals.eu[signal]}` : this._taskLink(signals.task[signal]),
    ]));
    if (came.length > 12) by.push(element("li", `and ${came.length - 12} more`));
    const wanted = `${whole(waits.count[wait])} of ${whole(came.length)} signals`;
    return [`${name}: ${wanted}; ${how}`, element("ul", by)];
  }

  _signal(signal) {
    const { waits, signals } = this.schedule, event = signals.event[signal];
    const all = this.schedule.waitsOfEvent.of(event);
    const who = [...all.subarray(0, 12)].filter(wait => waits.task[wait] >= 0).map(
      wait => element("li", [`${time(waits.until[wait])}: `, this._taskLink(waits.task[wait])]));
    if (all.length > 12) who.push(element("li", `and ${all.length - 12} more`));
    const text = `${this.schedule.eventName(event)} at ${time(signals.at[signal])}`;
    return [who.length ? `${text}, waited for by` : `${text}, for nobody`, element("ul", who)];
  }

  _measured(task, spent) {
    const { measured } = this.schedule;
    const took = measured.end[task] - measured.start[task];
    const ratio = spent > 0 ? ` (${(took / spent).toFixed(2)} × the estimate)` : "";
    return [
      element("h3", "Measured"),
      this._pairs([
        ["EU", `${measured.eu[task]}`],
        ["Start", time(measured.start[task])],
        ["End", time(measured.end[task])],
        ["Duration", `${time(took)}${ratio}`],
      ]),
    ];
  }

  // -- the whole schedule
  _whole() {
    const { head, kinds, idleByCause, slowest } = this.schedule;
    const busy = head.utilisation * head.makespan * head.eus, all = head.makespan * head.eus;
    const table = rows => element("table", element("tbody", rows.map(cells => element(
      "tr", cells.map(cell => element("td", cell))))));
    const share = (ns, of) => [time(ns), of > 0 ? percent(ns / of) : ""];
    return [
      element("h2", "Schedule"),
      element("h3", "No schedule of these rKernels takes less than"),
      element("ul", Object.entries(MEANINGS).map(([name, meaning]) => element(
        "li", [element("b", name.split(" ")[0].toLowerCase()), ` ${meaning}`])),
        { className: "meanings" }),
      element("h3", "Critical path"),
      element("ul", element("li", CRITICAL), { className: "meanings" }),
      element("h3", "Time of the EUs by kind of operator"),
      table(kinds.slice(0, 15).map(([kind, ns]) => [kind, ...share(ns, busy)])),
      element("h3", "Time of the EUs without work"),
      table([...idleByCause].map(([cause, ns]) => [cause, ...share(ns, all)])),
      element("h3", "Operators that take most time"),
      table(slowest.slice(0, 12).map(([number, ns]) => [
        this._operator(number), ...share(ns, busy)])),
    ];
  }
}
