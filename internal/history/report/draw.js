"use strict";
addEventListener("error", e => { document.getElementById("here").textContent = "The script of this page has failed: " + e.message; });
const $ = id => document.getElementById(id);
const data = JSON.parse($("data").textContent);

// A row is a line of a lane. Its items are in the order of time, and none overlaps the next one.
const rows = [], groups = data.groups;
const rowHeight = { lock: 22, client: 15, master: 13 }, strip = 12, gap = 9; // pixels; the strip above the rows has the names of faults
let height = 4;
groups.forEach((g, i) => {
	g.index = i;
	g.bands = [];
	g.top = height;
	height += g.kind === "lock" ? 0 : strip;
	g.first = rows.length;
	g.rows.forEach(label => {
		rows.push({ group: g, label, y: height, h: rowHeight[g.kind], items: [] });
		height += rowHeight[g.kind] + 2;
	});
	g.bottom = height;
	height += groups[i + 1] && groups[i + 1].kind !== g.kind ? gap * 2 : gap;
});
data.bands.forEach(b => groups[b.group].bands.push(b));
data.held.forEach(([op, lock, row]) => rows[row].items.push({ op: data.ops[op], lock, from: data.ops[op].entered, to: data.ops[op].held }));
data.ops.forEach((op, i) => {
	op.index = i;
	const items = rows[op.row].items, last = items[items.length - 1];
	const to = Math.max(op.refused || 0, op.entered || 0, op.held || 0, op.lost || 0, op.left || 0);
	if (last && !last.to) last.to = op.asked; // a process that was killed has left no end
	items.push({ op, from: op.asked, to: op.left || op.refused ? to : 0, open: !(op.left || op.refused) });
});
rows.forEach(r => {
	r.items.forEach(i => { i.to = i.to || data.length; i.row = r; });
	r.items.sort((a, b) => a.from - b.from);
});

const confirmed = op => op.entered && op.held >= op.entered;
const lockName = op => op.locks.map(l => "“" + data.locks[l] + "”").join(" and ");

// time returns a time in minutes and seconds, with a number of digits behind the point.
function time(us, digits = 6) {
	const unit = 10 ** (6 - digits);
	us = Math.round(us / unit) * unit;
	const s = (us % 6e7) / 1e6;
	return Math.floor(us / 6e7) + ":" + s.toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
}

function length(us) {
	return us < 1000 ? us + " µs" : us < 1e6 ? +(us / 1000).toPrecision(3) + " ms" : +(us / 1e6).toPrecision(4) + " s";
}

// The look. It follows the colors of the style, which follow the system.
let ink = {};
const patterns = new Map();
function look() {
	const style = getComputedStyle(document.documentElement);
	for (const name of ["paper", "panel", "line", "ink", "soft", "grid", "bad", "late", "fault", "on", "focus"]) ink[name] = style.getPropertyValue("--" + name).trim();
	ink.locks = [0, 1, 2, 3, 4, 5, 6, 7].map(i => style.getPropertyValue("--lock" + i).trim());
	patterns.clear();
}
const lockColor = lock => ink.locks[lock % 8];

// The marks on the color of a lock, so that locks differ without colors.
const strokes = [
	[], [[0, 8, 8, 0]], [[2, 2, 4, 2], [6, 6, 8, 6]], [[0, 2, 8, 2], [0, 6, 8, 6]], [[0, 0, 8, 8]],
	[[2, 0, 2, 8], [6, 0, 6, 8]], [[0, 0, 8, 8], [0, 8, 8, 0]], [[0, 4, 8, 4], [4, 0, 4, 8]],
];
function tile(key, back, front, lines, width) {
	if (!patterns.has(key)) {
		const t = document.createElement("canvas");
		t.width = t.height = 8;
		const c = t.getContext("2d");
		if (back) { c.fillStyle = back; c.fillRect(0, 0, 8, 8); }
		c.strokeStyle = front;
		c.lineWidth = width;
		c.beginPath();
		for (const [x0, y0, x1, y1] of lines) for (const dx of [-8, 0, 8]) { c.moveTo(x0 + dx, y0); c.lineTo(x1 + dx, y1); }
		c.stroke();
		patterns.set(key, c.createPattern(t, "repeat"));
	}
	return patterns.get(key);
}
const lockFill = lock => tile("lock" + lock % 56, lockColor(lock), ink.on, strokes[(lock + (lock >> 3)) % 8], 1.1);
const faultFill = () => tile("fault", "", ink.fault, [[0, 8, 8, 0]], .7);
const stopFill = () => tile("stop", "", ink.fault, [[0, 8, 8, 0], [0, 0, 8, 8]], 1.2);
const badFill = () => tile("bad", "", ink.bad, [[0, 8, 8, 0], [-4, 4, 4, -4], [4, 12, 12, 4]], 1.8);

