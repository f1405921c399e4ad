const whole = { from: 0, to: data.length * 1.002 };
let view = { ...whole }, selected = null, hovered = null, current = -1, dragged = null, drawnItems = 0;
let width = 0, gutter = 0;
const x = t => gutter + (t - view.from) / (view.to - view.from) * (width - gutter);
const at = px => view.from + (px - gutter) / (width - gutter) * (view.to - view.from);

const losses = data.ops.filter(op => op.lost);

// first returns the index of the first item of a row that has not ended at a time.
function first(items, t) {
	let lo = 0, hi = items.length;
	while (lo < hi) {
		const mid = (lo + hi) >> 1;
		if (items[mid].to < t) lo = mid + 1; else hi = mid;
	}
	return lo;
}

// bar draws a holding as far as it is in view.
function bar(c, locks, from, to, y, h, label, dim) {
	const x0 = Math.max(x(from), gutter), x1 = Math.min(x(to), width);
	if (x1 >= x0) holding(c, locks, x0, y, x1 - x0, h, label, dim);
}

function drawItem(c, r, i) {
	const op = i.op, y = r.y, h = r.h;
	if (r.group.kind === "lock") {
		bar(c, [i.lock], i.from, i.to, y, h, op.id + (op.fence ? "  ·  " + op.fence : ""), op.side === "reader");
		return;
	}
	wait(c, op.locks, x(op.asked), x(op.entered || op.refused || i.to), y, h, !op.entered && !op.refused);
	if (op.refused) { c.fillStyle = ink.soft; c.fillRect(x(op.refused) - .5, y + h - 8, 1, 8); }
	if (!op.entered) return;
	const end = op.held || op.entered;
	if (op.lost) dashed(c, x(end), x(op.lost), y + h / 2, ink.ink, [3, 2]);
	else if (op.left) { c.fillStyle = ink.soft; c.fillRect(x(end), y + h / 2 - .5, x(op.left) - x(end), 1); }
	if (confirmed(op)) bar(c, op.locks, op.entered, op.held, y + 1, h - 2, op.fence, op.side === "reader");
	if (i.open) dashed(c, x(end), x(i.to), y + h / 2, ink.soft, [1, 3]);
}

function drawLoss(c, op) {
	const px = x(op.lost), y = rows[op.row].y + rows[op.row].h / 2;
	if (px < gutter || px > width) return;
	if (op.late) plate(c, "late", px + 6, y, ink.paper, ink.late);
	cross(c, px, y, op.late);
}

function drawBand(c, g, b) {
	const x0 = Math.max(x(b.from), gutter), x1 = Math.min(x(b.to || b.from), width), w = x1 - x0;
	if (x1 < gutter || x0 > width) return;
	if (!b.name) { // a stop of the process, within the band of its fault
		c.globalAlpha = .55; c.fillStyle = stopFill(); c.fillRect(x0, g.top + strip, Math.max(w, 1), g.bottom - g.top - strip); c.globalAlpha = 1;
		return;
	}
	c.fillStyle = ink.fault;
	if (w < 1.5) c.fillRect(x0, g.top, 1, g.bottom - g.top);
	else { c.globalAlpha = .12; c.fillRect(x0, g.top, w, g.bottom - g.top); c.globalAlpha = .5; c.fillStyle = faultFill(); c.fillRect(x0, g.top, w, g.bottom - g.top); c.globalAlpha = 1; }
	c.fillStyle = ink.fault;
	c.fillRect(x0, g.top, Math.max(w, 5), 2);
}

// bandNames writes the names of faults where they have room before the next one.
function bandNames(c, g) {
	const shown = g.bands.filter(b => b.name && x(b.to || b.from) >= gutter && x(b.from) <= width);
	let free = gutter;
	c.font = font(10);
	shown.forEach((b, i) => {
		const x0 = Math.max(x(b.from), gutter) + 2, next = shown[i + 1] ? x(shown[i + 1].from) : width;
		if (x0 < free || next - x0 < 26) return;
		const text = shortened(c, b.name, next - x0 - 8);
		if (text.length < Math.min(b.name.length, 6)) return;
		free = x0 + plate(c, text, x0, g.top + 7, ink.paper, ink.soft, 10);
	});
}

