// SPDX-License-Identifier: Apache-2.0

// Package metrics serves the router's figures to Prometheus, on the interfaces that are named and on no other: the socket is bound
// to the interface, so that a packet that comes in by another one finds nobody, whatever its address and whatever the
// firewall says.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"

	"minne/internal/base/figure"
	"minne/internal/base/listen"
	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services/resident"
	"minne/internal/subsystem/services/service"
)

// Service is figures for Prometheus to the other parts.
var Service = service.Descriptor{
	Name:     "metrics",
	Title:    "metrics",
	Openings: openings,
	New: func(h service.Host) service.Running {
		w := &server{handler: Handler(h.Figures, h.Log)}
		s := resident.New(resident.Kind[Settings]{Name: "metrics", Title: "figures for Prometheus", Fact: fact, Work: w.work}, h.Log)
		r := service.Of(s, func(cfg *config.Config, _ config.Secrets) (map[string]Settings, error) { return Render(cfg), nil })
		r.Task, r.Stop, r.States, r.Down, r.Returned = s, s.Stop, s.States, s.Down, s.Returned
		return r
	},
}

func openings(cfg *config.Config) []policy.Opening {
	m := cfg.Services.Metrics
	if m == nil {
		return nil
	}
	return []policy.Opening{{Text: "metrics", Protocols: []uint8{unix.IPPROTO_TCP}, Port: uint16(m.Port), Interfaces: m.Interfaces}}
}

// Settings is what one interface has.
type Settings struct{ Port int }

// Render is what a configuration asks for, by interface.
func Render(cfg *config.Config) map[string]Settings {
	all := map[string]Settings{}
	if m := cfg.Services.Metrics; m != nil {
		for _, name := range m.Interfaces {
			all[name] = Settings{m.Port}
		}
	}
	return all
}

func fact(name string, s Settings) string {
	return fmt.Sprintf("/metrics on %s, port %d", name, s.Port)
}

// Bounds of what is served: a scrape is some milliseconds of the daemon's time.
const (
	mostScrapes = 2 // at a time
	mostSamples = 2000
	scrapeLimit = 10 * time.Second
	idleLimit   = 2 * time.Minute
)

type server struct{ handler http.Handler }

// work serves one interface until ctx ends.
func (w *server) work(ctx context.Context, name string, s Settings, up func()) error {
	socket, err := listen.On(ctx, name, s.Port)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", name, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", w.handler)
	h := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 2 * scrapeLimit, IdleTimeout: idleLimit, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)} // what strangers send is no news
	defer context.AfterFunc(ctx, func() { h.Close() })()
	up()
	if err := h.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Handler answers with the figures that read returns; nil has none.
func Handler(read func(context.Context) ([]figure.Family, error), log *slog.Logger) http.Handler {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{read})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: mostScrapes, Timeout: scrapeLimit,
		ErrorHandling: promhttp.HTTPErrorOnError, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)})
}

// collector makes Prometheus' figures of the router's, at each scrape. What there is differs from one to the next (interfaces come
// and go), so it describes nothing beforehand.
type collector struct {
	read func(context.Context) ([]figure.Family, error)
}

func (collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(out chan<- prometheus.Metric) {
	if c.read == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeLimit)
	defer cancel()
	families, err := c.read(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewDesc("minne_figures", "The router's figures can't be read.", nil, nil), err)
		return
	}
	for _, f := range families {
		desc := prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
		kind := prometheus.GaugeValue
		if f.Counter {
			kind = prometheus.CounterValue
		}
		for _, s := range f.Samples[:min(len(f.Samples), mostSamples)] {
			m, err := prometheus.NewConstMetric(desc, kind, s.Value, s.Labels...)
			if err != nil {
				m = prometheus.NewInvalidMetric(desc, err)
			}
			out <- m
		}
	}
}
