// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"strings"
	"testing"

	"minne/internal/lab/result"
	"minne/internal/lab/statistics"
)

// printed are the figures as the papers print them, typed from their texts and not
// from the presets. Rows without a number are those that the papers only draw or say.
var printed = map[string]map[string]struct {
	number float64
	unit   string
	says   string // a part of it
}{
	// "Routing throughput (packet rate) 223Kpps", "Routing throughput (data rate) 1860 Mbps",
	// "bidirectional pktgen tests using 1514 bytes … 1858 Mbps", "Using the 220Kpps limit,
	// calculated maximum routing throughput is 2650 Mbps with 1500 byte packets".
	"figure6": {
		"packet rate, 64 B":                                     {223, "kpps", ""},
		"greatest data rate of all sizes":                       {1860, "Mbit/s", ""},
		"data rate, 1514 B without FCS, both ways":              {1858, "Mbit/s", ""},
		"data rate at 1500 B, calculated from the rate at 64 B": {2650, "Mbit/s", ""},
		"packet rate, 128 B":                                    {0, "kpps", "graph"},
		"packet rate, 256 B":                                    {0, "kpps", "graph"},
		"packet rate, 512 B":                                    {0, "kpps", "graph"},
		"packet rate, 768 B":                                    {0, "kpps", "graph"},
		"packet rate, 1024 B":                                   {0, "kpps", "graph"},
		"packet rate, 1280 B":                                   {0, "kpps", "graph"},
		"packet rate, 1518 B":                                   {0, "kpps", "graph"},
	},
	// "5 r single flow", "5 r rDoS", "123kr rDoS".
	"fib-trie": {
		"5 routes, one flow":   {0, "kpps", "graph"},
		"5 routes, rDoS":       {0, "kpps", "graph"},
		"123,000 routes, rDoS": {0, "kpps", "graph"},
		"rate with 5 routes, rDoS ÷ 5 routes, one flow":       {0, "", "graph"},
		"rate with 123,000 routes, rDoS ÷ 5 routes, one flow": {0, "", "graph"},
	},
	// "Flow load. 31.000 fib_lookups/sec. BGP table w. 271.064 routes … Using 2/4 CPU cores …
	// Forwarding:: 6.2 Gbit/s (960 kpps)".
	"multi-queue": {
		"packet rate":              {960, "kpps", ""},
		"bit rate":                 {6.2, "Gbit/s", ""},
		"new flows":                {31000, "per second", ""},
		"routes":                   {271064, "IPv4 routes", ""},
		"processors of the router": {2, "", ""},
	},
	// "Packet budget approx 900 kpps using one CPU", "Less performance with 4 CPU's!!".
	"flow-load": {
		"one processor, one flow, 64 B":               {900, "kpps", ""},
		"one processor, 2048@30, 64 B":                {0, "kpps", "graph"},
		"one processor, 2048@30, 512 B":               {0, "kpps", "graph"},
		"one processor, 2048@30, 1500 B":              {0, "kpps", "graph"},
		"2048@30, 64 B: rate of all processors ÷ one": {0, "", "Less performance with 4 CPU's!!"},
	},
	// "sustaining a bandwidth of about 51Mbps … 82Mbps … 90Mbps", "A slight reduction (1-2% only)".
	"cross-ping": {
		"bandwidth with one flow pair":                               {0, "Mbit/s", "51 (Pentium 133), 82 (Pentium 200), 90"},
		"bandwidth lost when a second flow pair crosses":             {0, "%", "1–2"},
		"the same between two measurements of one flow pair (noise)": {0, "%", "not given"},
	},
	// "Sending on 4 interfaces simultaneously. We reach 25.8 Gbit/s", "We reach 10 Mpps", "Distribution is fair".
	"tx": {
		"64 B, all processors, each to a queue of its own":   {10, "Mpps", ""},
		"1500 B, all processors, each to a queue of its own": {25.8, "Gbit/s", ""},
		"64 B, one processor to one port":                    {0, "Mpps", "10 on four ports, fairly"},
		"1500 B, one processor to one port":                  {0, "Gbit/s", "25.8 on four ports, fairly"},
	},
	// "generating traffic with pktgen for about 24h, where our router was forwarding packets at full
	// speed … The router had the same performance throughout the test, without any hangs or malfunctions".
	"soak": {
		"duration at full rate":                     {24, "h", ""},
		"rate forwarded":                            {0, "kpps", "full speed"},
		"change of that rate from beginning to end": {0, "%", "same performance throughout the test"},
		"intervals in which nothing was forwarded":  {0, "", "hangs or malfunctions"},
	},
}

