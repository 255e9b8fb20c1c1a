// SPDX-License-Identifier: Apache-2.0

package config

// Labels labels flows, and may limit them, by patterns in their first payload
// bytes. What a pattern says is read by package match, which knows the grammar.
type Labels struct {
	Packets int                    `yaml:"packets" json:"packets,omitempty" doc:"How many packets with payload are inspected in each direction of a flow." default:"4" min:"1" max:"32"`
	Bytes   int                    `yaml:"bytes" json:"bytes,omitempty" doc:"How many bytes of a packet's payload are inspected." default:"256" min:"16" max:"2048"`
	Flows   int                    `yaml:"flows" json:"flows,omitempty" doc:"Size of the inspection table, in directions of flows, 200 bytes of memory each. A new flow has an entry until inspection ends; on stateless zone pairs as long as it lasts. When the table is full, the least recently used entries go." default:"65536" min:"1024" max:"4194304"`
	Sets    map[string]*PatternSet `yaml:"sets" json:"sets" doc:"Sets of patterns. The name of a set is the label that a flow gets when one of the set's patterns matches. The match that ends first decides; of matches that end at the same byte, the set whose name sorts first." required:"true"`
}

// PatternSet is patterns, and what may become of flows that they label.
type PatternSet struct {
	Description      string   `yaml:"description" json:"description,omitempty" doc:"Free text of at most 200 characters."`
	Patterns         []string `yaml:"patterns" json:"patterns,omitempty" doc:"Patterns: a regular expression between slashes (a subset of PCRE), or bytes as hexadecimal digits. ^ is the start of a TCP stream or a UDP datagram." ordered:"true" example:"/^\\x13BitTorrent protocol/"`
	File             string   `yaml:"file" json:"file,omitempty" doc:"File with one pattern on each line; a line that begins with # is a comment. A relative path starts at the configuration's directory. The file must be readable by everybody (mode 0644)." example:"patterns.txt" names:"file"`
	Rate             Rate     `yaml:"rate" json:"rate,omitempty" doc:"Rate limit for all flows with this label together, both directions, counted in bytes of IP packets. Packets above it are dropped." example:"2Mbit"`
	PacketsPerSecond int      `yaml:"packets-per-second" json:"packets-per-second,omitempty" doc:"Rate limit in packets a second, for all flows with this label together." min:"1" max:"10000000"`
	Drop             bool     `yaml:"drop" json:"drop,omitempty" doc:"Drops flows with this label, from the packet that matches on." default:"off"`
}
