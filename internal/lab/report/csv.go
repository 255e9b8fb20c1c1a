// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strconv"
	"time"

	"minne/internal/lab/result"
)

// The CSV files: one for every section that has figures, one row for every
// observation, units in the header, values unrounded.

// sheet is a CSV file in the making.
type sheet struct {
	name string
	rows [][]string
}

func newSheet(name string, header ...string) *sheet {
	return &sheet{name: name + ".csv", rows: [][]string{header}}
}

func (s *sheet) add(values ...any) {
	row := make([]string, len(values))
	for i, v := range values {
		row[i] = plain(v)
	}
	s.rows = append(s.rows, row)
}

// plain writes a value as any program reads it: durations in ns, times as RFC 3339.
func plain(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, format(v), -1, 64)
	case time.Duration:
		return strconv.FormatInt(int64(v), 10)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprint(v)
}

// format avoids exponents where plain digits do.
func format(v float64) byte {
	if a := max(v, -v); a != 0 && (a < 1e-6 || a >= 1e15) {
		return 'g'
	}
	return 'f'
}

func (s *sheet) bytes() ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.WriteAll(s.rows); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return b.Bytes(), nil
}

// subjectHeader and about are the columns that every section starts with.
var subjectHeader = []string{"device", "traffic", "frame_bytes", "mix", "mean_bytes"}

func (s *sheet) about(subject result.Subject, values ...any) {
	s.add(append([]any{subject.Device, subject.Traffic, subject.FrameSize, subject.Mix, subject.MeanSize}, values...)...)
}

func subjectSheet(name string, header ...string) *sheet {
	return newSheet(name, append(append([]string(nil), subjectHeader...), header...)...)
}

// sheetNames are all files that sheets can make, so that stale ones are known.
func sheetNames() (out []string) {
	for _, s := range sheets(&result.Result{}) {
		out = append(out, s.name)
	}
	return out
}

func sheets(r *result.Result) []*sheet {
	return append(rateSheets(r), append(delaySheets(r), append(longSheets(r), trialSheets(r)...)...)...)
}

func rateSheets(r *result.Result) []*sheet {
	throughput := subjectSheet("throughput", "goal", "goal_loss_ratio", "goal_exceed_ratio", "goal_final_duration_ns", "goal_duration_sum_ns", "goal_width", "lower_fps", "upper_fps", "conditional_throughput_fps", "irregular", "min_load_fps", "max_load_fps", "trials", "took_ns")
	for _, m := range r.Throughput {
		for _, b := range m.Bounds {
			g := b.Goal
			throughput.about(m.Subject, g.Name, g.LossRatio, g.ExceedRatio, g.FinalDuration, g.DurationSum, g.Width, b.Lower, b.Upper, b.Conditional, b.Irregular, m.MinLoad, m.MaxLoad, m.Trials, m.Took)
		}
	}
	mrr := subjectSheet("mrr", "trial", "offered_fps", "received_fps", "mean_fps", "deviation_fps")
	for _, m := range r.MRR {
		for i, v := range m.Rates {
			mrr.about(m.Subject, i+1, m.Offered, v, m.Mean, m.Deviation)
		}
	}
	comparisons := newSheet("comparisons", "a", "b", "traffic", "frame_bytes", "mix", "mean_bytes", "a_fps", "b_fps", "ratio", "ratio_low", "ratio_high", "cost_ratio", "cost_ratio_low", "cost_ratio_high", "a_a", "a_a_low", "a_a_high", "rounds", "voided", "lost_frames", "verdict")
	for _, c := range r.Comparisons {
		cost := []any{"", "", ""}
		if c.CostRatio != nil {
			cost = []any{c.CostRatio.Median, c.CostRatio.Low, c.CostRatio.High}
		}
		comparisons.add(append(append([]any{c.A, c.B, c.Traffic, c.FrameSize, c.Mix, c.MeanSize, c.RateA, c.RateB, c.Ratio.Median, c.Ratio.Low, c.Ratio.High}, cost...),
			c.SameSame.Median, c.SameSame.Low, c.SameSame.High, c.Rounds, c.Voided, c.Lost, c.Verdict)...)
	}
	cost := subjectSheet("cost", "per_packet_ns", "per_packet_low_ns", "per_packet_high_ns", "with_ns", "with_low_ns", "with_high_ns", "without_ns", "without_low_ns", "without_high_ns", "a_a_ns", "a_a_low_ns", "a_a_high_ns", "rounds", "voided", "lost_frames")
	for _, c := range r.Cost {
		var values []any
		for _, i := range []result.Interval{c.PerPacket, c.With, c.Without, c.SameSame} {
			values = append(values, i.Median, i.Low, i.High)
		}
		cost.about(c.Subject, append(values, c.Rounds, c.Voided, c.Lost)...)
	}
	return []*sheet{throughput, mrr, comparisons, cost}
}

