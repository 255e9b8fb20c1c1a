// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"math/rand/v2"
	"time"

	"minne/internal/base/machine"
	"minne/internal/lab/histogram"
	"minne/internal/lab/result"
	"minne/internal/lab/trial"
)

var day = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

var rfcSizes = []int{64, 128, 256, 512, 1024, 1280, 1518}

// fixture is a made-up result that has everything that a result can have.
func fixture() *result.Result {
	random := rand.New(rand.NewPCG(1, 2))
	r := &result.Result{
		Schema: result.Schema, Title: "Kernel and fast path of a small router", Command: []string{"minne", "lab", "throughput", "--device", "kernel", "--device", "fast path", "--out", "report"},
		Started: day, Ended: day.Add(3*time.Hour + 7*time.Minute),
		Minne: result.Build{Version: "0.3.0", Commit: "4f2c9a1", Go: "go1.26.0"},
		Machine: machine.Machine{Model: "PC Engines apu4", CPU: "AMD GX-412TC", Architecture: "amd64", Cores: 4, Threads: 4, MHz: []float64{998, 1000, 1000, 1001}, Governor: "performance",
			Caches: []string{"L1d 32 KiB", "L2 2048 KiB"}, MemoryBytes: 4 << 30, Kernel: "6.12.41", CommandLine: "quiet isolcpus=2,3", System: "Debian GNU/Linux 13",
			Mitigations: map[string]string{"spectre_v2": "Mitigation: Retpolines", "meltdown": "Not affected"}, Settings: map[string]string{"net.core.bpf_jit_enable": "1"}, Clock: "tsc", Load: 0.12, Steal: 0.0004},
		Tester: result.Tester{Topology: "router", Mode: "open loop, 2 cores", Transmit: "XDP live frames", Receive: "XDP native", Batch: 64, CPUs: []string{"generator 2", "router 3"},
			Ports:   []result.Port{{Name: "eth1", Driver: "igb", Bus: "0000:02:00.0", MAC: "02:00:00:00:00:01", Speed: 1e9, Role: "generator"}, {Name: "eth2", Driver: "igb", Bus: "0000:03:00.0", MAC: "02:00:00:00:00:02", Speed: 1e9, Role: "sink"}},
			MaxRate: 1.9e6, BiasNS: 5200, BiasNS99: 9100, LineRate: 1e9},
		Devices: []result.Device{{Name: "kernel", Kind: "kernel", Version: "6.12.41", Routes4: 901899, Routes6: 160147}, {Name: "fast path", Kind: "minne", Version: "0.3.0", Config: "router.yaml", ConfigHash: "9b1c…", BinaryHash: "77aa…", Routes4: 901899, Routes6: 160147, Remark: "range table, 18 bits"}},
		Notes:   []string{"All frames were made on the same machine.", "Flow control was off."},
	}
	for i, device := range []string{"kernel", "fast path"} {
		addRates(r, device, []float64{310e3, 905e3}[i])
		addDelays(r, device, []float64{310e3, 905e3}[i], []float64{38e3, 14e3}[i], random)
		addLong(r, device, i, random)
	}
	addPaired(r)
	r.Papers = []result.Paper{{Name: "figure6", Source: "A Low-Power Router, figure 6", Comparable: "the shape: a packet limit for small frames, the line rate for large ones.", Not: "the absolute rates: other processor, other cards.",
		Rows: []result.PaperRow{{What: "packet rate, 64 B", Unit: "kpps", Paper: 223, Measured: 905.2, Low: 899, High: 911}, {What: "24 h of full rate", Unit: "frames lost", PaperSays: "no issues at all", Measured: 0}}}}
	for i := range 12 {
		t := trial.Result{Load: trial.Load{Rate: 100e3 * float64(i+1), Duration: time.Second}, Started: day.Add(time.Duration(i) * 2 * time.Second), Elapsed: time.Second, Intended: uint64(100000 * (i + 1)), Sent: uint64(100000 * (i + 1)),
			Received: uint64(min(905000, 100000*(i+1))), Silence: 20 * time.Microsecond, CPU: 1200 * time.Millisecond, Purpose: "search", Traffic: "one flow", Device: "fast path"}
		t.Latency = spectrum(random, 14e3, 0.3, 30)
		t.Streams = []trial.Stream{{ID: 0, Name: "IPv4, left to right", Sent: t.Sent, Received: t.Received, Bytes: t.Received * 60}}
		if i == 4 {
			t.Void, t.Gaps, t.GapTime = "the machine took the core away for 3.2 ms", 2, 3200*time.Microsecond
		}
		r.Trials = append(r.Trials, t)
	}
	return r
}