function drawMark(c, m, i) {
	if (!m.at) return;
	const x0 = x(m.at), x1 = Math.max(x(m.until || m.at), x0 + 3);
	if (x1 < gutter || x0 > width) return;
	c.strokeStyle = c.fillStyle = ink.bad;
	c.globalAlpha = i === current ? .9 : .35;
	c.fillRect(x0 - .5, 0, 1, height);
	c.globalAlpha = 1;
	const areas = groups.filter(g => g.kind === "lock" && data.locks[m.lock] !== undefined && g.index === m.lock).map(g => [g.top - 1, g.bottom - g.top]);
	m.ops.forEach(o => areas.push([rows[data.ops[o].row].y - 1, rows[data.ops[o].row].h + 2]));
	areas.forEach(([y, h]) => {
		if (m.until) for (const [alpha, fill] of [[.6, ink.paper], [1, badFill()]]) { c.globalAlpha = alpha; c.fillStyle = fill; c.fillRect(x0, y, x1 - x0, h); }
		c.globalAlpha = 1;
		for (const [color, w] of [[ink.paper, 5], [ink.bad, 2]]) { c.strokeStyle = color; c.lineWidth = w; c.strokeRect(x0, y, x1 - x0, h); }
	});
	if (areas.length && (i === current || data.marks.length < 40)) {
		c.font = font(11.5);
		const w = c.measureText(m.kind).width + 6, [y] = areas[0];
		plate(c, m.kind, x1 + 4 + w < width ? x1 + 4 : Math.max(x0 - w - 4, gutter), y + 11, ink.bad, ink.paper, 11.5);
	}
}

function drawLabels(c) {
	c.fillStyle = ink.paper;
	c.fillRect(0, 0, gutter, height);
	for (const g of groups) {
		const y = g.kind === "client" ? g.top + strip + 7 : (g.top + g.bottom) / 2 + (g.kind === "master" ? strip / 2 : 0) - 1;
		c.font = g.kind === "lock" ? "600 " + font(12.5) : font(12.5);
		c.fillStyle = ink.ink;
		let from = 0;
		if (g.kind === "lock") { c.fillStyle = lockFill(g.index); c.fillRect(0, y - 6, 12, 12); from = 17; c.fillStyle = ink.ink; }
		c.fillText(shortened(c, g.label, gutter - from - 10), from, y);
		c.font = font(10.5);
		c.fillStyle = ink.soft;
		if (g.note && g.rows.length > 1) c.fillText(shortened(c, g.note, gutter - 28), 0, y + 15);
		if (g.kind === "client") g.rows.forEach((label, i) => { c.textAlign = "right"; c.fillText(label, gutter - 6, rows[g.first + i].y + 8); c.textAlign = "left"; });
		c.fillStyle = ink.line;
		c.fillRect(0, g.bottom + gap / 2 - 1, width, groups[g.index + 1] && groups[g.index + 1].kind !== g.kind ? 0 : .5);
	}
}

// ticks returns the times of the axis, and how many digits they have.
function ticks() {
	const least = (view.to - view.from) / Math.max((width - gutter) / 105, 1);
	const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 15e6, 3e7, 6e7, 12e7, 3e8, 6e8, 18e8, 36e8].find(s => s >= least) || least;
	const all = [];
	for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) all.push(t);
	return [all, Math.max(0, Math.min(6, Math.ceil(6 - Math.log10(step))))];
}

