package bench

import (
	"flag"
	"image/color"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/evalfleet/evalfleet/enqueue"
	"github.com/evalfleet/evalfleet/internal/testing/redistest"
	"github.com/evalfleet/evalfleet/internal/testing/testrun"
	"github.com/evalfleet/evalfleet/internal/text/wording"
	"github.com/evalfleet/evalfleet/providers"
	"github.com/evalfleet/evalfleet/ratelimit"
	"github.com/evalfleet/evalfleet/worker"
)

var plots = flag.String("plots", "", "FOLDER in which BenchmarkGrowth plots what it measured")

// BenchmarkGrowth is how cost grows: with the runs of an evaluation, with workers that share a
// fixed load, and with active evaluations. -plots FOLDER draws each on two logarithmic axes.
func BenchmarkGrowth(b *testing.B) {
	b.Run("runs", func(b *testing.B) {
		grow(b, "runs", sized([]int{2, 10}, []int{2, 4, 10, 32, 100, 316, 1000, 3163}), submitMany)
	})
	b.Run("workers", func(b *testing.B) {
		grow(b, "workers", sized([]int{1, 2}, []int{1, 2, 5, 10, 20, 50, 100, 200}), shareLoad)
	})
	program := build(b)
	b.Run("evaluations", func(b *testing.B) {
		grow(b, "evaluations", sized([]int{1, 2}, []int{1, 10, 100, 1000}), func(b *testing.B, active int) (int, []reading) {
			i := idleController(b, program, active, 0)
			return active, []reading{
				{"commands of the controller a second", i.commands}, {"Redis's CPU, ms a second", 1000 * i.redis}, {"GET /scale, ms", i.scale},
			}
		})
	})
}

// reading is one point of a line, by the line's name.
type reading struct {
	line  string
	value float64
}

// grow measures at each size, and plots the readings over what measure says the size is.
func grow(b *testing.B, axis string, sizes []int, measure func(*testing.B, int) (int, []reading)) {
	var names []string
	lines := map[string]plotter.XYs{}
	for b.Loop() {
		for _, size := range sizes {
			x, readings := measure(b, size)
			for _, r := range readings {
				if !slices.Contains(names, r.line) {
					names = append(names, r.line)
				}
				lines[r.line] = append(lines[r.line], plotter.XY{X: float64(x), Y: r.value})
			}
			b.Logf("%d %s: %v", x, axis, readings)
		}
	}
	if *plots != "" {
		if err := draws(axis, names, lines).Save(16*vg.Centimeter, 8*vg.Centimeter, filepath.Join(*plots, "growth-"+axis+".svg")); err != nil {
			b.Fatal(err)
		}
	}
}

// draws is a plot on two logarithmic axes. Readings of 0 are left out.
func draws(axis string, names []string, lines map[string]plotter.XYs) *plot.Plot {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	p := plot.New()
	p.BackgroundColor = color.White
	p.Legend.TextStyle.Font.Size, p.X.Label.TextStyle.Font.Size = vg.Points(9), vg.Points(9)
	p.Legend.Padding = vg.Points(2)
	p.X.Label.Text = axis
	p.Legend.Top, p.Legend.Left = true, true
	least, most := math.Inf(1), 0.0
	for i, name := range names {
		points := slices.DeleteFunc(lines[name], func(at plotter.XY) bool { return at.Y <= 0 })
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			continue // no reading is above 0
		}
		line.Color = []color.Color{color.RGBA{0x1f, 0x5f, 0xa8, 255}, color.RGBA{0xc2, 0x41, 0x0c, 255}, color.RGBA{0x2f, 0x7d, 0x32, 255}}[i%3]
		dots.Color, dots.Shape, dots.Radius = line.Color, draw.CircleGlyph{}, vg.Points(2.5)
		p.Add(line, dots)
		p.Legend.Add(name, line, dots)
		for _, at := range points {
			least, most = min(least, at.Y), max(most, at.Y)
		}
	}
	decade := func(value float64, round func(float64) float64) float64 {
		return math.Pow(10, round(math.Log10(value)))
	}
	p.Y.Min, p.Y.Max = decade(least, math.Floor), 30*decade(most, math.Ceil) // the legend is above the lines
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = decades{}, decades{}
	p.Add(plotter.NewGrid())
	return p
}

// decades marks the powers of ten.
type decades struct{}

func (decades) Ticks(least, most float64) (ticks []plot.Tick) {
	for power := math.Ceil(math.Log10(least)); power <= math.Log10(most)+1e-9; power++ {
		value := math.Pow(10, power)
		ticks = append(ticks, plot.Tick{Value: value, Label: wording.Short(int64(value))})
	}
	return ticks
}

// submitMany submits an evaluation of documents·(documents−1) runs, and has a worker execute the
// first 1,000, or all.
func submitMany(b *testing.B, documents int) (runs int, readings []reading) {
	client := redistest.New(b).Client()
	e, texts := pairs(b, documents)
	empty, began := memoryOf(b, client), time.Now()
	receipt := submit(b, client, enqueue.Submission{Evaluation: e, Texts: texts})
	submitted, kept := time.Since(began), memoryOf(b, client)-empty
	provider := &atOnce{}
	stop := work(b, worker.Config{Client: client, Endpoints: map[string]providers.Endpoint{"p": {Provider: provider, Key: "k"}}, Slots: 100})
	begun(b, provider.calls.Load)
	began = time.Now()
	testrun.Eventually(b, "the first 1,000 runs", func() bool { return provider.calls.Load() >= int64(min(1000, receipt.Runs)) })
	first := time.Since(began)
	stop()
	return receipt.Runs, []reading{
		{"submission, ms", submitted.Seconds() * 1000}, {"Redis's memory after it, KB", kept / 1000}, {"first 1,000 runs, ms", first.Seconds() * 1000},
	}
}

func memoryOf(b *testing.B, client *redis.Client) float64 {
	used, err := strconv.ParseFloat(info(b, client, "memory")["used_memory"], 64)
	if err != nil {
		b.Fatal(err)
	}
	return used
}

// shareLoad has workers execute 200 runs a second together: a limit lets 40 calls of 200 ms be in
// flight.
func shareLoad(b *testing.B, workers int) (int, []reading) {
	const inFlight, latency = 40, 200 * time.Millisecond
	client := redistest.New(b).Client()
	e, texts := pairs(b, 200)
	submit(b, client, enqueue.Submission{Evaluation: e, Texts: texts},
		ratelimit.Limit{Scope: ratelimit.Scope{Provider: "p"}, Kind: ratelimit.Concurrency, Max: inFlight})
	provider := &atOnce{latency: latency}
	for range workers {
		own := redis.NewClient(client.Options())
		defer own.Close()
		defer work(b, worker.Config{Client: own, Endpoints: map[string]providers.Endpoint{"p": {Provider: provider, Key: "k"}}, Slots: inFlight})()
	}
	begun(b, provider.calls.Load)
	m := measure(b, client, pathSettings{warm: sized(time.Second, 3*time.Second), measured: sized(time.Second, 8*time.Second)}, provider.calls.Load)
	return workers, []reading{
		{"runs a second", m.rate()}, {"Redis's CPU a run, µs", m.micros(m.redis)}, {"scripts a run", float64(m.sent) / float64(m.runs)},
	}
}
