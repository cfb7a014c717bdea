// The table of the operators: planned and measured time, sorted by any column.

const MOST_LINES = 2000;

class OperatorTable {
  /** select(task, reveal): of the operator that is clicked. */
  constructor(schedule, view, select) {
    this.schedule = schedule;
    this.view = view; // matches: the operators that a search has found
    this.select = select;
    this.node = document.getElementById("sheet-table");
    this.columns = this._columns();
    this.by = this.columns.find(column => column.title === "Planned");
    this.descending = true;
  }

  /** title; of: what an operator is sorted by; text: what is shown of that. */
  _columns() {
    const { schedule } = this, { operators, spent, took, measured, head } = schedule;
    const busy = head.utilisation * head.makespan * head.eus;
    const starts = number => schedule.tasks.start[schedule.firstTask(number)];
    const ratio = number => (spent[number] > 0 ? took[number] / spent[number] : 0);
    return [
      { title: "Operator", of: number => operators[number].name, text: String, name: true },
      { title: "Kind", of: number => operators[number].kind, text: String, name: true },
      { title: "rTasks", of: number => operators[number].tasks, text: whole },
      { title: "Start", of: starts, text: time },
      { title: "Planned", of: number => spent[number], text: time },
      { title: "Share", of: number => (busy > 0 ? spent[number] / busy : 0), text: percent },
      ...(measured ? [
        { title: "Measured", of: number => took[number], text: time },
        { title: "Measured − planned", of: number => took[number] - spent[number], text: time },
        { title: "Measured ÷ planned", of: ratio, text: value => `${value.toFixed(2)} ×` },
      ] : []),
    ];
  }

  update() {
    const wanted = [...this.schedule.operators.keys()].filter(
      number => this.schedule.firstTask(number) >= 0
        && (!this.view.matches || this.view.matches.has(number)));
    const { of } = this.by, sign = this.descending ? -1 : 1;
    const keys = new Map(wanted.map(number => [number, of(number)]));
    wanted.sort((a, b) => sign * (keys.get(a) < keys.get(b) ? -1 : keys.get(a) > keys.get(b) ? 1 : 0));
    const lines = wanted.slice(0, MOST_LINES).map(number => this._line(number));
    const more = wanted.length - lines.length;
    this.node.replaceChildren(
      element("table", [element("thead", element("tr", this.columns.map(c => this._head(c)))),
        element("tbody", lines)]),
      element("p", more > 0 ? `and ${whole(more)} more: search for some` : "",
        { className: "quiet" }),
    );
  }

  _head(column) {
    const button = element("button", column.title, { type: "button" });
    button.addEventListener("click", () => {
      this.descending = column === this.by ? !this.descending : !column.name;
      this.by = column;
      this.update();
    });
    const head = element("th", button, { className: column.name ? "name" : "", scope: "col" });
    if (column === this.by) {
      head.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      button.append(this.descending ? " ↓" : " ↑");
    }
    return head;
  }

  _line(number) {
    const [first, ...others] = this.columns;
    const link = element("button", first.of(number), { type: "button", className: "link" });
    link.addEventListener("click", () => this.select(this.schedule.firstTask(number), true));
    return element("tr", [element("td", link, { className: "name" }), ...others.map(
      ({ of, text, name }) => element("td", text(of(number)), { className: name ? "name" : "" }))]);
  }
}
