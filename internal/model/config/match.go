// SPDX-License-Identifier: Apache-2.0

package config

// Recognition labels flows, and may limit them, by patterns in their first payload
// bytes. What a pattern says is read by package match, which knows the grammar.
type Recognition struct {
	Packets int                    `yaml:"packets" json:"packets,omitempty" doc:"How many packets with payload are looked at, of each direction of a flow." default:"4" min:"1" max:"32"`
	Bytes   int                    `yaml:"bytes" json:"bytes,omitempty" doc:"How many bytes of the payload of such a packet are looked at." default:"256" min:"16" max:"2048"`
	Flows   int                    `yaml:"flows" json:"flows,omitempty" doc:"How many directions of flows are remembered while they are young, and where no state is kept as long as they last: 200 bytes of memory each. The longest unused go first." default:"65536" min:"1024" max:"4194304"`
	Sets    map[string]*PatternSet `yaml:"sets" json:"sets" doc:"Sets of patterns; the name of a set is the label of the flows that one of its patterns recognises. The pattern whose match ends first decides, of those that end together that of the set whose name comes first." required:"true"`
}

// PatternSet is patterns, and what may become of flows that they recognise.
type PatternSet struct {
	Description      string   `yaml:"description" json:"description,omitempty" doc:"Free text of at most 200 characters."`
	Patterns         []string `yaml:"patterns" json:"patterns,omitempty" doc:"Patterns: a regular expression between slashes, of a subset of PCRE, or bytes as hexadecimal digits. ^ is the beginning of a TCP stream or of a UDP datagram." ordered:"true" example:"/^\\x13BitTorrent protocol/"`
	File             string   `yaml:"file" json:"file,omitempty" doc:"File with a pattern a line; lines that begin with # are comments. Its name counts from the directory of the configuration, and everybody may read it (mode 0644)." example:"patterns.txt"`
	Rate             Rate     `yaml:"rate" json:"rate,omitempty" doc:"What all flows with this label together may send, both ways, IP packets counted; what is more is dropped." example:"2Mbit"`
	PacketsPerSecond int      `yaml:"packets-per-second" json:"packets-per-second,omitempty" doc:"The same in packets a second." min:"1" max:"10000000"`
	Drop             bool     `yaml:"drop" json:"drop,omitempty" doc:"Drops all packets of such flows from the one on that is recognised." default:"off"`
}
