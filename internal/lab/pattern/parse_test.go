// SPDX-License-Identifier: Apache-2.0

package pattern

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

func parse(t *testing.T, text string) Pattern {
	t.Helper()
	p, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCanonical shows what texts mean: their canonical form, which parses to the same pattern.
func TestCanonical(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "one-flow size=64"},
		{"one-flow", "one-flow size=64"},
		{"flows=1", "one-flow size=64"},
		{"flows=1@30", "flows=1@30 size=64"},
		{"flows=1000 size=512", "flows=1000 size=512"},
		{"2048@30", "flows=2048@30 size=64"},
		{"size=1518 FLOWS=2048@30", "flows=2048@30 size=1518"},
		{"rDoS family=ipv6", "rdos family=ipv6 size=64"},
		{"rdos=address ipv6", "rdos family=ipv6 size=64"},
		{"rdos=5tuple ports=rfc4814", "rdos=5tuple size=64"},
		{"rdos ports=rfc4814", "rdos ports=rfc4814 size=64"},
		{"ports=rfc4814", "ports=rfc4814 size=64"},
		{"ports=fixed one-flow", "one-flow size=64"},
		{"flows=10 ports=rfc4814 seed=7", "flows=10 ports=rfc4814 seed=7 size=64"},
		{"syn flows=100@1 bidirectional", "flows=100@1 syn bidirectional size=64"},
		{"udp unidirectional seed=1", "one-flow size=64"},
		{"imix", "one-flow size=imix"},
		{"imix=csit", "one-flow size=imix-csit"},
		{"size=imix=csit", "one-flow size=imix-csit"},
		{"mix=64:45,576:25,1500:30", "one-flow size=64:9,576:5,1500:6"},
		{"size=genome:aabbg", "one-flow size=genome:aabbg"},
		{"genome=7a4dA,A=576", "one-flow size=genome:7a4dA,A=576"},
		{"family=ipv4:70,ipv6:30", "one-flow family=ipv4:7,ipv6:3 size=64"},
		{"family=both", "one-flow family=ipv4:1,ipv6:1 size=64"},
		{"family=ipv6:4", "one-flow family=ipv6 size=64"},
		{"rdos table=full", "rdos table=full size=64"},
		{"rdos table=full draw=in-table", "rdos table=full size=64"},
		{"rdos table=a.gz draw=per-prefix", "rdos table=a.gz draw=per-prefix size=64"},
		{"rdos draw=uniform", "rdos draw=uniform size=64"},
		{`rdos table="my table"`, `rdos table="my table" size=64`},
		{"pcap=day.pcap", "pcap=day.pcap"},
		{"pcap=day.pcap timing=own", "pcap=day.pcap timing=own"},
		{"pcap=day.pcap timing=rate", "pcap=day.pcap"},
	} {
		p := parse(t, c.text)
		if p.String() != c.want {
			t.Errorf("%q is %q, expected %q", c.text, p, c.want)
		}
		if again := parse(t, p.String()); !reflect.DeepEqual(again, p) {
			t.Errorf("%q parses to %+v, expected %+v", p, again, p)
		}
	}
}