function draw() {
	width = $("chart").clientWidth;
	gutter = width < 640 ? 84 : 148;
	const c = fit($("chart"), width, height);
	const [all, digits] = ticks();
	c.fillStyle = ink.grid;
	all.forEach(t => c.fillRect(x(t), 0, 1, height));
	for (const g of groups) g.bands.forEach(b => drawBand(c, g, b));
	drawnItems = labels.length = 0;
	for (const r of rows) {
		let last = -1;
		for (let i = first(r.items, view.from); i < r.items.length && r.items[i].from <= view.to; i++) {
			const end = Math.floor(x(r.items[i].to) * 2);
			if (end === last) continue; // another one of the same half pixel
			last = end;
			drawItem(c, r, r.items[i]);
			drawnItems++;
		}
	}
	groups.forEach(g => bandNames(c, g));
	losses.forEach(op => drawLoss(c, op));
	data.marks.forEach((m, i) => drawMark(c, m, i));
	drawHoldingLabels(c);
	for (const [i, color] of [[hovered, ink.soft], [selected, ink.focus]]) {
		if (i) { c.strokeStyle = color; c.lineWidth = 2; c.strokeRect(x(i.from) - 2, i.row.y - 2, Math.max(x(i.to) - x(i.from), 2) + 4, i.row.h + 4); }
	}
	if (dragged) { c.fillStyle = ink.focus; c.globalAlpha = .18; c.fillRect(Math.min(dragged.from, dragged.to), 0, Math.abs(dragged.to - dragged.from), height); c.globalAlpha = 1; }
	drawLabels(c);
	drawAxis(all, digits);
	drawOverview();
	$("chart").dataset.drawn = drawnItems;
}

function drawAxis(all, digits) {
	const c = fit($("axis"), width, 30);
	c.font = font(11.5);
	c.fillStyle = ink.soft;
	c.fillText(shortened(c, "minutes : seconds", gutter - 8), 0, 15);
	c.textAlign = "center";
	all.forEach(t => { if (x(t) > gutter + 8 && x(t) < width - 22) c.fillText(time(t, digits), x(t), 14); c.fillRect(x(t), 23, 1, 7); });
	c.fillRect(gutter, 29, width - gutter, 1);
	c.fillStyle = ink.bad;
	data.marks.forEach(m => {
		const px = x(m.at || -1);
		if (px < gutter) return;
		c.beginPath(); c.moveTo(px - 5, 21); c.lineTo(px + 5, 21); c.lineTo(px, 30); c.fill();
	});
}

function drawOverview() {
	const c = fit($("overview"), width, 52), scale = (width - gutter) / (whole.to - whole.from), bins = new Map();
	c.font = font(11.5);
	c.fillStyle = ink.soft;
	c.fillText(shortened(c, "holdings, faults", gutter - 12), 6, 26);
	data.ops.forEach(op => { if (confirmed(op)) { const b = Math.floor(op.entered * scale / 3); bins.set(b, (bins.get(b) || 0) + 1); } });
	const most = Math.max(...bins.values(), 1);
	bins.forEach((n, b) => c.fillRect(gutter + b * 3, 38 - 34 * n / most, 2, 34 * n / most));
	c.fillStyle = ink.fault;
	data.bands.forEach(b => { if (b.name) c.fillRect(gutter + b.from * scale, 42, Math.max((b.to || b.from) - b.from, 0) * scale + 1, 6); });
	c.fillStyle = ink.bad;
	data.marks.forEach(m => { if (m.at) { const px = gutter + m.at * scale; c.fillRect(px - 1, 0, 2.5, 52); c.beginPath(); c.moveTo(px - 6, 0); c.lineTo(px + 6, 0); c.lineTo(px, 9); c.fill(); } });
	const from = gutter + view.from * scale, to = gutter + view.to * scale;
	c.fillStyle = ink.paper;
	c.globalAlpha = .65;
	c.fillRect(gutter, 0, from - gutter, 52); c.fillRect(to, 0, width - to, 52);
	c.globalAlpha = 1;
	c.strokeStyle = ink.focus; c.lineWidth = 2; c.strokeRect(from, 1, Math.max(to - from, 3) - 1, 50);
}

function show(from, to) {
	const span = Math.min(Math.max(to - from, 20), whole.to);
	from = Math.min(Math.max((from + to - span) / 2, 0), whole.to - span);
	view = { from, to: from + span };
	requestAnimationFrame(draw);
}
const zoom = (by, around = (view.from + view.to) / 2) => show(around - (around - view.from) * by, around + (view.to - around) * by);