func about(device, traffic string, size int) result.Subject {
	return result.Subject{Device: device, Traffic: traffic, FrameSize: size, MeanSize: float64(size)}
}

func addRates(r *result.Result, device string, limit float64) {
	for _, size := range rfcSizes {
		lower := math.Min(limit, ethernetRate(1e9, float64(size)))
		ndr := result.Bound{Goal: result.Goal{Name: "NDR", ExceedRatio: 0.5, FinalDuration: time.Second, DurationSum: 20 * time.Second, InitialTrial: time.Second, Width: 0.005}, Lower: 0.94 * lower, Upper: 0.945 * lower, Conditional: 0.94 * lower}
		pdr := ndr
		pdr.Goal.Name, pdr.Goal.LossRatio = "PDR", 0.005
		pdr.Lower, pdr.Upper, pdr.Conditional = lower*0.985, lower*0.99, lower*0.981
		if size == 1518 {
			pdr.Upper, pdr.Unlimited = 0, true
		}
		r.Throughput = append(r.Throughput, result.Throughput{Subject: about(device, "one flow", size), Bounds: []result.Bound{ndr, pdr}, MinLoad: 9e3, MaxLoad: ethernetRate(1e9, float64(size)), Trials: 61, Took: 73 * time.Second})
		r.MRR = append(r.MRR, result.MRR{Subject: about(device, "rDoS, 901,899 routes", size), Offered: ethernetRate(1e9, float64(size)), Rates: []float64{lower * 0.8, lower * 0.81, lower * 0.79}, Mean: lower * 0.8, Deviation: lower * 0.01})
	}
	curve := result.LossCurve{Subject: about(device, "one flow", 64), MaxLoad: 1.488e6}
	for share := 1.0; share > 0.05; share -= 0.1 {
		offered := share * curve.MaxLoad
		forward := math.Min(offered, limit*(1-3e-5*share))
		if offered < limit {
			forward = offered * (1 - 2e-6*math.Floor(share*4))
		}
		curve.Points = append(curve.Points, result.LossPoint{Share: share, Offered: offered, Forward: forward, Loss: 1 - forward/offered})
	}
	r.Loss = append(r.Loss, curve)
	r.BackToBack = append(r.BackToBack, result.BackToBack{Subject: about(device, "one flow", 64), Bursts: []uint64{21000, 20500, 21700}, Mean: 21066, Deviation: 602, BurstRate: 1.488e6, Throughput: limit, BufferTime: 14150 * time.Microsecond, Corrected: 8600 * time.Microsecond})
	r.Recovery = append(r.Recovery, result.Recovery{Subject: about(device, "one flow", 64), Event: "daemon restart", Load: limit / 2, Outage: 1200 * time.Microsecond, Each: []time.Duration{1100 * time.Microsecond, 1200 * time.Microsecond, 4 * time.Millisecond}, Lost: []uint64{171, 186, 620}, Method: "frame loss"})
}

func spectrum(random *rand.Rand, median, spread float64, n int) (h histogram.Histogram) {
	for range n {
		v := median * math.Exp(random.NormFloat64()*spread)
		if random.Float64() < 0.002 {
			v *= 20
		}
		h.Record(time.Duration(v))
	}
	return h
}

func delayPoint(random *rand.Rand, share, offered, median float64) result.LatencyPoint {
	h := spectrum(random, median*(1+2*share*share), 0.15+share/2, 4000)
	return result.LatencyPoint{Share: share, Offered: offered, Min: h.Min(), P50: h.Quantile(.5), P90: h.Quantile(.9), P99: h.Quantile(.99), P999: h.Quantile(.999), Max: h.Max(), Bias: 5200, Spectrum: h}
}

func addDelays(r *result.Result, device string, limit, median float64, random *rand.Rand) {
	l := result.Latency{Subject: about(device, "one flow", 64), PDR: limit, BiasNS: 5200}
	for _, share := range []float64{0, 0.1, 0.5, 0.9} {
		l.Loads = append(l.Loads, delayPoint(random, share, math.Max(1000, share*limit), median))
	}
	r.Latency = append(r.Latency, l)
	r.Responsiveness = append(r.Responsiveness, result.Responsiveness{Device: device, Idle: delayPoint(random, 0, 1000, median), Loaded: delayPoint(random, 1, 1000, median*80), BitRate: 941e6, RPM: 17800})
}

