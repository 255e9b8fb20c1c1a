// SPDX-License-Identifier: Apache-2.0

// Package result is the schema of result.json: what the lab measured, on what,
// with every trial behind it.
//
// It holds values only. The methods fill them in, the report draws them. All
// durations are in nanoseconds, rates in frames per second, frame sizes in bytes
// with the FCS as RFC 2544 counts them (the least is 64), unless a name says otherwise.
package result

import (
	"time"

	"minne/internal/base/machine"
	"minne/internal/lab/histogram"
	"minne/internal/lab/trial"
	"minne/internal/subsystem/ports"
)

// Schema names this version of the schema. Readers refuse another major version.
const Schema = "minne-lab-result/1"

// Result is everything that one run of the lab found.
type Result struct {
	Schema  string          `json:"schema"`
	Title   string          `json:"title"`
	Command []string        `json:"command"`
	Started time.Time       `json:"started"`
	Ended   time.Time       `json:"ended"`
	Partial string          `json:"partial,omitempty"` // why it is incomplete; empty when it is complete
	Minne   Build           `json:"minne"`
	Machine machine.Machine `json:"machine"`
	Tester  Tester          `json:"tester"`
	Devices []Device        `json:"devices"`

	Throughput     []Throughput     `json:"throughput,omitempty"`
	Loss           []LossCurve      `json:"loss,omitempty"`
	BackToBack     []BackToBack     `json:"back_to_back,omitempty"`
	Latency        []Latency        `json:"latency,omitempty"`
	Recovery       []Recovery       `json:"recovery,omitempty"`
	Soak           []Soak           `json:"soak,omitempty"`
	MRR            []MRR            `json:"mrr,omitempty"`
	Cost           []Cost           `json:"cost,omitempty"`
	Comparisons    []Comparison     `json:"comparisons,omitempty"`
	Energy         []Energy         `json:"energy,omitempty"`
	Matrix         []Matrix         `json:"matrix,omitempty"`
	Responsiveness []Responsiveness `json:"responsiveness,omitempty"`
	Papers         []Paper          `json:"papers,omitempty"`

	Trials []trial.Result `json:"trials,omitempty"`
	Notes  []string       `json:"notes,omitempty"` // what a reader must know to judge the figures
}

// Build says which binary measured.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
}

// Tester says how packets were made and counted.
type Tester struct {
	Topology string   `json:"topology"`
	Mode     string   `json:"mode"`           // "open loop, 2 cores", "closed loop, 1 core", "network cards"
	Transmit string   `json:"transmit"`       // "XDP live frames", "AF_PACKET"
	Receive  string   `json:"receive"`        // "XDP native", "XDP generic"
	Batch    int      `json:"batch"`          // frames per turn of the generator
	CPUs     []string `json:"cpus,omitempty"` // what runs where: "generator 0", "router 1"
	Ports    []Port   `json:"ports,omitempty"`
	MaxRate  float64  `json:"max_rate_fps,omitempty"`    // what the tester sends by itself
	BiasNS   float64  `json:"latency_bias_ns,omitempty"` // median latency without a device between
	BiasNS99 float64  `json:"latency_bias_p99_ns,omitempty"`
	LineRate float64  `json:"line_rate_bps,omitempty"` // of the slowest port; 0 when ports have none (veth)
}

// Port is a port of the tester.
type Port = ports.Port

// Device is a device under test.
type Device struct {
	Name       string `json:"name"` // as figures refer to it: "kernel", "fast path"
	Kind       string `json:"kind"` // "kernel", "minne", "external"
	Version    string `json:"version,omitempty"`
	Config     string `json:"config,omitempty"`        // file
	ConfigHash string `json:"config_sha256,omitempty"` // of its bytes
	BinaryHash string `json:"binary_sha256,omitempty"`
	Routes4    int    `json:"routes_ipv4,omitempty"`
	Routes6    int    `json:"routes_ipv6,omitempty"`
	Remark     string `json:"remark,omitempty"`
}

