// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"embed"
	"strings"
)

//go:embed builtin/*.yaml
var builtin embed.FS

// Names returns the names of the built-in topologies.
func Names() []string {
	files, err := builtin.ReadDir("builtin")
	if err != nil {
		panic(err) // they are part of the binary
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	return names
}

// Text returns the YAML of a built-in topology.
func Text(name string) ([]byte, bool) {
	data, err := builtin.ReadFile("builtin/" + name + ".yaml")
	return data, err == nil
}
