// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

// BIRD is what a BIRD 2 routing daemon is to do in a node: the independent
// implementation that routers of this project must get along with.
type BIRD struct {
	RouterID netip.Addr
	// Announced prefixes are told to BGP peers whose Full is set. They are not
	// put into the node's kernel. They are told as coming from several origin
	// ASes, so that not all share one set of attributes.
	Announced []netip.Prefix
	BGP       []BIRDPeer
	OSPF      []BIRDOSPF
}

// BIRDPeer is one BGP session, for the family of its address.
type BIRDPeer struct {
	Name            string
	Local, Remote   netip.Addr
	LocalAS, PeerAS uint32
	Preference      int    // local preference of what is learned; 0 is 100
	Password        string // TCP MD5; "" is none
	BFD             bool
	Full            bool // tell the announced prefixes and a default route; else only what other peers told
}

// BIRDOSPF is OSPFv2 (4) or OSPFv3 (6) in area 0.
type BIRDOSPF struct {
	Family   int
	Port     string
	Password string        // MD5, key 1, OSPFv2 only; "" is none
	Dead     time.Duration // after which a silent neighbour is gone, a multiple of a second
	Stubs    []string      // ports whose networks are told
}

// IPv6 says whether the session is over IPv6.
func (p BIRDPeer) IPv6() bool { return p.Remote.Is6() }

// origins is over how many origin ASes the announced prefixes are spread.
const origins = 32

var birdConfig = template.Must(template.New("bird.conf").Parse(`log "{{.Dir}}/bird.messages" all;
router id {{.RouterID}};
protocol device { }
{{- range $family := .Families}}
protocol kernel kernel{{$family}} {
	ipv{{$family}} { import none; export where source != RTS_STATIC; };
}
{{- end}}
{{- range .Tables}}
protocol static announced{{.Family}}_{{.Origin}} {
	ipv{{.Family}} { import filter { bgp_path.prepend({{.AS}}); accept; }; };
include "{{.File}}";
}
{{- end}}
{{- if .BFD}}
protocol bfd { interface "*" { interval 100 ms; multiplier 3; }; }
{{- end}}
{{- range .BGP}}
protocol bgp {{.Name}} {
	local {{.Local}} as {{.LocalAS}};
	neighbor {{.Remote}} as {{.PeerAS}};
	{{- if .Password}}
	password "{{.Password}}";
	{{- end}}
	bfd {{if .BFD}}on{{else}}off{{end}};
	graceful restart on;
	connect delay time 1;
	connect retry time 2;
	error wait time 1, 4;
	ipv{{if .IPv6}}6{{else}}4{{end}} {
		import filter { {{if .Preference}}bgp_local_pref = {{.Preference}}; {{end}}accept; };
		export {{if .Full}}where source = RTS_STATIC{{else}}where source = RTS_BGP{{end}};
		next hop self;
	};
}
{{- end}}
{{- range .OSPF}}
protocol ospf v{{if eq .Family 4}}2{{else}}3{{end}} ospf{{.Family}} {
	ipv{{.Family}} { import all; export none; };
	area 0 {
		interface "{{.Port}}" {
			type ptp; hello 1; dead {{printf "%.0f" .Dead.Seconds}};
			{{- if .Password}}
			authentication cryptographic;
			password "{{.Password}}" { id 1; algorithm keyed md5; };
			{{- end}}
		};
		{{- range .Stubs}}
		interface "{{.}}" { stub yes; };
		{{- end}}
	};
}
{{- end}}
`))

// birdTable is one file of announced prefixes.
type birdTable struct {
	Family, Origin, AS int
	File               string
}

// StartBIRD runs BIRD in the node and returns once it answers.
func (n *Running) StartBIRD(ctx context.Context, c BIRD) (*Process, error) {
	text, err := n.renderBIRD(c)
	if err != nil {
		return nil, fmt.Errorf("BIRD in %s: %w", n.Name, err)
	}
	if err := os.WriteFile(n.birdConfig(), text, 0o600); err != nil {
		return nil, err
	}
	return n.runBIRD(ctx, n.birdConfig())
}