// Subject is what a figure is about; every section has it.
type Subject struct {
	Device    string `json:"device"`
	Traffic   string `json:"traffic"`       // "one flow", "2048@30", "rDoS, 901,899 routes"
	FrameSize int    `json:"frame_bytes"`   // with FCS; 0 for a mix
	Mix       string `json:"mix,omitempty"` // its name: "IMIX 64/576/1500"
	// Mean wire bytes of a frame with FCS, for bit rates; equals FrameSize unless a mix.
	MeanSize float64 `json:"mean_bytes"`
}

// Goal is a search goal (RFC 9971 section 4.6.7).
type Goal struct {
	Name          string        `json:"name"`              // "NDR", "PDR", "RFC 2544"
	LossRatio     float64       `json:"loss_ratio"`        // Goal Loss Ratio
	ExceedRatio   float64       `json:"exceed_ratio"`      // Goal Exceed Ratio
	FinalDuration time.Duration `json:"final_duration_ns"` // Goal Final Trial Duration
	DurationSum   time.Duration `json:"duration_sum_ns"`   // Goal Duration Sum
	InitialTrial  time.Duration `json:"initial_trial_ns"`
	Width         float64       `json:"width"` // Goal Width, relative
}

// Bound is what a search found for one goal.
type Bound struct {
	Goal Goal `json:"goal"`
	// Relevant bounds, offered frames per second, all directions together.
	// Lower is 0 for an irregular result (no lower bound found); Upper is 0 when
	// not even the greatest load was too much.
	Lower       float64 `json:"lower_fps"`
	Upper       float64 `json:"upper_fps"`
	Conditional float64 `json:"conditional_throughput_fps"` // RFC 9971 section 4.8.3
	// Unlimited: Lower is the greatest load of the tester, the device may forward more.
	Unlimited bool   `json:"unlimited,omitempty"`
	Irregular string `json:"irregular,omitempty"` // in words
}

// Throughput is the outcome of a search.
type Throughput struct {
	Subject
	Bounds  []Bound       `json:"bounds"`
	MinLoad float64       `json:"min_load_fps"`
	MaxLoad float64       `json:"max_load_fps"`
	Trials  int           `json:"trials"`
	Took    time.Duration `json:"took_ns"`
}

// LossCurve is loss against load (RFC 2544 section 26.3).
type LossCurve struct {
	Subject
	MaxLoad float64     `json:"max_load_fps"`
	Points  []LossPoint `json:"points"`
}

// LossPoint is one load of a loss curve.
type LossPoint struct {
	Share   float64 `json:"share"` // of MaxLoad
	Offered float64 `json:"offered_fps"`
	Forward float64 `json:"forwarded_fps"`
	Loss    float64 `json:"loss_ratio"`
}

// BackToBack is the longest burst without loss (RFC 2544 section 26.4, RFC 9004).
type BackToBack struct {
	Subject
	Bursts     []uint64      `json:"bursts"` // longest without loss, frames, of each repetition
	Mean       float64       `json:"mean_frames"`
	Deviation  float64       `json:"deviation_frames"`
	BurstRate  float64       `json:"burst_rate_fps"`
	Throughput float64       `json:"throughput_fps"`
	BufferTime time.Duration `json:"implied_buffer_time_ns"`   // RFC 9004 section 6.4
	Corrected  time.Duration `json:"corrected_buffer_time_ns"` // RFC 9004 section 6.4
	Unbounded  bool          `json:"unbounded,omitempty"`      // no burst that was tried lost a frame
}

// Latency is delay at several loads (RFC 2544 section 26.2 with RFC 8219's percentiles).
type Latency struct {
	Subject
	PDR    float64        `json:"pdr_fps"`
	Loads  []LatencyPoint `json:"loads"`
	BiasNS float64        `json:"bias_ns"` // median of the tester alone, contained in the figures
}

