// The graph of the operators: who reads what whom writes, and where the time goes.

const MOST_NODES = 1500, MOST_EDGES = 6000, MOST_BENDS = 30000;
const NODE = { width: 164, height: 28 }, LETTERS = 23, LAYER = 48, BEND = 14;

/** An element of a drawing, in the namespace of the one that the page has. */
function drawn(tag, attributes, children = []) {
  const { namespaceURI } = document.querySelector("svg");
  const node = document.createElementNS(namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

class OperatorGraph {
  /** select(task, reveal): of the operator that is clicked. */
  constructor(schedule, view, select) {
    this.schedule = schedule;
    this.view = view; // path; selected: a task; matches: the operators that a search has found
    this.select = select;
    this.node = document.getElementById("sheet-graph");
    this.nodes = null;
  }

  /** Draw it, the first time, and say what is selected, found and on the critical path. */
  update() {
    if (this.nodes === null) this._draw();
    const { tasks, path } = this.schedule, { selected, matches } = this.view;
    const chosen = selected < 0 ? -1 : tasks.operator[selected];
    const onPath = new Set(this.view.path ? path.number.map(task => tasks.operator[task]) : []);
    this.nodes.forEach((node, number) => {
      node.classList.toggle("selected", number === chosen);
      node.classList.toggle("path", onPath.has(number));
      node.classList.toggle("faded", Boolean(matches && !matches.has(number)));
    });
    const [first] = matches ?? [chosen];
    if (first !== this.first) this.nodes[first]?.scrollIntoView({ block: "nearest" });
    this.first = first;
  }

  zoom(factor) {
    if (!this.nodes?.length) return;
    this.scale = Math.min(4, Math.max(0.05, this.scale * factor));
    this.svg.setAttribute("width", this.size.width * this.scale);
    this.svg.setAttribute("height", this.size.height * this.scale);
  }

  /** All of it in view. */
  fit() {
    const { clientWidth, clientHeight } = this.node, { width, height } = this.size ?? {};
    if (width) this.zoom(Math.min(1, clientWidth / width, clientHeight / height) / this.scale);
  }

  _draw() {
    const { operators, edges } = this.schedule;
    this.nodes = [];
    const few = operators.length <= MOST_NODES && edges.from.length <= MOST_EDGES &&
      bendCount(operators.length, edges.from, edges.to) <= MOST_BENDS;
    if (!few || !operators.length) {
      const why = operators.length ? `${whole(operators.length)} operators and their edges are too many to draw; ` +
        "rc-viz --json=FILE writes them and their edges." : "There are no operators.";
      this.node.replaceChildren(element("p", why, { className: "quiet" }));
      return;
    }
    const sizes = { node: NODE.width + BEND, bend: BEND, layer: LAYER };
    const places = placed(operators.length, edges.from, edges.to, sizes);
    const lines = places.links.map(link => this._edge(link));
    const most = Math.max(...this.schedule.spent);
    this.nodes = places.nodes.map((place, number) => this._node(number, place, most));
    this.size = { width: places.width, height: places.height };
    this.scale = Math.min(1, Math.max(0.5, this.node.clientWidth / places.width));
    this.svg = drawn("svg", { viewBox: `0 0 ${places.width} ${places.height}` },
      [...lines, ...this.nodes]);
    this.node.replaceChildren(this.svg);
    this.zoom(1);
  }

  /** From below the upper place to above the lower one; a bend is a point. */
  _edge({ from, to, fromNode, toNode }) {
    const [x0, x1] = [from[0], to[0]], half = NODE.height / 2;
    const y0 = from[1] + (fromNode ? half : 0), y1 = to[1] - (toNode ? half : 0);
    const middle = (y0 + y1) / 2;
    return drawn("path", { class: "edge",
      d: `M${x0} ${y0}C${x0} ${middle} ${x1} ${middle} ${x1} ${y1}` });
  }

  _node(number, [x, y], most) {
    const { schedule } = this, op = schedule.operators[number], { width, height } = NODE;
    const share = most > 0 ? schedule.spent[number] / most : 0;
    const box = drawn("rect", { class: "box", width, height, rx: 4 });
    box.style.fill = `var(--k${schedule.colour[number]})`;
    const node = drawn("g", { class: "node", tabindex: 0, role: "button",
      transform: `translate(${x - width / 2} ${y - height / 2})` }, [
      drawn("title", {}, [`${op.name}\n${op.kind}, ${time(schedule.spent[number])} of the EUs`]),
      box,
      drawn("rect", { class: "spent", y: height - 3, width: width * share, height: 3 }),
      drawn("text", { x: 6, y: 17 }, [schedule.names.short(op.name, LETTERS)]),
    ]);
    const choose = () => this.select(schedule.firstTask(number), true);
    node.addEventListener("click", choose);
    node.addEventListener("keydown", event => { if (event.key === "Enter") choose(); });
    return node;
  }
}
