// What lies over or under the lanes: who waits for whom, the critical path, the arena.

// -- links between tasks
function drawLinks(scene, c) {
  const { schedule, view } = scene;
  if (view.waits) drawWaits(scene, c);
  if (view.selected < 0) return;
  c.strokeStyle = scene.ink.accent;
  c.fillStyle = scene.ink.accent;
  for (const wait of schedule.waitsOfTask.of(view.selected)) {
    for (const signal of schedule.signallers(schedule.waits.event[wait]).subarray(0, 200)) {
      arrow(scene, c, schedule.signals.at[signal], schedule.signals.eu[signal], wait);
    }
  }
  for (const signal of schedule.signalsOfTask.of(view.selected)) {
    for (const wait of schedule.waitsOfEvent.of(schedule.signals.event[signal]).subarray(0, 200)) {
      arrow(scene, c, schedule.signals.at[signal], schedule.signals.eu[signal], wait);
    }
  }
}

/** The waits that end in view, each from the task that ended it. */
function drawWaits(scene, c) {
  const { waits, tasks } = scene.schedule;
  const first = above(waits.until, scene.view.low), last = above(waits.until, scene.view.high);
  const step = Math.max(1, Math.ceil((last - first) / MOST_ARROWS));
  c.strokeStyle = scene.ink.arrow;
  c.fillStyle = scene.ink.arrow;
  c.globalAlpha = 0.55;
  for (let wait = first; wait < last; wait += step) {
    const by = waits.by[wait];
    if (by >= 0) arrow(scene, c, tasks.end[by], tasks.eu[by], wait);
  }
  c.globalAlpha = 1;
}

function arrow(scene, c, at, eu, wait) {
  const { waits } = scene.schedule;
  const x0 = scene.x(at), x1 = scene.x(Math.max(waits.until[wait], at));
  const y0 = scene.y(scene.rows[eu]) + scene.bar / 2;
  const y1 = scene.y(scene.rows[waits.eu[wait]]) + scene.bar / 2;
  const bend = Math.max(6, Math.min(40, (x1 - x0) / 2));
  c.beginPath();
  c.moveTo(x0, y0);
  c.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
  c.stroke();
  c.beginPath();
  c.moveTo(x1, y1);
  c.lineTo(x1 - 6, y1 - 3);
  c.lineTo(x1 - 6, y1 + 3);
  c.fill();
}

/** Where the critical path goes from one EU to another: from the end of a task to the next one. */
function drawPathSteps(scene, c) {
  const { tasks, path } = scene.schedule, { bar } = scene;
  c.strokeStyle = scene.ink.accent;
  c.fillStyle = scene.ink.accent;
  c.lineWidth = 1.5;
  let last = -Infinity;
  for (let i = 1; i < path.number.length; i++) {
    const from = path.number[i - 1], to = path.number[i];
    const x0 = scene.x(tasks.end[from]), x1 = scene.x(tasks.start[to]);
    if (tasks.eu[from] === tasks.eu[to] || x1 < GUTTER || x0 > scene.width) continue;
    if (x1 - last < 0.5) continue; // too near to see
    last = x1;
    const down = tasks.eu[to] > tasks.eu[from] ? 1 : 0;
    const y0 = scene.y(scene.rowOf(from)) + down * bar;
    const y1 = scene.y(scene.rowOf(to)) + (1 - down) * bar, tip = down ? -4 : 4;
    c.beginPath();
    c.moveTo(x0, y0);
    c.lineTo(x1, y1);
    c.stroke();
    c.beginPath();
    c.moveTo(x1, y1);
    c.lineTo(x1 - 3, y1 + tip);
    c.lineTo(x1 + 3, y1 + tip);
    c.fill();
  }
  c.lineWidth = 1;
}

/** Frames around the tasks of the critical path; of those too thin for one, the upper edge. */
function drawPathFrames(scene, c) {
  const { tasks, path } = scene.schedule;
  c.strokeStyle = scene.ink.accent;
  c.fillStyle = scene.ink.accent;
  c.lineWidth = 2;
  let last = -Infinity;
  for (const task of path.number) {
    const x = scene.x(tasks.start[task]), end = scene.x(tasks.end[task]);
    if (end < GUTTER || x > scene.width || end - last < 0.5) continue;
    last = end;
    const y = scene.y(scene.rowOf(task));
    if (end - x > 5 && scene.bar > 5) c.strokeRect(x + 1, y + 1, end - x - 2.7, scene.bar - 2);
    else c.fillRect(x, y, Math.max(1, end - x), 2);
  }
  c.lineWidth = 1;
}

// -- arena
function drawArena(scene) {
  const [c, width, height] = scene.begin("arena");
  const { ranges, live, head } = scene.schedule;
  const top = 8, h = height - 16, size = Math.max(1, head.arena);
  c.fillStyle = scene.ink.quiet;
  c.fillText("Arena", 10, top + 6);
  c.fillText(bytes(head.arena), 10, top + 22);
  c.save();
  c.beginPath();
  c.rect(GUTTER, 0, width - GUTTER, height);
  c.clip();
  c.fillStyle = scene.ink.lane;
  c.fillRect(GUTTER, top, width - GUTTER, h);
  for (let i = 0; i < ranges.start.length; i++) {
    if (ranges.end[i] < scene.view.low || ranges.start[i] > scene.view.high) continue;
    const [x, y, w, tall] = lifeBox(scene, i, top, h, size);
    if (w < 0.3 || tall < 0.1) continue;
    c.fillStyle = scene.ink.arena;
    c.globalAlpha = 0.55;
    c.fillRect(x, y, w, tall);
    c.globalAlpha = 1;
    c.strokeStyle = scene.ink.paper;
    if (w > 4 && tall > 3) c.strokeRect(x, y, w, tall);
  }
  c.strokeStyle = scene.ink.ink;
  c.beginPath();
  const level = used => top + h * (1 - used / size);
  const next = above(live.at, scene.view.low);
  let y = level(next ? live.bytes[next - 1] : 0);
  c.moveTo(GUTTER, y);
  for (let i = next; i < live.at.length && live.at[i] <= scene.view.high; i++) {
    const x = scene.x(live.at[i]);
    c.lineTo(x, y);
    y = level(live.bytes[i]);
    c.lineTo(x, y);
  }
  c.lineTo(width, y);
  c.stroke();
  c.restore();
}

function lifeBox(scene, i, top, h, size) {
  const { ranges } = scene.schedule;
  const x = scene.x(ranges.start[i]), w = scene.x(ranges.end[i]) - x;
  const tall = h * ranges.bytes[i] / size;
  return [x, top + h - h * ranges.offset[i] / size - tall, w, tall];
}

/** What lies at a point of the arena: text, "" for nothing. */
function arenaAt(scene, x, y) {
  const { ranges, live, head, rangeNames } = scene.schedule;
  const box = scene.canvas.arena.getBoundingClientRect(), h = box.height - 16;
  const now = scene.ns(x);
  if (x < GUTTER || now > scene.view.high) return "";
  const step = above(live.at, now) - 1;
  const found = [`${time(now)}: ${bytes(step < 0 ? 0 : live.bytes[step])} in use`];
  for (let i = 0; i < ranges.start.length; i++) {
    if (now < ranges.start[i] || now > ranges.end[i]) continue;
    const [, top, , tall] = lifeBox(scene, i, 8, h, Math.max(1, head.arena));
    if (y >= top && y <= top + tall) {
      found.push(`${rangeNames[i]}: ${bytes(ranges.bytes[i])} from byte ${whole(ranges.offset[i])}`);
    }
  }
  return found.slice(0, 6).join("\n");
}
