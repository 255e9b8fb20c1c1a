// SPDX-License-Identifier: Apache-2.0

// Package figure is what a router says of itself in numbers, whoever passes them on.
package figure

// Family is one figure of several things, as the bytes that each interface has received.
type Family struct {
	Name    string // in Prometheus' words: node_network_receive_bytes_total
	Help    string
	Counter bool     // it only grows, until a restart; else it may go both ways
	Labels  []string // names of what tells the samples apart
	Samples []Sample
}

// Sample is the figure of one thing. Its labels are in the order of the family's.
type Sample struct {
	Labels []string
	Value  float64
}

// Add appends a sample.
func (f *Family) Add(value float64, labels ...string) {
	f.Samples = append(f.Samples, Sample{labels, value})
}
