package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/programs"
)

// acts is what a test does with a page: it uses the keys and the mouse, and writes what it sees into the page.
const acts = `
const seen = { first: $("here").textContent, locks: [...document.querySelectorAll("#legend span")].map(s => s.textContent) };
const press = key => { chart.dispatchEvent(new KeyboardEvent("keydown", { key })); draw(); return $("here").textContent; };
const box = () => chart.getBoundingClientRect();
chart.setPointerCapture = () => {};
const mouse = (type, x, y) => chart.dispatchEvent(new PointerEvent(type, { clientX: box().left + x, clientY: box().top + y, buttons: 1 }));
seen.zoomed = view.to - view.from;
press("0");
seen.whole = view.to - view.from;
seen.drawn = drawnItems;
seen.call = press("ArrowRight");
seen.nextRow = press("ArrowDown");
const overlap = rows[0].items[0], px = x((overlap.from + overlap.to) / 2);
mouse("pointermove", px, rows[0].y + 5);
seen.hovered = $("here").textContent;
mouse("pointerdown", px, 40); mouse("pointermove", px + 100, 40); mouse("pointerup", px + 100, 40);
draw();
seen.dragged = view.to - view.from;
seen.violation = press("v");
const points = chart.getContext("2d").getImageData(0, 0, chart.width, rows[1].y + rows[1].h).data;
for (let i = 0; i < points.length; i += 4) if (points[i] > 180 && points[i + 1] < 50 && points[i + 2] < 50) seen.red = (seen.red || 0) + 1;
const told = document.createElement("pre");
told.id = "seen";
told.textContent = JSON.stringify(seen);
document.body.append(told);
`

// TestThePageInABrowser opens pages in a browser without a screen.
func TestThePageInABrowser(t *testing.T) {
	programs.Need(t, "chromium")
	dir := t.TempDir()
	open := func(name string, p Page, more string) (write func(args ...string) string) {
		file := filepath.Join(dir, name)
		defer func(before string) { acting = before }(acting)
		acting += more
		if err := Create(file, p); err != nil {
			t.Fatal(err)
		}
		return func(args ...string) string { return browse(t, dir, append(args, "file://"+file)...) }
	}
	t.Run("keys, mouse and names", func(t *testing.T) {
		dom := open("acts.html", scene(), acts)("--dump-dom")
		_, text, _ := strings.Cut(dom, `<pre id="seen">`)
		text, _, _ = strings.Cut(text, "</pre>")
		var seen struct {
			First, Call, NextRow, Hovered, Violation string
			Locks                                    []string
			Zoomed, Whole, Dragged                   float64
			Drawn, Red                               int
		}
		if err := json.Unmarshal([]byte(html.UnescapeString(text)), &seen); err != nil {
			t.Fatalf("%v: %s", err, dom)
		}
		for _, tt := range []struct{ name, got, want string }{
			{"the page begins with", seen.First, "two holders at 0:02.40"},
			{"the key v says", seen.Violation, "two holders at 0:02.40"},
			{"the arrow to the right says", seen.Call, "Call 0.0.0.1 (queueing) held “" + hostile[0] + "” for 1 s, from 0:01.90"},
			{"the arrow down says", seen.NextRow, "Call 1.0.0.1 (queueing) held"},
			{"the mouse over the first holding says", seen.Hovered, "two holders: 0.0.0.1 held"},
			{"the legend says", strings.Join(seen.Locks, "|"), hostile[0] + "|" + hostile[1]},
			{"the list says", dom, `data-mark="0">0:02.401</button> <b>two holders</b>`},
			{"the title is", dom, "<title>✗ a run</title>"},
		} {
			if !strings.Contains(tt.got, tt.want) {
				t.Errorf("%s %q, want %q", tt.name, tt.got, tt.want)
			}
		}
		if seen.Red < 1000 {
			t.Errorf("%d points of the lock with two holders are red", seen.Red)
		}
		if seen.Zoomed >= seen.Whole || seen.Dragged >= seen.Whole || seen.Drawn < 9 {
			t.Errorf("the times shown are %v at first, %v of the whole, %v after a drag, with %d things drawn", seen.Zoomed, seen.Whole, seen.Dragged, seen.Drawn)
		}
	})
	t.Run("pictures", func(t *testing.T) {
		for _, tt := range []struct {
			name, scheme string // 0: dark; 1: light
			page         Page
			size         string
			paper, mark  color.NRGBA // the background, and what must be seen
		}{
			{"two holders, light", "1", scene(), "1400,1000", color.NRGBA{0xfc, 0xfc, 0xfa, 255}, color.NRGBA{0xc0, 0x20, 0x1c, 255}},
			{"5000 holdings, dark", "0", crowd(), "700,1200", color.NRGBA{0x15, 0x17, 0x1a, 255}, color.NRGBA{0x86, 0xb1, 0xe8, 255}},
		} {
			picture := filepath.Join(dir, tt.name+".png")
			open(tt.name+".html", tt.page, "")("--screenshot="+picture, "--window-size="+tt.size, "--blink-settings=preferredColorScheme="+tt.scheme)
			colors := count(t, picture)
			all := 0
			for _, n := range colors {
				all += n
			}
			if len(colors) < 100 || colors[tt.paper] < all/4 || colors[tt.mark] < 300 {
				t.Errorf("%s: %d colors, and of %d points %d are paper and %d are %v", tt.name, len(colors), all, colors[tt.paper], colors[tt.mark], tt.mark)
			}
		}
	})
}

// crowd returns a page of five minutes with 5000 holdings.
func crowd() Page {
	var p Page
	for i := range int64(5000) {
		client := int(i % 12)
		p.Ops = append(p.Ops, stay(fmt.Sprintf("%d.0.%d.%d", client, i%24/12, i), fmt.Sprint("lock", i%2), client, 10+i*60, 60+i*60))
	}
	return p
}

// browse starts the browser, and returns its output. It fails the test if the page has an error.
func browse(t *testing.T, dir string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// A sandbox needs rights that a container does not have. The page is ours.
	cmd := programs.CommandContext(ctx, t, "chromium", append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--no-first-run", "--enable-logging=stderr", "--v=0", "--user-data-dir=" + filepath.Join(dir, "profile")}, args...)...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("chromium: %v\n%s", err, errOut.String())
	}
	for line := range strings.Lines(errOut.String()) {
		if strings.Contains(line, ":CONSOLE") {
			t.Errorf("the page says on the console: %s", line)
		}
	}
	return string(out)
}

// count returns how many points of a picture have each color.
func count(t *testing.T, file string) map[color.NRGBA]int {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	picture, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	colors := make(map[color.NRGBA]int)
	b := picture.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			colors[color.NRGBAModel.Convert(picture.At(x, y)).(color.NRGBA)]++
		}
	}
	return colors
}