// say writes lines into the panel: text, and how it looks.
function say(lines) {
	$("here").replaceChildren(...lines.map(([text, look]) => { const p = document.createElement("p"); p.textContent = text; p.className = look || ""; return p; }));
}

function tell(i) {
	const op = i.op, lines = [];
	let what = "Call " + op.id + (op.how ? " (" + op.how + ")" : "") + (op.side ? ", " + op.side : "");
	const entered = op.entered ? time(op.entered) : "";
	if (confirmed(op)) what += " held " + lockName(op) + " for " + length(op.held - op.entered) + ", from " + entered + " to " + time(op.held);
	else if (op.entered) what += " had " + lockName(op) + " at " + entered + ", and never saw a valid lease";
	else if (op.refused) what += " was refused " + lockName(op) + " at " + time(op.refused);
	else what += " waited for " + lockName(op) + ", and its process was killed";
	lines.push([what + (op.fence ? ". Fence " + op.fence : "") + "."]);
	let more = "Asked at " + time(op.asked);
	if (op.entered || op.refused) more += ", waited " + length((op.entered || op.refused) - op.asked);
	if (op.lost) more += "; saw the loss of its lease at " + time(op.lost) + (op.late ? ", after " + op.late + " had entered (late notice)" : "");
	if (op.left) more += "; unlock returned at " + time(op.left);
	else if (i.open && op.entered) more += "; its process was killed";
	if (op.err) more += "; error: " + op.err;
	lines.push([more + ". Time of the record: " + (data.origin + (op.entered || op.asked) / 1e6).toFixed(6) + " s.", "more"]);
	data.marks.forEach(m => { if (m.ops.includes(op.index)) lines.push([m.kind + ": " + m.text, "wrong"]); });
	say(lines);
}

function select(i) {
	selected = i;
	tell(i);
	if (i.from < view.from || i.to > view.to) { const span = Math.max(view.to - view.from, i.to - i.from); show((i.from + i.to - span) / 2, (i.from + i.to + span) / 2); }
	requestAnimationFrame(draw);
}

// jump shows a violation, with what happened around it.
function jump(n) {
	if (!data.marks.length) return;
	current = (n + data.marks.length) % data.marks.length;
	const m = data.marks[current];
	say([[m.kind + (m.at ? " at " + time(m.at) : "") + ". " + m.text, "wrong"], ["Violation " + (current + 1) + " of " + data.marks.length + ".", "more"]]);
	if (!m.at) return;
	const ends = m.ops.map(o => data.ops[o]);
	const from = Math.min(m.at, ...ends.map(o => o.entered || o.asked)), to = Math.max(m.until || m.at, ...ends.map(o => o.held || o.entered || o.asked));
	const margin = Math.max((to - from) * .6, 2000);
	show(from - margin, to + margin);
}

function under(e) {
	const t = at(e.offsetX), near = 4 / (width - gutter) * (view.to - view.from);
	if (e.offsetX < gutter) return null;
	const r = rows.find(r => e.offsetY >= r.y - 1 && e.offsetY <= r.y + r.h + 1);
	if (!r) return null;
	const i = r.items[first(r.items, t - near)];
	return i && i.from - near <= t ? i : null;
}

function legend() {
	const list = [];
	const add = (text, paint) => {
		const li = document.createElement("li"), canvas = document.createElement("canvas"), span = document.createElement("span");
		canvas.style.width = "30px";
		paint(fit(canvas, 30, 16));
		span.textContent = span.title = text;
		li.append(canvas, span);
		list.push(li);
	};
	data.locks.forEach((name, i) => add(name, c => holding(c, [i], 0, 1, 30, 14)));
	if (data.ops.some(o => o.side === "reader")) add("held by a reader", c => holding(c, [0], 0, 1, 30, 14, "", true));
	add("waits", c => wait(c, [0], 0, 30, 0, 14));
	if (losses.length) add("has lost its lease", c => { dashed(c, 0, 16, 8, ink.ink, [3, 2]); cross(c, 18, 8); });
	if (losses.some(op => op.late)) add("noticed late", c => { dashed(c, 0, 12, 8, ink.ink, [3, 2]); cross(c, 18, 8, true); });
	if (data.bands.length) add("fault", c => { c.fillStyle = faultFill(); c.fillRect(0, 1, 30, 14); c.fillStyle = ink.fault; c.fillRect(0, 1, 30, 2); });
	if (data.bands.some(b => !b.name)) add("process stopped", c => { c.fillStyle = stopFill(); c.fillRect(0, 1, 30, 14); });
	if (data.marks.length) add("violation", c => { c.fillStyle = badFill(); c.fillRect(1, 2, 28, 12); c.strokeStyle = ink.bad; c.lineWidth = 2; c.strokeRect(1, 2, 28, 12); });
	$("legend").replaceChildren(...list);
}