func addLong(r *result.Result, device string, i int, random *rand.Rand) {
	soak := result.Soak{Subject: about(device, "IMIX", 0), Load: 400e3, Verdict: "no drift beyond noise; 1,234 frames lost in two stretches", Drift: -0.0004, DriftLow: -0.0011, DriftHigh: 0.0003, Lost: 1234}
	soak.Mix, soak.MeanSize = "IMIX 64/576/1500", 547.8
	for at := 60; at <= 7200; at += 60 {
		p := trial.Point{At: time.Duration(at) * time.Second, Sent: 24e6, Received: 24e6, Latency: time.Duration(15e3 * math.Exp(random.NormFloat64()*0.06))}
		if at == 2520 || at == 5040 && i == 0 {
			p.Received -= 617000
		}
		soak.Series = append(soak.Series, p)
	}
	r.Soak = append(r.Soak, soak)
	e := result.Energy{Subject: about(device, "one flow", 64), Source: "hwmon ina226", JoulePerPacket: []float64{6.1e-6, 2.9e-6}[i], JoulePerGbit: []float64{0.0119, 0.0057}[i] * 1000}
	for _, share := range []float64{0, 0.25, 0.5, 0.75, 1} {
		rate := share * []float64{310e3, 905e3}[i]
		e.Steps = append(e.Steps, result.EnergyStep{Share: share, Rate: rate, BitRate: rate * 512, Watts: 6.2 + 2*math.Sqrt(share) + 0.4*share*float64(1-i), CPUShare: share * 0.25, CPUPacket: 3000 / float64(1+2*i)})
	}
	r.Energy = append(r.Energy, e)
	m := result.Matrix{Device: device, Path: []string{"routed", "bridged"}[i]}
	for _, family := range []string{"IPv4", "IPv6"} {
		for _, protocol := range []string{"TCP", "UDP"} {
			for _, size := range []int{64, 128, 256, 512, 1024, 1500} {
				c := result.MatrixCell{Family: family, Protocol: protocol, Bytes: size, Payload: size - 52, BitRate: 941e6 * math.Min(1, float64(size)/600), Retransmits: 12, CPUPercent: 41.5}
				if protocol == "UDP" {
					c.Retransmits, c.Loss, c.Packets = 0, 0.0031, c.BitRate/8/float64(c.Payload)
				}
				if family == "IPv6" && protocol == "TCP" && size == 64 {
					c = result.MatrixCell{Family: family, Protocol: protocol, Bytes: size, Failed: "72 bytes of headers leave no payload"}
				}
				m.Cells = append(m.Cells, c)
			}
		}
	}
	r.Matrix = append(r.Matrix, m)
}

func addPaired(r *result.Result) {
	for i, traffic := range []string{"one flow", "rDoS, 901,899 routes", "IPv6 rDoS, 160,147 routes", "600 rules"} {
		c := result.Comparison{Subject: about("", traffic, 64), A: "kernel", B: "fast path", RateA: 1e6, RateB: []float64{1.97e6, 3.1e6, 6e6, 1.004e6}[i], SameSame: result.Interval{Median: 1.001, Low: 0.987, High: 1.014}, Rounds: 40, Voided: 2, Verdict: "faster"}
		v := c.RateB / c.RateA
		c.Ratio = result.Interval{Median: v, Low: v * 0.98, High: v * 1.03}
		if i == 3 {
			c.Verdict = "no difference beyond noise"
		} else {
			c.CostRatio = &result.Interval{Median: v * 1.9, Low: v * 1.8, High: v * 2.05}
		}
		r.Comparisons = append(r.Comparisons, c)
		for j, device := range []string{"kernel", "fast path"} {
			ns := []float64{790, 1210, 1560, 640, 210, 262, 331, 633}[j*4+i]
			r.Cost = append(r.Cost, result.Cost{Subject: about(device, traffic, 64), PerPacket: result.Interval{Median: ns, Low: ns * 0.96, High: ns * 1.05}, With: result.Interval{Median: ns + 300, Low: ns + 290, High: ns + 315}, Without: result.Interval{Median: 300, Low: 296, High: 305}, SameSame: result.Interval{Median: 1.2, Low: -9, High: 11}, Rounds: 40, Voided: 1})
		}
	}
}