func TestRowsSayWhatThePapersPrint(t *testing.T) {
	if len(Presets()) != len(printed) {
		t.Errorf("%d presets, expected %d", len(Presets()), len(printed))
	}
	for _, p := range Presets() {
		expected := printed[p.Name]
		seen := map[string]int{}
		for _, row := range p.rows {
			what := strings.TrimSuffix(strings.TrimSuffix(row.What, ", kernel"), ", minne")
			if strings.HasPrefix(what, "rate of minne ÷ kernel, ") {
				if row.Paper != 0 || !strings.Contains(row.PaperSays, "did not exist") {
					t.Errorf("%s: %+v: no paper has that figure", p.Name, row)
				}
				continue
			}
			want, known := expected[what]
			seen[what]++
			if !known || row.Paper != want.number || row.Unit != want.unit || want.number == 0 && (want.says == "" || !strings.Contains(row.PaperSays, want.says)) {
				t.Errorf("%s: %+v, the paper has %+v", p.Name, row, want)
			}
		}
		for what := range expected {
			if want := 2; p.Name == "tx" || p.Name == "soak" {
				if seen[what] != 1 {
					t.Errorf("%s: %d rows about %q, expected one", p.Name, seen[what], what)
				}
			} else if seen[what] != want {
				t.Errorf("%s: %d rows about %q, expected one for each router", p.Name, seen[what], what)
			}
		}
	}
}

// The load's own figures: tables, mix, flows, sizes and directions.
func TestLoadsAreThePapers(t *testing.T) {
	mix := words(mixed(31))
	if mix.MeanSize() != 0.45*64+0.25*576+0.30*1500 || mix.FlowPackets != 31 || mix.Table != "ipv4:271064" {
		t.Errorf("multi-queue sends %s, %g bytes in the mean", mix, mix.MeanSize())
	}
	if p := words("flows=2048@30"); p.Flows != 2048 || p.FlowPackets != 30 {
		t.Errorf("flow-load sends %s", p)
	}
	if fewRoutes != "ipv4:5" || manyRoutes != "ipv4:123000" {
		t.Errorf("fib-trie has tables %s and %s", fewRoutes, manyRoutes)
	}
	if a, b := words(onePair), words(twoPairs); a.Flows > 1 || b.Flows != 2 || !a.Bidirectional || !b.Bidirectional {
		t.Errorf("cross-ping compares %s with %s", a, b)
	}
}

func TestFlowLengthKeepsNewFlowsAt31000(t *testing.T) {
	for _, c := range []struct {
		rate float64
		want int
	}{{960e3, 31}, {3.1e6, 100}, {10e3, 1}, {1e9, 500}} {
		if got := flowLength(c.rate); got != c.want {
			t.Errorf("at %g frames/s flows of %d packets, expected %d", c.rate, got, c.want)
		}
	}
	if _, err := words(mixed(500)).Lap(benchEnds()); err != nil {
		t.Errorf("the longest flows don't fit a lap: %v", err)
	}
}

func TestFind(t *testing.T) {
	if p, err := Find("figure6"); err != nil || p.Name != "figure6" {
		t.Errorf("%q, error %v", p.Name, err)
	}
	if _, err := Find("figure7"); err == nil || !strings.Contains(err.Error(), `"figure7"`) || !strings.Contains(err.Error(), "fib-trie, multi-queue") {
		t.Errorf("error %v, expected the names", err)
	}
}

func TestLossOfARatio(t *testing.T) {
	got := lossOf(exactly(0.98))
	got.Low, got.High = lossOf(interval(0.98, 0.97, 1.01)).Low, lossOf(interval(0.98, 0.97, 1.01)).High
	if near(got.Median, 2) && near(got.Low, -1) && near(got.High, 3) {
		return
	}
	t.Errorf("a ratio of 0.98 (0.97 to 1.01) is a loss of %+v %%, expected 2 (-1 to 3)", got)
}

func TestVerdictNeedsRounds(t *testing.T) {
	c := result.Comparison{Ratio: interval(0.9, 0.89, 0.91), SameSame: interval(1, 0.99, 1.01), Rounds: 2}
	if got := verdict(c); !strings.Contains(got, "too few rounds") {
		t.Errorf("of two rounds: %q", got)
	}
	if c.Rounds = 8; verdict(c) != string(statistics.Slower) {
		t.Errorf("of eight: %q", verdict(c))
	}
}