// LatencyPoint is the delay at one load.
type LatencyPoint struct {
	Share    float64             `json:"share"` // of the PDR; 0 is the least rate that measures
	Offered  float64             `json:"offered_fps"`
	Loss     float64             `json:"loss_ratio"`
	Min      time.Duration       `json:"min_ns"`
	P50      time.Duration       `json:"p50_ns"`
	P90      time.Duration       `json:"p90_ns"`
	P99      time.Duration       `json:"p99_ns"`
	P999     time.Duration       `json:"p999_ns"`
	Max      time.Duration       `json:"max_ns"`
	Bias     time.Duration       `json:"bias_p50_ns"` // of the tester alone at this load
	Spectrum histogram.Histogram `json:"spectrum"`
}

// Recovery is how long forwarding stops (RFC 2544 sections 26.5 and 26.6, RFC 6201).
type Recovery struct {
	Subject
	Event  string          `json:"event"` // "overload", "daemon restart", "device reset"
	Load   float64         `json:"load_fps"`
	Outage time.Duration   `json:"outage_ns"` // median, RFC 6201 section 4 (lost frames ÷ rate, or time stamps)
	Each   []time.Duration `json:"each_ns"`
	Lost   []uint64        `json:"lost_frames"`
	Method string          `json:"method"` // "frame loss", "time stamp"
}

// Soak is one load over a long time.
type Soak struct {
	Subject
	Load      float64       `json:"load_fps"`
	Series    []trial.Point `json:"series"`
	Lost      uint64        `json:"lost"`
	Verdict   string        `json:"verdict"`        // in words
	Drift     float64       `json:"drift_per_hour"` // relative change of the forwarding rate per hour
	DriftLow  float64       `json:"drift_low"`
	DriftHigh float64       `json:"drift_high"`
	Steady    bool          `json:"steady"` // no drift beyond noise, and no loss but in trials that the machine disturbed
}

// MRR is the forwarding rate at the greatest load (CSIT: maximum receive rate).
type MRR struct {
	Subject
	Offered   float64   `json:"offered_fps"`
	Rates     []float64 `json:"rates_fps"`
	Mean      float64   `json:"mean_fps"`
	Deviation float64   `json:"deviation_fps"`
}

// Interval is a median with its 95 % confidence interval.
type Interval struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Cost is the CPU time that the device alone takes for a packet: with it less without it, one core, closed loop.
type Cost struct {
	Subject
	PerPacket Interval `json:"ns_per_packet"`
	With      Interval `json:"with_ns"`    // generator, device and sink
	Without   Interval `json:"without_ns"` // generator and sink
	SameSame  Interval `json:"a_a_ns"`     // difference of two equal measurements: the noise
	Rounds    int      `json:"rounds"`
	Voided    int      `json:"voided"`
	Lost      uint64   `json:"lost"`
}

// Comparison is B against A, paired and interleaved.
type Comparison struct {
	Subject             // Device is empty
	A         string    `json:"a"`
	B         string    `json:"b"`
	RateA     float64   `json:"a_fps"`
	RateB     float64   `json:"b_fps"`
	Ratio     Interval  `json:"ratio"`                // rate of B ÷ rate of A
	CostRatio *Interval `json:"cost_ratio,omitempty"` // cost of A ÷ cost of B, generator and sink taken off
	SameSame  Interval  `json:"ratio_a_a"`
	Verdict   string    `json:"verdict"` // "faster", "slower", "no difference beyond noise"
	Rounds    int       `json:"rounds"`
	Voided    int       `json:"voided"`
	Lost      uint64    `json:"lost"`
}

// Energy is power over load.
type Energy struct {
	Subject
	Source         string       `json:"source"`            // "RAPL package 0", "hwmon ina226", …
	Missing        string       `json:"missing,omitempty"` // why there is no figure: "not measurable on this machine: …"
	Steps          []EnergyStep `json:"steps,omitempty"`
	JoulePerPacket float64      `json:"joule_per_packet,omitempty"` // (loaded − idle) ÷ rate, of the greatest step
	JoulePerGbit   float64      `json:"joule_per_gbit,omitempty"`
}

