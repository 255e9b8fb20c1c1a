// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"minne/internal/base/figure"
)

// Prometheus' own parser reads what is served; a figure that can't be read is an error, not a gap.
func TestHandler(t *testing.T) {
	received := figure.Family{Name: "node_network_receive_bytes_total", Help: "Bytes received.", Labels: []string{"device"}, Counter: true}
	received.Add(1<<53, "lan")
	received.Add(7, "wan\"}\n")
	var failed error
	h := Handler(func(context.Context) ([]figure.Family, error) {
		return []figure.Family{received, {Name: "minne_revision", Samples: []figure.Sample{{Value: 3}}}}, failed
	}, slog.New(slog.DiscardHandler))
	scrape := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w
	}
	w := scrape()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	found, err := parser.TextToMetricFamilies(w.Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatal(w.Code, err)
	}
	f := found["node_network_receive_bytes_total"]
	if f.GetType().String() != "COUNTER" || len(f.GetMetric()) != 2 || f.GetMetric()[0].GetCounter().GetValue() != 1<<53 || f.GetMetric()[1].GetLabel()[0].GetValue() != "wan\"}\n" {
		t.Errorf("%v", f)
	}
	if v := found["minne_revision"].GetMetric()[0].GetGauge().GetValue(); v != 3 {
		t.Errorf("revision %v", v)
	}
	failed = errors.New("no answer")
	if w := scrape(); w.Code != http.StatusInternalServerError {
		t.Errorf("a failed reading: %d", w.Code)
	}
}