// RunBIRD runs BIRD with the text of a bird.conf in the node and returns once it answers.
func (n *Running) RunBIRD(ctx context.Context, config []byte) (*Process, error) {
	if err := needProgram("bird", "bird2"); err != nil {
		return nil, err
	}
	// First on trial: a running BIRD tells its log what is wrong, not its caller.
	file := n.birdConfig()
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, err
	}
	if _, err := n.Run(ctx, "bird", "-p", "-c", file); err != nil {
		return nil, err
	}
	return n.runBIRD(ctx, file)
}

func (n *Running) birdConfig() string { return filepath.Join(n.Dir, "bird.conf") }

// runBIRD runs BIRD with a configuration file.
func (n *Running) runBIRD(ctx context.Context, file string) (*Process, error) {
	if err := n.addTool("birdc", "birdc", "-s", n.birdSocket()); err != nil {
		return nil, err
	}
	p, err := n.Start("bird", "bird", "-f", "-c", file, "-s", n.birdSocket(), "-P", filepath.Join(n.Dir, "bird.pid"))
	if err != nil {
		return nil, err
	}
	return p, Until(ctx, 30*time.Second, "BIRD in "+n.Name, func() error {
		if err := p.Failed(); err != nil {
			return Hopeless{err}
		}
		_, err := n.BIRD(ctx, "show", "status")
		return err
	})
}

func (n *Running) birdSocket() string { return filepath.Join(n.Dir, "bird.ctl") }

func (n *Running) renderBIRD(c BIRD) ([]byte, error) {
	bfd := false
	for _, p := range c.BGP {
		bfd = bfd || p.BFD
	}
	tables, err := n.writeBIRDTables(c.Announced)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = birdConfig.Execute(&out, struct {
		BIRD
		Dir      string
		Families []int
		BFD      bool
		Tables   []birdTable
	}{c, n.Dir, []int{4, 6}, bfd, tables})
	return out.Bytes(), err
}

// writeBIRDTables writes the announced prefixes as lists of static routes, one
// per family and origin: BIRD reads a million of them in a second.
func (n *Running) writeBIRDTables(prefixes []netip.Prefix) ([]birdTable, error) {
	if len(prefixes) == 0 {
		return nil, nil
	}
	texts := map[birdTable]*strings.Builder{}
	var tables []birdTable
	for _, family := range []int{4, 6} {
		for origin := range origins {
			t := birdTable{family, origin, 65000 + origin, filepath.Join(n.Dir, fmt.Sprintf("announced%d-%d.conf", family, origin))}
			tables = append(tables, t)
			texts[t] = &strings.Builder{}
		}
	}
	for i, p := range prefixes {
		// Runs of neighbours in the table share an origin, as the prefixes of one network do.
		t := tables[i/8%origins]
		if p.Addr().Is6() {
			t = tables[origins+i/8%origins]
		}
		b := texts[t]
		b.WriteString("route ")
		b.WriteString(p.String())
		b.WriteString(" blackhole;\n")
	}
	for t, b := range texts {
		if err := os.WriteFile(t.File, []byte(b.String()), 0o644); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

// BIRD asks the node's BIRD by birdc.
func (n *Running) BIRD(ctx context.Context, command ...string) (string, error) {
	return n.Run(ctx, append([]string{"birdc", "-r", "-s", n.birdSocket()}, command...)...)
}

// BIRDState returns the state of a protocol of the node's BIRD, e.g. "Established".
func (n *Running) BIRDState(ctx context.Context, protocol string) (string, error) {
	out, err := n.BIRD(ctx, "show", "protocols", protocol)
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	f := strings.Fields(lines[len(lines)-1]) // Name Proto Table State Since Info
	if len(f) < 6 {
		return strings.Join(f[min(len(f), 3):], " "), nil
	}
	return f[5], nil
}