// EnergyStep is one load with its power.
type EnergyStep struct {
	Share     float64 `json:"share"` // of the greatest load; 0 is idle
	Rate      float64 `json:"rate_fps"`
	BitRate   float64 `json:"bit_rate"`  // frames with FCS
	Watts     float64 `json:"watts"`     // 0 when there is no source
	CPUShare  float64 `json:"cpu_share"` // of all CPUs, 0…1
	CPUPacket float64 `json:"cpu_ns_per_packet"`
}

// Matrix is the platform paper's table: TCP and UDP over both IP versions.
type Matrix struct {
	Device string       `json:"device"`
	Path   string       `json:"path"` // "routed", "bridged", "end to end"
	Cells  []MatrixCell `json:"cells"`
}

// MatrixCell is one transfer.
type MatrixCell struct {
	Family      string  `json:"family"`                 // "IPv4", "IPv6"
	Protocol    string  `json:"protocol"`               // "TCP", "UDP"
	Bytes       int     `json:"bytes"`                  // packet size asked for
	Packet      int     `json:"packet_bytes,omitempty"` // size sent: from the IP header on; the nearest that the protocol can do
	Payload     int     `json:"payload"`                // bytes per segment or datagram that makes that size
	BitRate     float64 `json:"bit_rate"`               // goodput received
	Packets     float64 `json:"packets_per_second,omitempty"`
	Loss        float64 `json:"loss_ratio"`
	Retransmits int     `json:"retransmits"`
	CPUPercent  float64 `json:"cpu_percent"`      // of the machine
	Failed      string  `json:"failed,omitempty"` // why there is no figure
	Note        string  `json:"note,omitempty"`   // what a reader must know about this cell
}

// Responsiveness is latency while TCP saturates the device both ways.
type Responsiveness struct {
	Device  string       `json:"device"`
	Idle    LatencyPoint `json:"idle"`
	Loaded  LatencyPoint `json:"loaded"`
	BitRate float64      `json:"bit_rate"`               // of the TCP flows, both directions
	RPM     float64      `json:"round_trips_per_minute"` // under load
}

// Paper is an experiment of one of the papers, beside what the paper says.
type Paper struct {
	Name       string     `json:"name"` // "figure6"
	Source     string     `json:"source"`
	Rows       []PaperRow `json:"rows"`
	Comparable string     `json:"comparable"`     // what may be compared
	Not        string     `json:"not_comparable"` // and what may not, in words
}

// PaperRow is one figure of a paper.
type PaperRow struct {
	What      string  `json:"what"`
	Unit      string  `json:"unit"`
	Paper     float64 `json:"paper,omitempty"`      // 0: the paper gives no number
	PaperSays string  `json:"paper_says,omitempty"` // in its words, when it is not a number
	Measured  float64 `json:"measured"`
	Low       float64 `json:"low,omitempty"`
	High      float64 `json:"high,omitempty"`
	Missing   string  `json:"missing,omitempty"` // why nothing was measured; then Measured is 0
}

// Empty says that there is no figure in the result.
func (r *Result) Empty() bool {
	return len(r.Throughput)+len(r.Loss)+len(r.BackToBack)+len(r.Latency)+len(r.Recovery)+len(r.Soak)+len(r.MRR)+len(r.Cost)+
		len(r.Comparisons)+len(r.Energy)+len(r.Matrix)+len(r.Responsiveness)+len(r.Papers) == 0
}

// AddDevice adds a device, in place of what was known of one of its name.
func (r *Result) AddDevice(d Device) {
	for i := range r.Devices {
		if r.Devices[i].Name == d.Name {
			r.Devices[i] = d
			return
		}
	}
	r.Devices = append(r.Devices, d)
}