const chart = $("chart"), overview = $("overview");
chart.addEventListener("pointerdown", e => { if (e.button === 0 && e.pointerType !== "touch" && e.offsetX > gutter) { dragged = { from: e.offsetX, to: e.offsetX }; chart.setPointerCapture(e.pointerId); } });
chart.addEventListener("pointermove", e => {
	if (dragged) { dragged.to = Math.min(Math.max(e.offsetX, gutter), width); requestAnimationFrame(draw); return; }
	const i = under(e);
	if (i === hovered) return;
	hovered = i;
	if (i) tell(i);
	requestAnimationFrame(draw);
});
chart.addEventListener("pointerup", e => {
	const d = dragged;
	dragged = null;
	if (d && Math.abs(d.to - d.from) > 5) show(at(Math.min(d.from, d.to)), at(Math.max(d.from, d.to)));
	else { const i = under(e); if (i) select(i); }
});
chart.addEventListener("pointercancel", () => { dragged = null; requestAnimationFrame(draw); });
chart.addEventListener("pointerleave", () => { hovered = null; requestAnimationFrame(draw); });
chart.addEventListener("dblclick", () => show(whole.from, whole.to));
chart.addEventListener("wheel", e => { if (e.ctrlKey || e.metaKey) { e.preventDefault(); zoom(Math.exp(e.deltaY / 300), at(e.offsetX)); } }, { passive: false });
const pan = e => { if (e.buttons) { const t = (e.offsetX - gutter) / (width - gutter) * whole.to, half = (view.to - view.from) / 2; show(t - half, t + half); } };
overview.addEventListener("pointerdown", e => { overview.setPointerCapture(e.pointerId); pan(e); });
overview.addEventListener("pointermove", pan);

const keys = {
	"+": () => zoom(.5), "=": () => zoom(.5), "-": () => zoom(2), "0": () => show(whole.from, whole.to), v: () => jump(current + 1), V: () => jump(current - 1),
	ArrowRight: () => step(1), ArrowLeft: () => step(-1), ArrowDown: () => stepRow(1), ArrowUp: () => stepRow(-1),
};
const start = () => rows.flatMap(r => r.items[first(r.items, view.from)] || [])[0];
function step(by) {
	if (!selected) { const i = start(); if (i) select(i); return; }
	const items = selected.row.items, i = items[items.indexOf(selected) + by];
	if (i) select(i);
}
function stepRow(by) {
	if (!selected) return step(by);
	for (let n = rows.indexOf(selected.row) + by; rows[n]; n += by) {
		const i = rows[n].items[Math.min(first(rows[n].items, selected.from), rows[n].items.length - 1)];
		if (i) return select(i);
	}
}
chart.addEventListener("keydown", e => { if (keys[e.key] && !e.ctrlKey && !e.metaKey && !e.altKey) { e.preventDefault(); keys[e.key](); } });
for (const [id, key] of [["whole", "0"], ["in", "+"], ["out", "-"], ["next", "v"], ["previous", "V"]]) if ($(id)) $(id).addEventListener("click", () => keys[key]());
document.querySelectorAll("[data-mark]").forEach(b => b.addEventListener("click", () => { jump(+b.dataset.mark); chart.scrollIntoView({ block: "nearest" }); }));

function restyle() { look(); legend(); draw(); }
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
new ResizeObserver(() => requestAnimationFrame(draw)).observe(document.body);
restyle();
jump(0);