func delaySheets(r *result.Result) []*sheet {
	loss := subjectSheet("loss", "share", "offered_fps", "forwarded_fps", "loss_ratio")
	for _, c := range r.Loss {
		for _, p := range c.Points {
			loss.about(c.Subject, p.Share, p.Offered, p.Forward, p.Loss)
		}
	}
	latency := subjectSheet("latency", append([]string{"pdr_fps", "share"}, delayHeader...)...)
	spectrum := subjectSheet("latency_spectrum", "share", "offered_fps", "latency_ns", "frames")
	for _, l := range r.Latency {
		for _, p := range l.Loads {
			latency.about(l.Subject, append([]any{l.PDR, p.Share}, delayValues(p)...)...)
			for _, bar := range p.Spectrum.Bars() {
				spectrum.about(l.Subject, p.Share, p.Offered, bar.At, bar.Count)
			}
		}
	}
	bursts := subjectSheet("back_to_back", "repetition", "burst_frames", "mean_frames", "deviation_frames", "burst_rate_fps", "throughput_fps", "implied_buffer_time_ns", "corrected_buffer_time_ns", "unbounded")
	for _, b := range r.BackToBack {
		for i, n := range b.Bursts {
			bursts.about(b.Subject, i+1, n, b.Mean, b.Deviation, b.BurstRate, b.Throughput, b.BufferTime, b.Corrected, b.Unbounded)
		}
	}
	recovery := subjectSheet("recovery", "event", "method", "load_fps", "repetition", "outage_ns", "lost_frames")
	for _, m := range r.Recovery {
		for i, d := range m.Each {
			lost := any("")
			if i < len(m.Lost) {
				lost = m.Lost[i]
			}
			recovery.about(m.Subject, m.Event, m.Method, m.Load, i+1, d, lost)
		}
	}
	responsiveness := newSheet("responsiveness", append([]string{"device", "state", "tcp_bps", "round_trips_per_minute"}, delayHeader...)...)
	for _, m := range r.Responsiveness {
		responsiveness.add(append([]any{m.Device, "idle", "", ""}, delayValues(m.Idle)...)...)
		responsiveness.add(append([]any{m.Device, "loaded", m.BitRate, m.RPM}, delayValues(m.Loaded)...)...)
	}
	return []*sheet{loss, latency, spectrum, bursts, recovery, responsiveness}
}

var delayHeader = []string{"offered_fps", "loss_ratio", "min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns", "bias_p50_ns"}

func delayValues(p result.LatencyPoint) []any {
	return []any{p.Offered, p.Loss, p.Min, p.P50, p.P90, p.P99, p.P999, p.Max, p.Bias}
}

func longSheets(r *result.Result) []*sheet {
	soak := subjectSheet("soak", "load_fps", "at_ns", "sent_frames", "received_frames", "latency_p50_ns")
	for _, m := range r.Soak {
		for _, p := range m.Series {
			soak.about(m.Subject, m.Load, p.At, p.Sent, p.Received, p.Latency)
		}
	}
	energy := subjectSheet("energy", "source", "missing", "share", "rate_fps", "bit_rate_bps", "power_w", "cpu_share", "cpu_ns_per_packet", "joule_per_packet", "joule_per_gbit")
	for _, m := range r.Energy {
		for _, p := range m.Steps {
			watts := any(p.Watts)
			if m.Missing != "" {
				watts = ""
			}
			energy.about(m.Subject, m.Source, m.Missing, p.Share, p.Rate, p.BitRate, watts, p.CPUShare, p.CPUPacket, m.JoulePerPacket, m.JoulePerGbit)
		}
	}
	matrix := newSheet("matrix", "device", "path", "family", "protocol", "packet_bytes", "payload_bytes", "goodput_bps", "packets_fps", "loss_ratio", "retransmits", "cpu_percent", "failed")
	for _, m := range r.Matrix {
		for _, c := range m.Cells {
			matrix.add(m.Device, m.Path, c.Family, c.Protocol, c.Bytes, c.Payload, c.BitRate, c.Packets, c.Loss, c.Retransmits, c.CPUPercent, c.Failed)
		}
	}
	papers := newSheet("papers", "name", "source", "figure", "unit", "paper", "paper_says", "measured", "low", "high", "missing")
	for _, p := range r.Papers {
		for _, w := range p.Rows {
			papers.add(p.Name, p.Source, w.What, w.Unit, w.Paper, w.PaperSays, w.Measured, w.Low, w.High, w.Missing)
		}
	}
	return []*sheet{soak, energy, matrix, papers}
}

func trialSheets(r *result.Result) []*sheet {
	trials := newSheet("trials", "trial", "started", "device", "traffic", "purpose", "void", "rate_fps", "duration_ns", "frames", "elapsed_ns", "intended", "sent", "received", "lost", "duplicated", "reordered", "corrupted", "bad_ttl", "bad_header", "bad_mac", "latency_p50_ns", "latency_p99_ns", "latency_max_ns", "silence_ns", "gaps", "gap_ns", "cpu_ns")
	streams := newSheet("streams", "trial", "stream", "name", "sent", "received", "duplicated", "reordered", "corrupted", "received_bytes")
	for i, t := range r.Trials {
		trials.add(i+1, t.Started, t.Device, t.Traffic, t.Purpose, t.Void, t.Rate, t.Duration, t.Frames, t.Elapsed, t.Intended, t.Sent, t.Received, t.Lost(), t.Duplicated, t.Reordered, t.Corrupted, t.BadTTL, t.BadHeader, t.BadMAC,
			t.Latency.Quantile(0.5), t.Latency.Quantile(0.99), t.Latency.Max(), t.Silence, t.Gaps, t.GapTime, t.CPU)
		for _, s := range t.Streams {
			streams.add(i+1, s.ID, s.Name, s.Sent, s.Received, s.Duplicated, s.Reordered, s.Corrupted, s.Bytes)
		}
	}
	return []*sheet{trials, streams}
}