// TestGrammarIsWhole: every word is in the list for people, and every line of it begins with words that parse.
func TestGrammarIsWhole(t *testing.T) {
	for key, k := range keywords {
		if others := map[string]bool{"udp": true, "unidirectional": true}; !others[key] && !strings.Contains(Grammar, "\n"+key) && !strings.HasPrefix(Grammar, key) {
			t.Errorf("%q (%s) is not in the grammar", key, k.about)
		}
	}
	values := strings.NewReplacer("=N@LEN", "=9@2", "=N", "=100", "FILE", "x")
	for line := range strings.Lines(Grammar) {
		text, _, _ := strings.Cut(values.Replace(line), " ")
		if strings.HasPrefix(text, "timing") {
			text += " pcap=x"
		}
		if strings.HasPrefix(text, "draw") {
			text += " table=x"
		}
		if _, err := Parse(text); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestOptions(t *testing.T) {
	p, err := Options{Traffic: "flows=2048@30 syn", Size: "imix", Family: "ipv4:70,ipv6:30", Table: "a b", Draw: "per-prefix"}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	if want := `flows=2048@30 syn family=ipv4:7,ipv6:3 table="a b" draw=per-prefix size=imix`; p.String() != want {
		t.Errorf("%q, expected %q", p, want)
	}
	if p, err = (Options{}).Parse(); err != nil || p.String() != "one-flow size=64" {
		t.Errorf("no options are %q, %v", p, err)
	}
	if _, err = (Options{Traffic: "size=64", Size: "128"}).Parse(); err == nil || !strings.Contains(err.Error(), "size is given twice") {
		t.Errorf("error %v, expected that the size is given twice", err)
	}
}

// TestErrors holds, for every mistake, what the operator reads and which part of the text is marked.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ text, marked, want string }{
		{"flow=10", "flow=10", `unknown option "flow=10"; did you mean "flows=10"?`},
		{"size=64 rdso", "rdso", `did you mean "rdos"?`},
		{"nonsense", "nonsense", "expected imix, ipv4"},
		{"flows=x", "x", `"x" is no number of flows: expected 1 to`},
		{"flows=0", "0", "no number of flows"},
		{"flows=10@", "flows=10@", "no number of packets of a flow"},
		{"size=64 flows=2048@3O", "3O", `"3O" is no number of packets of a flow`},
		{"flows", "flows", "has no value: expected a number of flows"},
		{"one-flow=3", "one-flow=3", "takes no value"},
		{"flows=100000@100", "flows=100000@100", "the flows' lives take 10000000 packets"},
		{"flows=600000 bidirectional", "flows=600000", "in each direction"},
		{"flows=1@5 family=both", "one flow", "both IP versions"},
		{"flows=2 flows=3", "flows=3", "flows is given twice"},
		{"flows=2 rdos", "rdos", `"flows=2" and "rdos" can't go together: expected one of them`},
		{"syn udp", "udp", "can't go together"},
		{"rdos=5tupel", "rdos=5tupel", `did you mean "5tuple"?`},
		{"ports=rfc4841", "ports=rfc4841", `did you mean "rfc4814"?`},
		{"one-flow ports=rfc4814", "ports=rfc4814", "more than one-flow"},
		{"size=63", "63", "frames of 63 bytes can't be sent: expected a size with FCS from 64 to 1518"},
		{"size=9000", "9000", "can't be sent"},
		{"size=99999999999999999999", "99999999999999999999", "can't be sent"},
		{"size=-64", "-64", "is no frame size"},
		{"size=imx", "imx", `did you mean "imix"?`},
		{"size=64,128", "64", "size 64 has no weight"},
		{"size=64:7,128:x", "x", `"x" is no weight`},
		{"size=64:0", "0", "is no weight"},
		{"size=64:1,64:2", "64:2", "there twice"},
		{"size=64:999,65:998", "size=64:999,65:998", "weights add up to 1997"},
		{"size=genome:aax", "x", "is no letter of a genome"},
		{"size=genome:aahg", "h", "longer than 1518 bytes"},
		{"size=genome:aA", "A", "size A is not given"},
		{"size=genome:aA,A=9", "9", "frames of 9 bytes"},
		{"size=genome:aA,Ab=90", "Ab=90", "lacks the size of a letter"},
		{"size=genome:a5", "5", "no letter behind it"},
		{"size=genome:0a", "0", "no number of frames"},
		{"size=genome:5000a", "5000", "no number of frames"},
		{"size=genome:4000a4000b", "size=genome:4000a4000b", "too long"},
		{"size=genome:", "size=genome:", "no letters"},
		{"family=ipv5", "ipv5", `did you mean "ipv4"?`},
		{"family=ipv4:70,ipv6", "ipv6", "share of ipv6"},
		{"family=ipv4:70,ipv4:30", "ipv4:30", "share of ipv4"},
		{"table=", "table=", "names no file"},
		{"draw=in-table", "draw=in-table", "no table to draw from: expected table=FILE"},
		{"draw=unifrom", "draw=unifrom", `did you mean "uniform"?`},
		{"seed=-1", "seed=-1", "is no seed"},
		{"timing=own", "timing=own", "timing is of captures"},
		{"pcap=x size=64", "size=64", "no meaning for a capture"},
		{"pcap=x timing=mine", "timing=mine", "own or rate"},
		{`table="x`, `"`, "not closed"},
		{`table="x"y`, "y", "after a quote"},
		{"größe=64 sise=64", "größe=64", "unknown option"},
		{"seed=1 ähm", "ähm", "unknown option"},
	} {
		_, err := Parse(c.text)
		if err == nil {
			t.Errorf("%q is accepted", c.text)
			continue
		}
		e := err.(*Error)
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v\nexpected %q in it", c.text, err, c.want)
		}
		marked := []rune(c.text + " ")[e.Column:min(e.Column+e.Width, len([]rune(c.text)))]
		if string(marked) != c.marked && c.marked != "one flow" {
			t.Errorf("%q: %q is marked, expected %q\n%v", c.text, string(marked), c.marked, err)
		}
	}
}