const font = size => size + "px system-ui, 'Liberation Sans', Arial, sans-serif";

// fit makes a canvas as sharp as the screen, and returns its context.
function fit(canvas, w, h) {
	const dpr = devicePixelRatio || 1;
	if (canvas.width !== Math.round(w * dpr) || canvas.height !== Math.round(h * dpr)) {
		canvas.width = Math.round(w * dpr);
		canvas.height = Math.round(h * dpr);
		canvas.style.height = h + "px";
	}
	const c = canvas.getContext("2d");
	c.setTransform(dpr, 0, 0, dpr, 0, 0);
	c.clearRect(0, 0, w, h);
	c.textBaseline = "middle";
	c.textAlign = "left";
	return c;
}

// plate writes text on a plate of a color, and returns its width.
function plate(c, text, x, y, back, front, size = 10.5) {
	c.font = font(size);
	const w = c.measureText(text).width + 6;
	c.fillStyle = back;
	c.fillRect(x, y - size / 2 - 2, w, size + 4);
	c.fillStyle = front;
	c.fillText(text, x + 3, y + .5);
	return w;
}

// shortened returns as much of a text as has room, from its beginning or its end.
function shortened(c, text, room, fromEnd) {
	if (c.measureText(text).width <= room) return text;
	for (let n = text.length - 1; n > 2; n--) {
		const t = fromEnd ? "…" + text.slice(-n) : text.slice(0, n) + "…";
		if (c.measureText(t).width <= room) return t;
	}
	return "";
}

// holding draws what was held: a part of the height for each lock. Its label is drawn later, over the marks of violations.
const labels = [];
function holding(c, locks, x, y, w, h, label, dim) {
	const part = h / locks.length;
	w = Math.max(w, 1.2);
	locks.forEach((lock, i) => {
		c.fillStyle = w < 4 ? lockColor(lock) : lockFill(lock);
		c.fillRect(x, y + i * part, w, part - (locks.length > 1 && i < locks.length - 1 ? 1 : 0));
	});
	if (dim) { c.fillStyle = ink.paper; c.globalAlpha = .5; c.fillRect(x, y + h / 2, w, h / 2); c.globalAlpha = 1; }
	if (w >= 30 && label) labels.push({ text: label, x: x + 2, y: y + h / 2, room: w - 10, color: lockColor(locks[0]) });
}

function drawHoldingLabels(c) {
	for (const l of labels) {
		c.font = font(10.5);
		const text = shortened(c, l.text, l.room, true);
		if (text) plate(c, text, l.x, l.y, l.color, ink.on);
	}
}

// cross marks a loss. Late ones have a frame.
function cross(c, x, y, late) {
	c.strokeStyle = late ? ink.late : ink.ink;
	c.lineWidth = 1.6;
	c.beginPath();
	c.moveTo(x - 3.5, y - 3.5); c.lineTo(x + 3.5, y + 3.5); c.moveTo(x - 3.5, y + 3.5); c.lineTo(x + 3.5, y - 3.5);
	if (late) c.rect(x - 6, y - 6, 12, 12);
	c.stroke();
}

// dashed draws a level line of dashes.
function dashed(c, x0, x1, y, color, dash) {
	c.strokeStyle = color;
	c.lineWidth = 1;
	c.setLineDash(dash);
	c.beginPath(); c.moveTo(x0, y); c.lineTo(x1, y); c.stroke();
	c.setLineDash([]);
}

function wait(c, locks, x0, x1, y, h, open) {
	c.globalAlpha = .32;
	c.fillStyle = lockColor(locks[0]);
	if (open) dashed(c, x0, x1, y + h - 2.5, lockColor(locks[0]), [2, 3]);
	else c.fillRect(x0, y + h - 5, Math.max(x1 - x0, .6), 5);
	c.globalAlpha = 1;
}