func TestErrorIsDrawn(t *testing.T) {
	_, err := Parse("rdos size=6x table=full")
	want := `traffic: "6x" is no frame size: expected ` + expectSize + `
  rdos size=6x table=full
            ^^`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nexpected\n%s", err, want)
	}
}

func TestSizesOfReports(t *testing.T) {
	for _, c := range []struct {
		text  string
		mean  float64
		frame int
		mix   string
	}{
		{"size=64", 64, 64, ""},
		{"size=1518 family=both", 1518, 1518, ""},
		{"size=64 family=ipv6", 84, 84, ""},
		{"size=64 family=both", 74, 0, "64 (IPv4), 84 (IPv6)"},
		{"size=64 syn", 76, 76, ""},
		{"size=64 syn family=ipv6", 96, 96, ""},
		{"imix", (64*45 + 576*25 + 1500*30) / 100.0, 0, "imix"},
		{"imix=csit", (28*64 + 16*570 + 4*1518) / 48.0, 0, "imix-csit"},
		{"imix family=ipv6", (84*45 + 576*25 + 1500*30) / 100.0, 0, "imix"},
		{"genome=abz", (64 + 128 + 1518) / 3.0, 0, "genome:abz"},
		{"genome=aaa", 64, 64, ""},
		{"size=100:1,300:1", 200, 0, "100:1,300:1"},
		{"pcap=x", 0, 0, ""},
	} {
		p := parse(t, c.text)
		if math.Abs(p.MeanSize()-c.mean) > 1e-9 || p.FrameSize() != c.frame || p.Mix() != c.mix {
			t.Errorf("%q: mean %v, frame %d, mix %q; expected %v, %d, %q", c.text, p.MeanSize(), p.FrameSize(), p.Mix(), c.mean, c.frame, c.mix)
		}
	}
	s := parse(t, "2048@30 imix").Subject("kernel")
	if s.Device != "kernel" || s.Traffic != "flows=2048@30" || s.FrameSize != 0 || s.Mix != "imix" || s.MeanSize != 622.8 {
		t.Errorf("subject %+v", s)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "flows=2048@30 size=imix family=ipv4:70,ipv6:30 table=full draw=per-prefix seed=9", `pcap="a b" timing=own`,
		"rdos=5tuple genome=3aA,A=100 syn bidirectional", "mix=64:1,65:2 ports=rfc4814", "2048@30", "\xff=\"\\xff\""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			e := err.(*Error)
			if e.Column < 0 || e.Width < 0 || e.Column+e.Width > len([]rune(text))+1 {
				t.Fatalf("%q: column %d width %d", text, e.Column, e.Width)
			}
			return
		}
		again, err := Parse(p.String())
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Fatalf("%q is %q, which parses to %+v, %v; expected %+v", text, p, again, err, p)
		}
		if p.Shape != Replay && (p.MeanSize() < 64 || p.MeanSize() > 1518) {
			t.Fatalf("%q: mean size %v", text, p.MeanSize())
		}
	})
}
